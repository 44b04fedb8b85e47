/**
 * KEYS limited, meta of the task's queue, events of the spool's; ARGV task, prefix of its queue, limit: empty for none. Sets or
 * removes the limit of a task. The event makes all masters look.
 */
export const SET_LIMIT = `
local before = redis.call('HGET', KEYS[2], 'concurrency')
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('HSET', KEYS[2], 'concurrency', ARGV[3])
elseif before then
  redis.call('HDEL', KEYS[2], 'concurrency')
end
if (before or '') ~= ARGV[3] then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', 'event', 'spoold:limit', 'task', ARGV[1])
end`

/**
 * Adds a job whose hash has its new key to the end of its priority. In BullMQ, a job of priority 0 has none: it is in the list
 * `wait`.
 */
const APPEND = `
local function append(prefix, id)
  local priority = tonumber(redis.call('HGET', prefix .. id, 'priority')) or 0
  if priority == 0 then return redis.call('LPUSH', prefix .. 'wait', id) end
  local number = redis.call('INCR', prefix .. 'pc') % 4294967296
  redis.call('ZADD', prefix .. 'prioritized', priority * 4294967296 + number, id)
end`

/**
 * KEYS limited, events; ARGV prefix of the spool's queue, task, prefix of its own queue, limit, id, token. Moves a pulled job to
 * the queue of its task.
 */
export const LIMIT = `${APPEND}
local from, to, id = ARGV[1], ARGV[3], ARGV[5]
if redis.call('GET', from .. id .. ':lock') ~= ARGV[6] then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], to)
redis.call('HSETNX', to .. 'meta', 'concurrency', ARGV[4])
redis.call('DEL', from .. id .. ':lock')
redis.call('LREM', from .. 'active', 1, id)
redis.call('RENAME', from .. id, to .. id)
append(to, id)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 10000, '*', 'event', 'spoold:limited', 'jobId', id)
return 1`

/**
 * KEYS limited; ARGV prefix of the spool's queue, how many. Moves the jobs in front whose tasks are limited to their queues, in
 * order.
 */
export const SIFT = `${APPEND}
local from = ARGV[1]
for _ = 1, tonumber(ARGV[2]) do
  local id = redis.call('ZRANGE', from .. 'prioritized', 0, 0)[1]
  local isJob = id and redis.call('TYPE', from .. id).ok == 'hash'
  local task = isJob and redis.call('HGET', from .. id, 'name')
  local to = task and redis.call('HGET', KEYS[1], task)
  if not to or redis.call('HEXISTS', to .. 'meta', 'concurrency') == 0 then return end
  redis.call('ZREM', from .. 'prioritized', id)
  redis.call('RENAME', from .. id, to .. id)
  append(to, id)
end`

/**
 * KEYS active of the spool's queue; ARGV prefix of the task's queue, prefix of the spool's, id, token, new token, ms. Hands an
 * active job on into the spool's queue, without its slot.
 */
export const UNLIMIT = `
local from, to, id = ARGV[1], ARGV[2], ARGV[3]
if redis.call('GET', from .. id .. ':lock') ~= ARGV[4] then return 0 end
redis.call('DEL', from .. id .. ':lock')
redis.call('LREM', from .. 'active', 1, id)
redis.call('RENAME', from .. id, to .. id)
redis.call('LPUSH', KEYS[1], id)
redis.call('SET', to .. id .. ':lock', ARGV[5], 'PX', ARGV[6])
redis.call('XADD', from .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'spoold:unlimited', 'jobId', id)
return 1`

/**
 * KEYS limited; ARGV ms. Forgets the names whose queues have no job, not even a dead one, and no event younger than this: the
 * next job of such a name makes its queue anew, in the step that moves the job there.
 *
 * @returns how many names were forgotten
 */
export const FORGET_LIMITED = `
local time = redis.call('TIME')
local before = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]
local limited, forgotten = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #limited, 2 do
  local queue = limited[i + 1]
  local jobs = redis.call('EXISTS', queue .. 'wait', queue .. 'paused', queue .. 'prioritized', queue .. 'delayed',
    queue .. 'active', queue .. 'failed', queue .. 'completed')
  local last = redis.call('XREVRANGE', queue .. 'events', '+', '-', 'COUNT', 1)[1]
  local isOld = not last or tonumber(string.match(last[1], '^%d+')) <= before
  if jobs == 0 and isOld and redis.call('HEXISTS', queue .. 'meta', 'paused') == 0 then
    redis.call('HDEL', KEYS[1], limited[i])
    for _, key in ipairs({ 'meta', 'events', 'id', 'pc', 'marker', 'stalled', 'stalled-check' }) do
      redis.call('DEL', queue .. key)
    end
    forgotten = forgotten + 1
  end
end
return forgotten`

/** What people look at and change is read and changed by these, each in one step. */

/**
 * KEYS delayed, prioritized, failed, active; ARGV prefix, bytes of the data that are wanted, and the ids. It only reads. For
 * each job: where it is, its score there, what it has, and of its data, which may be large, the beginning, the end and the length.
 */
const PEEK = `
local found = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local kind = redis.call('TYPE', ARGV[1] .. id).ok
  local job = kind == 'hash' and redis.call('HMGET', ARGV[1] .. id, 'timestamp', 'opts', 'progress', 'failedReason',
    'finishedOn', 'processedOn', 'data') or { kind ~= 'none' and '' }
  if not job[1] then
    found[i - 2] = false
  else
    local place, score = 'delayed', redis.call('ZSCORE', KEYS[1], id)
    if not score then place, score = 'prioritized', redis.call('ZSCORE', KEYS[2], id) end
    if not score then place, score = 'failed', redis.call('ZSCORE', KEYS[3], id) end
    if not score then place, score = redis.call('LPOS', KEYS[4], id) and 'active' or 'wait', '0' end
    local data = job[7] or ''
    found[i - 2] = { place, score, job[1], job[2] or '{}', job[3] or '', job[4] or '', job[5] or '', job[6] or '',
      string.sub(data, 1, tonumber(ARGV[2])), string.sub(data, -4), tostring(#data) }
  end
end
return found`

/**
 * KEYS job, wait, prioritized, delayed, failed, events; ARGV id, the record that it has, where it may be (1: it waits, 2: it is
 * dead), where it goes (delayed or failed), its score there, the name of the event, fields and values. @returns 1: done; 0: it
 * is elsewhere, or has another record by now
 */
const RELOCATE = `
local id = ARGV[1]
if (redis.call('HGET', KEYS[1], 'progress') or '') ~= ARGV[2] then return 0 end
local isThere
if ARGV[3] == '2' then
  isThere = redis.call('ZREM', KEYS[5], id)
  if isThere == 1 then redis.call('HDEL', KEYS[1], 'failedReason', 'finishedOn', 'processedOn', 'stacktrace') end
else
  isThere = redis.call('ZREM', KEYS[4], id)
  if isThere == 0 then isThere = redis.call('ZREM', KEYS[3], id) end
  if isThere == 0 then isThere = redis.call('LREM', KEYS[2], 1, id) end
end
if isThere == 0 then return 0 end
redis.call('ZADD', ARGV[4] == 'failed' and KEYS[5] or KEYS[4], ARGV[5], id)
redis.call('HSET', KEYS[1], unpack(ARGV, 7))
redis.call('XADD', KEYS[6], 'MAXLEN', '~', 10000, '*', 'event', ARGV[6], 'jobId', id)
return 1`

/**
 * KEYS key, job, delayed, prioritized, wait, pc, events; ARGV id, ms that the key is remembered, priority, score among the
 * delayed (empty: it may run now), fields and values. @returns the job that has the key
 */
const ARRIVE = `
local id = ARGV[1]
local known = redis.call('GET', KEYS[1])
if known then return known end
redis.call('HSET', KEYS[2], unpack(ARGV, 5))
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[3], ARGV[4], id)
elseif ARGV[3] == '0' then
  redis.call('LPUSH', KEYS[5], id)
else
  redis.call('ZADD', KEYS[4], ARGV[3] * 4294967296 + redis.call('INCR', KEYS[6]) % 4294967296, id)
end
redis.call('SET', KEYS[1], id, 'PX', ARGV[2])
redis.call('XADD', KEYS[7], 'MAXLEN', '~', 10000, '*', 'event', 'spoold:arrived', 'jobId', id)
return id`

export const RECORD_SCRIPTS = {
  peek: { keys: 4, lua: PEEK },
  relocate: { keys: 6, lua: RELOCATE },
  arrive: { keys: 7, lua: ARRIVE },
} as const

/** What BullMQ has no script for. Each is one step that nobody sees half of. */
interface Script {
  readonly keys: number
  readonly lua: string
}

/** KEYS lock, job; ARGV token, record. Writes the record if the lock is still that of the token. */
const WRITE_RECORD = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'progress', ARGV[2], 'holder', ARGV[1])
return 1`

/** KEYS lock, job; ARGV token, how the last run was cut short. Adds it to the record. */
const CUT_SHORT = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local progress = redis.call('HGET', KEYS[2], 'progress')
if not progress then return 1 end
local record = cjson.decode(progress)
record.lastRun = cjson.decode(ARGV[2])
redis.call('HSET', KEYS[2], 'progress', cjson.encode(record))
return 1`

/** KEYS lock; ARGV old token, new token, ms. Hands a lock on. */
const HAND_OVER = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

/** KEYS lock; ARGV token. */
const LET_GO = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

/**
 * KEYS active, stalled; ARGV prefix, ms, and an id and a token for each lock. As BullMQ's own extendLocks, but a lock that
 * expired while Redis or the holder stood still is taken again, if nobody has taken the job since: it is in the list of active
 * jobs, without a lock, and the last who began it is the one that asks.
 */
const RENEW = `
for i = 3, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local lock = ARGV[1] .. id .. ':lock'
  local holder = redis.call('GET', lock)
  if holder == token or (not holder and redis.call('HGET', ARGV[1] .. id, 'holder') == token
      and redis.call('LPOS', KEYS[1], id)) then
    redis.call('SET', lock, token, 'PX', ARGV[2])
    redis.call('SREM', KEYS[2], id)
  end
end`

/**
 * KEYS wait, prioritized, delayed, meta, events; ARGV prefix, how many priorities. It only reads. The score of a job in
 * "prioritized" is its priority times 2^32, and a number; in "delayed" it is its time in ms times 4096, and a number.
 */
const LOOK = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local text = function(number) return string.format('%.0f', number) end
local priorities, leftOut, oldest = {}, 0, nil
local function dueOf(id)
  local job = redis.call('HMGET', ARGV[1] .. id, 'timestamp', 'opts', 'progress')
  if not job[1] then return end
  local due = job[3] and cjson.decode(job[3]).dueAtMs or job[1] + (job[2] and cjson.decode(job[2]).delay or 0)
  if not oldest or due < oldest then oldest = due end
end
local function add(priority, count, head)
  if #priorities < tonumber(ARGV[2]) then
    priorities[#priorities + 1] = { priority, count }
    dueOf(head)
  else
    leftOut = leftOut + 1
  end
end
local due = redis.call('LLEN', KEYS[1])
if due > 0 then add(0, due, redis.call('LINDEX', KEYS[1], -1)) end
local from = 0
for _ = 1, 1000 do
  local head = redis.call('ZRANGEBYSCORE', KEYS[2], text(from), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #head == 0 then break end
  local priority = math.floor(head[2] / 4294967296)
  from = (priority + 1) * 4294967296
  add(priority, redis.call('ZCOUNT', KEYS[2], text(priority * 4294967296), '(' .. text(from)), head[1])
end
local over = text((nowMs + 1) * 4096)
local next = redis.call('ZRANGEBYSCORE', KEYS[3], over, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local last = redis.call('XREVRANGE', KEYS[5], '+', '-', 'COUNT', 1)
return cjson.encode({
  nowMs = nowMs,
  isPaused = redis.call('HEXISTS', KEYS[4], 'paused') == 1,
  due = due + redis.call('ZCARD', KEYS[2]) + redis.call('ZCOUNT', KEYS[3], '-inf', '(' .. over),
  later = redis.call('ZCOUNT', KEYS[3], over, '+inf'),
  nextDueMs = next[2] and math.floor(next[2] / 4096) or nil,
  oldestDueMs = oldest,
  priorities = priorities,
  leftOut = leftOut,
  lastEvent = last[1] and last[1][1] or '0-0',
})`

/** KEYS id, times; ARGV id, the task, now. */
const REMEMBER_ID = `
redis.call('SET', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])`

/** KEYS times; ARGV prefix, before when, how many. @returns how many were forgotten */
const FORGET_IDS = `
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
for _, id in ipairs(ids) do
  redis.call('DEL', ARGV[1] .. id)
  redis.call('ZREM', KEYS[1], id)
end
return #ids`

export type ScriptName = keyof typeof SCRIPTS
export const SCRIPTS = {
  writeRecord: { keys: 2, lua: WRITE_RECORD },
  cutShort: { keys: 2, lua: CUT_SHORT },
  handOver: { keys: 1, lua: HAND_OVER },
  letGo: { keys: 1, lua: LET_GO },
  renew: { keys: 2, lua: RENEW },
  look: { keys: 5, lua: LOOK },
  rememberId: { keys: 2, lua: REMEMBER_ID },
  forgetIds: { keys: 1, lua: FORGET_IDS },
} as const satisfies Record<string, Script>

/** What it is called beside BullMQ's own scripts. */
export function commandOf(name: ScriptName): string {
  return `spoold:${name}`
}

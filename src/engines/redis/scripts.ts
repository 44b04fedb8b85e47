import type { Cluster, Redis } from './libraries.js'
import { FORGET_LIMITED, LIMIT, SET_LIMIT, SIFT, UNLIMIT } from './limit-scripts.js'
import { LOOK } from './look-script.js'

/** A script for what BullMQ has none for. Each is one step that nobody sees half of. */
interface Script {
  /** Undefined: the number of keys comes before them. */
  readonly keys: number | undefined
  readonly lua: string
  /** The script of BullMQ that it calls, as `bullmq(KEYS, ARGV)`. */
  readonly calls?: string
}

/** KEYS lock, job; ARGV token, record. Writes the record if the lock is still that of the token. */
const WRITE_RECORD = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'progress', ARGV[2], 'holder', ARGV[1])
return 1`

/**
 * KEYS fence; ARGV for each run that begins: the prefix of its queue, the id of its job, a token and a record. Writes the records
 * as writeRecord does. Redis logs each command that writes, so one command draws all fencing tokens.
 *
 * @returns a fencing token for each; 0: the lock is not that of its token
 */
const BEGIN = `
local fences, count = {}, 0
for i = 1, #ARGV, 4 do
  local job, token = ARGV[i] .. ARGV[i + 1], ARGV[i + 2]
  local isHeld = redis.call('GET', job .. ':lock') == token
  if isHeld then redis.call('HSET', job, 'progress', ARGV[i + 3], 'holder', token) end
  fences[#fences + 1] = isHeld and 1 or 0
  count = count + fences[#fences]
end
local token = count > 0 and redis.call('INCRBY', KEYS[1], count) - count or 0
for i, one in ipairs(fences) do
  token = token + one
  fences[i] = one * token
end
return fences`

/**
 * Makes dead letters of delayed jobs that are due and are no jobs but have another type. BullMQ takes up to 1000 jobs out of
 * "delayed" before it reads the first, so all behind one that it cannot read would be lost.
 */
const SET_DUE_ASIDE = `
local function setDueAside(prefix, nowMs)
  local found
  repeat
    found = 0
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'delayed', 0, (nowMs + 1) * 4096 - 1, 'LIMIT', 0, 1000)) do
      local kind = redis.call('TYPE', prefix .. id).ok
      if kind ~= 'hash' and kind ~= 'none' then
        redis.call('ZADD', prefix .. 'failed', nowMs, id)
        redis.call('ZREM', prefix .. 'delayed', id)
        found = found + 1
      end
    end
  until found == 0
end`

/** KEYS delayed; ARGV prefix, ms. Runs before each pull. */
const BEFORE_PULL = `${SET_DUE_ASIDE}
setDueAside(ARGV[1], tonumber(ARGV[2]))`

/**
 * KEYS and ARGV of BullMQ's moveToFinished, whose ARGV[7] is the prefix of its queue; behind them the token of the lock, and a
 * record, or '' for none. The job that moveToFinished fetches begins with the record, in the same step, unless the job has one.
 *
 * @returns what moveToFinished returns; behind it the fencing token of the job that has begun
 */
const REMOVE_AND_BEGIN = `${SET_DUE_ASIDE}
if ARGV[6] == '1' then pcall(setDueAside, ARGV[7], tonumber(ARGV[2])) end
redis.pcall('HDEL', KEYS[12], 'atm') -- if it is no number, moveToFinished fails once the job is in no list
local reply = bullmq(KEYS, ARGV)
local job = type(reply) == 'table' and reply[1]
if ARGV[11] == '' or type(job) ~= 'table' then return reply end
for i = 1, #job, 2 do
  if job[i] == 'progress' then return reply end
end
redis.call('HSET', ARGV[7] .. reply[2], 'progress', ARGV[11], 'holder', ARGV[10])
reply[5] = redis.call('INCR', ARGV[7] .. 'spoold:fence')
return reply`

/**
 * KEYS lock, job; ARGV token, how the run was cut short that began with this token. Adds it to the record; there is none if no
 * run began.
 *
 * @returns 0: the lock has another token; 1: the job can be put back; 2: what is there is no job
 */
const CUT_SHORT = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then return 2 end
local progress, holder = unpack(redis.call('HMGET', KEYS[2], 'progress', 'holder'))
if not progress or holder ~= ARGV[1] then return 1 end
local isJson, record = pcall(cjson.decode, progress)
if not isJson or type(record) ~= 'table' then return 1 end
record.lastRun = cjson.decode(ARGV[2])
redis.call('HSET', KEYS[2], 'progress', cjson.encode(record))
return 1`

/**
 * KEYS active, failed, events; ARGV prefix, token, ms, why, 1: only what Redis cannot read. Makes a dead letter of what
 * was pulled with this token and is no task, whatever it is: BullMQ's own script would read it.
 *
 * @returns the ids
 */
const SET_ASIDE = `
local found = {}
local function isReadable(job)
  if redis.call('TYPE', job).ok ~= 'hash' then return false end
  local isNumber = type(redis.pcall('HINCRBY', job, 'ats', 1)) == 'number'
  if isNumber then redis.call('HINCRBY', job, 'ats', -1) end
  return isNumber
end
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local job = ARGV[1] .. id
  if redis.call('GET', job .. ':lock') == ARGV[2] and not (ARGV[5] == '1' and isReadable(job)) then
    redis.call('DEL', job .. ':lock')
    redis.call('LREM', KEYS[1], 1, id)
    redis.call('ZADD', KEYS[2], ARGV[3], id)
    if redis.call('TYPE', job).ok == 'hash' then
      redis.call('HSET', job, 'failedReason', ARGV[4], 'finishedOn', ARGV[3])
    end
    redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', 'event', 'failed', 'jobId', id, 'failedReason', ARGV[4],
      'prev', 'active')
    found[#found + 1] = id
  end
end
return found`

/**
 * KEYS job, wait, prioritized, delayed, failed; ARGV id. Removes something that has the place of a job but is none.
 *
 * @returns 1 if it was there
 */
const REMOVE_NO_JOB = `
if redis.call('TYPE', KEYS[1]).ok == 'hash' then return 0 end
local places = redis.call('LREM', KEYS[2], 0, ARGV[1])
for i = 3, 5 do places = places + redis.call('ZREM', KEYS[i], ARGV[1]) end
if places > 0 then redis.call('DEL', KEYS[1]) end
return math.min(1, places)`

/** KEYS lock; ARGV old token, new token, ms. Hands a lock on. */
const HAND_OVER = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

/**
 * KEYS names of limited tasks; ARGV prefix of the spool's own queue, and who may hold locks: tokens, or what they begin with, up
 * to a dot.
 *
 * @returns id, token and task ('': the queue is the spool's own) of each job whose lock one of them has
 */
const HELD_BY = `
local found = {}
local function lookIn(prefix, task)
  for _, id in ipairs(redis.call('LRANGE', prefix .. 'active', 0, -1)) do
    local token = redis.call('GET', prefix .. id .. ':lock') or ''
    for i = 2, #ARGV do
      if string.sub(token .. '.', 1, #ARGV[i] + 1) == ARGV[i] .. '.' then found[#found + 1] = { id, token, task } end
    end
  end
end
lookIn(ARGV[1], '')
local limited = redis.call('HGETALL', KEYS[1])
for i = 1, #limited, 2 do lookIn(limited[i + 1], limited[i]) end
return found`

/** KEYS lock; ARGV token. Removes the lock if it is that of the token. */
const LET_GO = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

/** KEYS active; ARGV prefix. It only reads. @returns the ids of the active jobs whose locks nobody has */
const UNLOCKED = `
local found = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if redis.call('EXISTS', ARGV[1] .. id .. ':lock') == 0 then found[#found + 1] = id end
end
return found`

/**
 * KEYS active, job, lock, stalled; ARGV id, token, ms. Takes the lock of an active job that nobody has.
 *
 * @returns 0: somebody has it, or the job is not active; 1: taken; 2: taken, and what is there is no job
 */
const TAKE_UNLOCKED = `
redis.call('DEL', KEYS[4]) -- nothing here uses this set, and BullMQ fails to put the job back if it is none
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
if not redis.call('SET', KEYS[3], ARGV[2], 'NX', 'PX', ARGV[3]) then return 0 end
return redis.call('TYPE', KEYS[2]).ok == 'hash' and 1 or 2`

/**
 * KEYS active; ARGV ms, and for each lock the prefix of its queue, an id and a token. Renews locks. A lock that expired while Redis or the holder stood still is taken again if nobody has taken the job since: then the job
 * is in the list of active jobs, without a lock, and the last claim that began it is the one that asks. Nothing here uses the set
 * of stalled jobs, and BullMQ settles no job if it is none.
 */
const RENEW = `
for i = 2, #ARGV, 3 do
  local prefix, id, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local lock = prefix .. id .. ':lock'
  redis.call('DEL', prefix .. 'stalled')
  local holder = redis.call('GET', lock)
  if holder == token or (not holder and redis.call('HGET', prefix .. id, 'holder') == token
      and redis.call('LPOS', prefix .. 'active', id)) then
    redis.call('SET', lock, token, 'PX', ARGV[1])
  end
end`

/**
 * KEYS times of ids, keys of ids; ARGV prefix, and for each id its job, the id, now. Runs in the transaction that adds the jobs:
 * the id of a job that could not be added is not remembered.
 */
const REMEMBER = `
for i = 2, #KEYS do
  local job, id, now = ARGV[3 * i - 4], ARGV[3 * i - 3], ARGV[3 * i - 2]
  if redis.call('EXISTS', ARGV[1] .. job) == 1 then
    redis.call('SET', KEYS[i], job)
    redis.call('ZADD', KEYS[1], now, id)
  end
end`

/** KEYS keys of ids. @returns their jobs, or '' for ids that are not known; known ids are written again as they were */
const RECALL = `
local jobs = {}
for i, key in ipairs(KEYS) do
  local job = redis.call('GET', key)
  if job then redis.call('SET', key, job, 'KEEPTTL') end
  jobs[i] = job or ''
end
return jobs`

/** KEYS times; ARGV prefix, before when, how many. Forgets the oldest ids. @returns how many were forgotten */
const FORGET_IDS = `
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
for _, id in ipairs(ids) do
  redis.call('DEL', ARGV[1] .. id)
  redis.call('ZREM', KEYS[1], id)
end
return #ids`

/**
 * KEYS periodic; ARGV task, version, the next version with its word and entry. If that word is there already, its writer asks
 * again.
 */
const ADVANCE = `
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before == ARGV[3] then return 1 end
if tonumber(before and string.match(before, '^%d+') or 0) ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** KEYS periodic; ARGV task, version. Removes the entry, unless it has a later version. */
const FORGET_VERSION = `
local text = redis.call('HGET', KEYS[1], ARGV[1])
if text and tonumber(string.match(text, '^%d+') or 0) <= tonumber(ARGV[2]) then
  redis.call('HDEL', KEYS[1], ARGV[1])
end`

/** KEYS any: a cluster needs a key to choose a node. @returns epoch ms */
const NOW = `
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)`

// The scripts below read and change what people look at and change.

/**
 * KEYS delayed, prioritized, failed, active; ARGV prefix, how many bytes of the data are wanted, and the ids. It only reads.
 * Returns for each job: where it is, its score there, what it has, and of its data, which may be large, the beginning, the end
 * and the length.
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

/** KEYS sets; ARGV from, how many. It only reads. @returns the members at these places of all sets together, by their scores */
const MERGED = `
local least, most = -9007199254740992, 9007199254740992
local function text(score)
  return score == least and '-inf' or score == most and '+inf' or string.format('%.0f', score)
end
local function below(key, score) return redis.call('ZCOUNT', key, '-inf', '(' .. text(score)) end
local function allBelow(score)
  local sum = 0
  for _, key in ipairs(KEYS) do sum = sum + below(key, score) end
  return sum
end
-- how many members of each set are among so many of all
local function ranksAt(count)
  local low, high = least, most
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if allBelow(middle) <= count then low = middle else high = middle end
  end
  local ranks, left = {}, count - allBelow(low)
  for i, key in ipairs(KEYS) do
    local equal = redis.call('ZCOUNT', key, text(low), (high == most and '' or '(') .. text(high))
    local taken = math.min(left, equal)
    ranks[i], left = below(key, low) + taken, left - taken
  end
  return ranks
end
local starts, ends = ranksAt(tonumber(ARGV[1])), ranksAt(ARGV[1] + ARGV[2])
local found = {}
for i, key in ipairs(KEYS) do
  local here = ends[i] > starts[i] and redis.call('ZRANGE', key, starts[i], ends[i] - 1, 'WITHSCORES') or {}
  for j = 1, #here, 2 do found[#found + 1] = { id = here[j], score = tonumber(here[j + 1]), place = #found } end
end
table.sort(found, function(a, b)
  if a.score ~= b.score then return a.score < b.score end
  return a.place < b.place
end)
for i, each in ipairs(found) do found[i] = each.id end
return found`

/**
 * KEYS job, wait, prioritized, delayed, failed, events; ARGV id, the record that it has, where it may be (1: it waits, 2: it is
 * dead), where it goes (delayed or failed), its score there, the name of the event, fields and values. Moves a job that does not
 * run.
 *
 * @returns 1: done; 0: the job is elsewhere, or has another record by now
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
 * delayed (empty: it may run now), fields and values. Adds a job unless the key is known.
 *
 * @returns the job that has the key
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

export type ScriptName = keyof typeof SCRIPTS
const SCRIPTS = {
  begin: { keys: 1, lua: BEGIN },
  beforePull: { keys: 1, lua: BEFORE_PULL },
  removeAndBegin: { keys: 14, lua: REMOVE_AND_BEGIN, calls: 'moveToFinished' },
  writeRecord: { keys: 2, lua: WRITE_RECORD },
  cutShort: { keys: 2, lua: CUT_SHORT },
  setAside: { keys: 3, lua: SET_ASIDE },
  removeNoJob: { keys: 5, lua: REMOVE_NO_JOB },
  handOver: { keys: 1, lua: HAND_OVER },
  heldBy: { keys: 1, lua: HELD_BY },
  letGo: { keys: 1, lua: LET_GO },
  unlocked: { keys: 1, lua: UNLOCKED },
  takeUnlocked: { keys: 4, lua: TAKE_UNLOCKED },
  renew: { keys: 1, lua: RENEW },
  look: { keys: 1, lua: LOOK },
  setLimit: { keys: 3, lua: SET_LIMIT },
  limit: { keys: 2, lua: LIMIT },
  sift: { keys: 1, lua: SIFT },
  unlimit: { keys: 1, lua: UNLIMIT },
  forgetLimited: { keys: 1, lua: FORGET_LIMITED },
  remember: { keys: undefined, lua: REMEMBER },
  recall: { keys: undefined, lua: RECALL },
  advance: { keys: 1, lua: ADVANCE },
  forgetVersion: { keys: 1, lua: FORGET_VERSION },
  forgetIds: { keys: 1, lua: FORGET_IDS },
  now: { keys: 1, lua: NOW },
  peek: { keys: 4, lua: PEEK },
  merged: { keys: undefined, lua: MERGED },
  relocate: { keys: 6, lua: RELOCATE },
  arrive: { keys: 7, lua: ARRIVE },
} as const satisfies Record<string, Script>

/** Defines the scripts for a client that has those of BullMQ. */
export function defineScripts(client: Redis | Cluster): void {
  const known = Object.entries(scriptsOf(client)) // BullMQ adds its version to the names
  for (const [name, { keys, lua, calls }] of Object.entries<Script>(SCRIPTS)) {
    const called = known.find(([known]) => known.startsWith(`${calls}:`))?.[1].lua
    const whole = called === undefined ? lua : `local function bullmq(KEYS, ARGV)\n${called}\nend\n${lua}`
    client.defineCommand(
      commandOf(name as ScriptName),
      keys === undefined ? { lua: whole } : { lua: whole, numberOfKeys: keys },
    )
  }
}

/** Returns the scripts that a client knows, by name. */
export function scriptsOf(client: object): Readonly<Record<string, { readonly lua: string }>> {
  return (client as { readonly scriptsSet: Readonly<Record<string, { lua: string }>> }).scriptsSet
}

/** Returns the name of a script beside BullMQ's own scripts. */
export function commandOf(name: ScriptName): string {
  return `spoold:${name}`
}

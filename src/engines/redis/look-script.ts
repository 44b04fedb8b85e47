import { HELD_UNTIL_MS } from '../spool/spool-file.js'

const [HELD_MS = 0] = HELD_UNTIL_MS

/**
 * KEYS names of limited tasks; ARGV prefix of the spool's own queue, how many priorities. It only reads. The score of a job in
 * "prioritized" is its priority times 2^32, plus a number; in "delayed" it is its time in ms times 4096, plus a number. Strangers
 * may have stored anything as a job: it is unknown when an unreadable job is due, and cjson writes no number that is not finite.
 */
export const LOOK = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local text = function(number) return string.format('%.0f', number) end
local finite = function(value)
  local number = tonumber(value)
  return number and number - number == 0 and number or nil
end
local numberIn = function(json, name)
  local isJson, value = pcall(cjson.decode, json or '')
  return isJson and type(value) == 'table' and finite(value[name]) or nil
end
local over, held, afterHeld = text((nowMs + 1) * 4096), '${HELD_MS * 4096}', '${(HELD_MS + 1) * 4096}'

local function lookAt(prefix, task)
  local wait, prioritized, delayed = prefix .. 'wait', prefix .. 'prioritized', prefix .. 'delayed'
  local priorities, leftOut, oldest, head = {}, 0, nil, nil
  local function dueOf(id)
    if redis.call('TYPE', prefix .. id).ok ~= 'hash' then return end
    local timestamp, opts, progress = unpack(redis.call('HMGET', prefix .. id, 'timestamp', 'opts', 'progress'))
    local stored = finite(timestamp)
    return stored and (numberIn(progress, 'dueAtMs') or stored + (numberIn(opts, 'delay') or 0))
  end
  local function add(priority, count, id)
    if #priorities == tonumber(ARGV[2]) then
      leftOut = leftOut + 1
      return
    end
    priorities[#priorities + 1] = { priority, count }
    local due = dueOf(id)
    if due and not head then head = { priority = priority, dueMs = due } end
    if due and (not oldest or due < oldest) then oldest = due end
  end
  local due = redis.call('LLEN', wait)
  if due > 0 then add(0, due, redis.call('LINDEX', wait, -1)) end
  local from = 0
  for _ = 1, 1000 do
    local first = redis.call('ZRANGEBYSCORE', prioritized, text(from), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 or not finite(first[2]) then break end
    local priority = math.floor(first[2] / 4294967296)
    from = (priority + 1) * 4294967296
    add(priority, redis.call('ZCOUNT', prioritized, text(priority * 4294967296), '(' .. text(from)), first[1])
  end
  local next = redis.call('ZRANGEBYSCORE', delayed, over, '(' .. held, 'WITHSCORES', 'LIMIT', 0, 1)
  if #next == 0 then next = redis.call('ZRANGEBYSCORE', delayed, afterHeld, '+inf', 'WITHSCORES', 'LIMIT', 0, 1) end
  local last = redis.call('XREVRANGE', prefix .. 'events', '+', '-', 'COUNT', 1)
  local meta = redis.call('HMGET', prefix .. 'meta', 'paused', 'concurrency')
  return {
    task = task,
    isPaused = meta[1] and true or false,
    due = due + redis.call('ZCARD', prioritized) + redis.call('ZCOUNT', delayed, '-inf', '(' .. over),
    later = redis.call('ZCOUNT', delayed, over, '+inf'),
    held = redis.call('ZCOUNT', delayed, held, '(' .. afterHeld),
    active = redis.call('LLEN', prefix .. 'active'),
    limit = finite(meta[2]),
    head = head,
    nextDueMs = finite(next[2]) and math.floor(next[2] / 4096),
    oldestDueMs = oldest,
    priorities = priorities,
    leftOut = leftOut,
    lastEvent = last[1] and last[1][1] or '0-0',
  }
end

local queues = { lookAt(ARGV[1]) }
local limited = redis.call('HGETALL', KEYS[1])
for i = 1, #limited, 2 do
  local isQueue, view = pcall(lookAt, limited[i + 1], limited[i])
  if isQueue then queues[#queues + 1] = view end
end
return cjson.encode({ nowMs = nowMs, queues = queues })`

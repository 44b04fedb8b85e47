import { counted } from '../../base/counted.js'
import { messageOf, SpooldError } from '../../base/errors.js'
import { openEngine } from '../../engines/open-engine.js'
import type { RedisFacts } from '../../engines/server-facts.js'
import { nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { Diagnosis } from './diagnosis.js'

/** The oldest version. Older ones lack commands that BullMQ and spoold send. */
const OLDEST = [6, 2] as const
/** Due times are compared with the clock of Redis, but workers look when their own clock says so. */
const MAX_SKEW_MS = 2000

type Finding = Pick<Diagnosis, 'level' | 'topic' | 'text' | 'fix'>

/** Examines the Redis of a spool, with the rights of the address' user. */
export async function* examineRedis(address: string): AsyncGenerator<Diagnosis> {
  let about = 'redis'
  try {
    about = nameOfRedis(address)
    const facts = await openEngine(about).facts?.()
    if (facts === undefined) return
    for (const finding of findings(facts)) yield { ...finding, about }
  } catch (error) {
    yield { level: 'error', topic: 'spool', about, text: messageOf(error), fix: fixOf(error) }
  }
}

function fixOf(error: unknown): string {
  if (error instanceof SpooldError && typeof error.details.command === 'string') return error.details.command
  return 'try redis-cli -u with this address, and fix what it says'
}

function* findings(facts: RedisFacts): Generator<Finding> {
  yield* version(facts)
  yield* rights(facts)
  yield* memory(facts)
  yield* persistence(facts)
  yield* replicas(facts)
  yield* clock(facts)
}

function* version({ info }: RedisFacts): Generator<Finding> {
  const text = info?.get('redis_version')
  if (text === undefined)
    return yield note('spool', 'it does not tell this user its version', 'ACL SETUSER … +info')
  const [major = 0, minor = 0] = text.split('.').map(Number)
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])
  if (isOld)
    yield {
      ...{ level: 'error', topic: 'spool', fix: `install Redis ${OLDEST.join('.')} or later` },
      text: `it is Redis ${text}, which lacks commands that are needed`,
    }
  else yield ok('spool', `Redis ${text} answers`)
}

function* rights({ refusal, info }: RedisFacts): Generator<Finding> {
  if (refusal === null) return yield ok('spool', 'its user may do all that is needed')
  const role = info?.get('role')
  if (role !== undefined && role !== 'master') return // a replica refuses more, and is reported below
  if (/^(\w+: )?OOM\b/.test(refusal))
    return yield {
      ...{ level: 'error', topic: 'room', text: `its memory is full: ${refusal}` },
      fix: 'raise maxmemory, or make room (spoold purge, spoold rm)',
    }
  yield {
    ...{ level: 'error', topic: 'spool', text: `its user may not do all that is needed: ${refusal}` },
    fix: 'ACL SETUSER USER ~PREFIX:* +@all -@dangerous +info',
  }
}

function* memory({ config, info }: RedisFacts): Generator<Finding> {
  const policy = config?.get('maxmemory-policy') ?? info?.get('maxmemory_policy')
  const fix = 'CONFIG SET maxmemory-policy noeviction, and write it into redis.conf'
  if (policy === undefined)
    yield note('room', 'it does not tell this user its maxmemory-policy, which must be noeviction', fix)
  else if (policy !== 'noeviction')
    yield {
      ...{ level: 'error', topic: 'room', fix },
      text: `maxmemory-policy is ${policy}: when its memory is full, Redis removes tasks`,
    }
  else yield ok('room', 'when its memory is full, Redis refuses tasks, and removes none')
}

/** Says what an acknowledged task survives. */
function* persistence({ config }: RedisFacts): Generator<Finding> {
  const appends = config?.get('appendonly')
  const syncs = config?.get('appendfsync')
  const fix = 'CONFIG SET appendonly yes, CONFIG SET appendfsync always, and write both into redis.conf'
  if (appends === undefined)
    return yield note(
      'spool',
      'it does not tell this user what it writes to disk',
      'ACL SETUSER … +config|get',
    )
  if (appends !== 'yes') {
    const saves = config?.get('save') || 'never'
    yield {
      ...{ level: 'warning', topic: 'spool', fix },
      text: `appendonly is off: if Redis dies, all since its last snapshot is lost (save: ${saves})`,
    }
  } else if (syncs === 'always') yield ok('spool', 'each acknowledged task is on its disk')
  else {
    const lost =
      syncs === 'everysec'
        ? 'up to two seconds of acknowledged tasks are'
        : 'what the system has not written is'
    yield note('spool', `appendfsync is ${syncs}: if its machine dies, ${lost} lost`, fix)
  }
}

function* replicas({ info, replicasWanted: wanted }: RedisFacts): Generator<Finding> {
  if (info === null) return
  const role = info.get('role')
  if (role !== undefined && role !== 'master')
    yield {
      ...{ level: 'error', topic: 'spool', text: `it is a ${role}, which takes no tasks` },
      fix: `name the master (${info.get('master_host')}:${info.get('master_port')}), or the sentinels`,
    }
  const connected = Number(info.get('connected_slaves') ?? 0)
  const connectedText = `${counted(connected, 'replica')} ${connected === 1 ? 'is' : 'are'} connected`
  if (wanted > connected)
    yield {
      ...{
        level: 'error',
        topic: 'spool',
        fix: 'start a replica with replicaof HOST PORT, or leave out ?wait=',
      },
      text: `?wait=${wanted}, and it has ${counted(connected, 'replica')}: tasks are stored and count as failed`,
    }
  else if (wanted > 0) yield ok('spool', `${connectedText}, and tasks wait for ${wanted}`)
  else if (connected > 0)
    yield note(
      'spool',
      `${connectedText}, and no task waits for one: a failover loses what they lack`,
      'add ?wait=1 to the address',
    )
}

function* clock({ skewMs, roundTripMs }: RedisFacts): Generator<Finding> {
  if (skewMs === null) return
  const seconds = `${(Math.abs(skewMs) / 1000).toFixed(1)} s`
  if (Math.abs(skewMs) - roundTripMs / 2 > MAX_SKEW_MS)
    yield {
      ...{
        level: 'warning',
        topic: 'clock',
        fix: 'synchronize the clocks of both machines (chrony, systemd-timesyncd)',
      },
      text:
        skewMs > 0
          ? `the clock of Redis is ${seconds} ahead of this machine's: tasks with a time start up to ${seconds} late`
          : `the clock of Redis is ${seconds} behind this machine's: tasks with a time are looked at too early, and wait again`,
    }
  else yield ok('clock', 'the clocks of Redis and of this machine agree')
}

function ok(topic: Finding['topic'], text: string): Finding {
  return { level: 'ok', topic, text }
}

function note(topic: Finding['topic'], text: string, fix: string): Finding {
  return { level: 'note', topic, text, fix }
}

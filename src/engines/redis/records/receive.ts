import { SpooldError } from '../../../base/errors.js'
import { HEADER_BYTES } from '../../../formats/protocol/header.js'
import { parseVars } from '../../../formats/protocol/vars.js'
import type { Parcel, Received } from '../../spool/admin/move.js'
import { failuresIn } from '../../spool/dead-letters.js'
import { HELD_UNTIL_MS } from '../../spool/spool-file.js'
import type { Connection } from '../connection.js'
import { TOMBSTONE_MS } from '../drafts.js'
import { checkReplicas, countReplicas } from '../once.js'
import { dataOf, jobNameOf, jobPriority, MAX_TASK_BYTES, type TaskRecord } from '../task-job.js'
import { patiently } from './patience.js'
import { scoreOf } from './walk.js'

/**
 * How long a key is kept after the move: somebody else may be about to send the same task, having found it just before it was
 * removed.
 */
const FORGET_AFTER_MS = 60_000

/** Stores a task that another spool sends, once per key, as the last of its priority. @throws SpooldError */
export async function receive(connection: Connection, parcel: Parcel, key: string): Promise<Received> {
  const { packet, bodyBytes } = parcel
  const bytes = packet.length + bodyBytes
  if (bytes > MAX_TASK_BYTES)
    return refusal(`it has ${bytes} bytes, and a spool on Redis takes at most ${MAX_TASK_BYTES}`)
  let priority: number
  try {
    priority = jobPriority(parcel.priority)
  } catch (error) {
    return refusal(error instanceof SpooldError ? error.message : String(error))
  }
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) return refusal(vars.fault)
  const data = dataOf(packet, Buffer.concat([...parcel.body()]))
  return patiently(connection, async () => {
    const nowMs = Math.floor(await connection.nowMs())
    const { name, ...times } = { name: jobNameOf(vars), ...timesOf(parcel, nowMs) }
    const fields = { name, data, priority, ...fieldsOf(parcel, times, priority) }
    const where = times.untilMs === undefined ? [''] : [scoreOf(times.untilMs)]
    const keys = [`spoold:moved:${key}`, key, 'delayed', 'prioritized', 'wait', 'pc', 'events']
    const ref = await connection.run(
      'arrive',
      ...keys.map(type => connection.key(type)),
      ...[key, TOMBSTONE_MS, priority, ...where, ...Object.entries(fields).flat()],
    )
    checkReplicas(connection, await countReplicas(connection, [connection.key('meta')]))
    return { kind: 'received', ref: String(ref) }
  })
}

/** Lets a key expire, because nobody asks for it again. */
export async function forgetKey(connection: Connection, key: string): Promise<void> {
  const { redis } = connection
  const name = connection.key(`spoold:moved:${key}`)
  await connection.use(() => redis.pexpire(name, FORGET_AFTER_MS)).catch(() => {}) // the key expires by itself
}

function refusal(detail: string): Received {
  return { kind: 'refused', detail }
}

interface Times {
  readonly timestamp: number
  readonly delay: number
  /** Undefined: the task may run now. */
  readonly untilMs: number | undefined
}

/** Returns the times of a task that arrives: it is as old as it was, and due when it was. */
function timesOf({ arrivedAtMs, dueAtMs, isHeld }: Parcel, nowMs: number): Times {
  const timestamp = Math.floor(Math.min(arrivedAtMs ?? nowMs, nowMs))
  const later = dueAtMs > nowMs ? Math.ceil(dueAtMs) : undefined
  const untilMs = isHeld ? HELD_UNTIL_MS[0] : later
  return { timestamp, delay: Math.max(0, Math.ceil(dueAtMs) - timestamp), untilMs }
}

function fieldsOf(parcel: Parcel, { timestamp, delay }: Times, priority: number) {
  const opts = JSON.stringify({ priority, delay, attempts: 1 })
  const record = recordFor(parcel)
  return { timestamp, delay, opts, ...(record === undefined ? {} : { progress: JSON.stringify(record) }) }
}

function recordFor({ record, past, isHeld }: Parcel): TaskRecord | undefined {
  if (record === undefined && past === 'none' && !isHeld) return undefined
  const { policy = {}, ...failures } = record ?? {}
  return { ...failuresIn(failures), policy, past, ...(isHeld ? { isHeld } : {}) }
}

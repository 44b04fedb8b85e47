import { type FieldKind, hasFields } from '../../base/json-guard.js'
import { type Ref, toByteString } from '../../base/task/ref.js'
import {
  type DaemonFacts,
  type DaemonSnapshot,
  type NamedStats,
  type RunningTask,
  SNAPSHOT_VERSION,
} from './snapshot.js'

type Fields = Readonly<Record<string, FieldKind>>

const DAEMON: Fields = {
  pid: 'count',
  version: 'text',
  state: 'text',
  startedAtMs: 'time',
  isQuiet: 'flag',
  host: 'text',
  files: 'texts',
  rssBytes: 'count',
}
const SNAPSHOT: Fields = {
  version: 'count',
  atMs: 'time',
  daemon: 'object',
  spools: 'objects',
  schedules: 'objects',
}
const NAMED: Fields = {
  name: 'text',
  running: 'count',
  started: 'count',
  done: 'count',
  retried: 'count',
  buried: 'count',
  other: 'count',
  killed: 'count',
  ranMs: 'time',
  rates: 'object',
}
const SPOOL: Fields = {
  directory: 'text',
  tasks: 'object',
  totals: 'object',
  rates: 'object',
  times: 'object',
  named: 'objects',
  processes: 'object',
  dead: 'object',
  records: 'object',
  paused: 'object',
}
const TASKS: Fields = {
  due: 'count',
  isWhole: 'flag',
  running: 'count',
  unseen: 'count',
  waiting: 'count',
  later: 'count',
  held: 'count',
  unreadable: 'count',
  parked: 'object',
  priorities: 'objects',
  prioritiesLeftOut: 'count',
}
const SLOT_QUEUE: Fields = { name: 'text', count: 'count', parked: 'count' }
const TOTALS: Fields = {
  done: 'count',
  retried: 'count',
  errors: 'count',
  buried: 'count',
  setAside: 'count',
  crashes: 'count',
  overran: 'count',
}
const RATE: Fields = { m1: 'time', m5: 'time', m15: 'time' }
const TIMES: Fields = { count: 'count', p50Micros: 'time', p95Micros: 'time', p99Micros: 'time' }
const PROCESSES: Fields = {
  wanted: 'count',
  present: 'count',
  delayed: 'count',
  size: 'object',
  workers: 'objects',
}
const WORKER: Fields = { pid: 'count', state: 'text', ran: 'count', running: 'objects', spawnedAtMs: 'time' }
const DEAD: Fields = { count: 'count', isWhole: 'flag', byReason: 'object' }
const DISK: Fields = { freeBytes: 'time', totalBytes: 'time', freeInodes: 'time', totalInodes: 'time' }
const LOOK: Fields = { everyMs: 'time', hints: 'text', watched: 'count', refused: 'count', lastMs: 'time' }

/**
 * Checks an answer that came from a control socket. The owner of a spool can answer there with anything.
 *
 * @returns undefined if the answer is not a snapshot that this program understands
 */
export function readSnapshot(value: unknown): DaemonSnapshot | undefined {
  const isRight = hasFields(value, SNAPSHOT, {}) && isSnapshot(value as DaemonSnapshot)
  return isRight ? (value as DaemonSnapshot) : undefined
}

/**
 * Returns which daemon answers. The version of the rest does not matter, so that an old daemon can still be asked to be quiet.
 */
export function readDaemonFacts(value: unknown): DaemonFacts | undefined {
  if (!hasFields(value, { daemon: 'object' }, {})) return undefined
  const { daemon } = value as Pick<DaemonSnapshot, 'daemon'>
  return hasFields(daemon, DAEMON, {}) ? daemon : undefined
}

function isSnapshot({ version, daemon, spools, schedules }: DaemonSnapshot): boolean {
  return (
    version === SNAPSHOT_VERSION &&
    hasFields(daemon, DAEMON, {}) &&
    spools.every(isSpool) &&
    schedules.every(isSchedule)
  )
}

function isSchedule(each: DaemonSnapshot['schedules'][number]): boolean {
  const { schedule, nextAtMs, pausedSinceMs } = each
  const isNamed = () => schedule.kind !== 'periodic' || hasFields(schedule, { name: 'text' }, {})
  return (
    [nextAtMs, pausedSinceMs].every(isNumberOrNull) &&
    hasFields(each, { schedule: 'object', id: 'text', origin: 'text' }, {}) &&
    hasFields(schedule, { kind: 'text' }, {}) &&
    isNamed()
  )
}

function isSpool(spool: DaemonSnapshot['spools'][number]): boolean {
  if (!hasFields(spool, SPOOL, {})) return false
  const { tasks, totals, rates, times, processes, dead, paused, disk, look } = spool
  return (
    hasFields(tasks, TASKS, { slotQueues: 'objects' }) &&
    (tasks.slotQueues ?? []).every(queue => hasFields(queue, SLOT_QUEUE, {})) &&
    [
      tasks.stored,
      tasks.countedAtMs,
      tasks.oldestDueMs,
      tasks.nextDueMs,
      tasks.unseenSinceMs,
      rates.failedShare,
    ].every(isNumberOrNull) &&
    tasks.priorities.every(each => hasFields(each, { due: 'count' }, {}) && isTextOrNull(each.priority)) &&
    Object.values(tasks.parked).every(isNumber) &&
    spool.named.every(isNamedStats) &&
    hasFields(totals, TOTALS, {}) &&
    [rates.done, rates.failed].every(rate => hasFields(rate, RATE, {})) &&
    [times.ran, times.waited].every(each => hasFields(each, TIMES, {})) &&
    hasFields(processes, PROCESSES, {}) &&
    processes.workers.every(isWorker) &&
    hasFields(dead, DEAD, {}) &&
    Object.values(dead.byReason).every(isNumber) &&
    [dead.newestMs, dead.oldestMs].every(isNumberOrNull) &&
    arePauses(paused) &&
    (disk === null || hasFields(disk, DISK, {})) &&
    (look === null || (hasFields(look, LOOK, {}) && isNumberOrNull(look.lastAtMs)))
  )
}

function isNamedStats(each: NamedStats): boolean {
  return (
    hasFields(each, NAMED, {}) &&
    isNumberOrNull(each.slots) &&
    [each.rates.done, each.rates.failed].every(rate => hasFields(rate, RATE, {}))
  )
}

function arePauses(paused: DaemonSnapshot['spools'][number]['paused']): boolean {
  if (!hasFields(paused, { pauses: 'objects' }, { fault: 'text' })) return false
  const isPair = (pair: unknown) =>
    Array.isArray(pair) && pair.length === 2 && pair.every(each => typeof each === 'string')
  const isTime = (ms: unknown) => isNumber(ms) && !Number.isNaN(new Date(Number(ms)).getTime())
  return paused.pauses.every(
    ({ pair, sinceMs, untilMs }) =>
      isTime(sinceMs) && (untilMs === null || isTime(untilMs)) && (pair === null || isPair(pair)),
  )
}

function isWorker(worker: DaemonSnapshot['spools'][number]['processes']['workers'][number]): boolean {
  return (
    hasFields(worker, WORKER, {}) &&
    isNumberOrNull(worker.rssBytes) &&
    worker.running.every(each => hasFields(each, { task: 'text', sinceMs: 'time' }, {}))
  )
}

function isNumber(value: unknown): boolean {
  return Number.isFinite(value)
}

function isNumberOrNull(value: unknown): boolean {
  return value === null || isNumber(value)
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string'
}

/** Returns the ref of a running task, whether its bytes are UTF-8 or not. */
export function runningRef({ task, ref }: RunningTask): Ref {
  return ref ?? toByteString(task)
}

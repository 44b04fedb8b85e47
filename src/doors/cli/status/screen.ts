import { counted } from '../../../base/counted.js'
import type { MemberFacts } from '../../../base/task/member.js'
import { describePauses, isWholePaused } from '../../../base/task/pause.js'
import type { ServerStatus } from '../../../engines/server-facts.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import type {
  Distribution,
  Rate,
  SpoolSnapshot,
  TaskCounts,
  WorkerSnapshot,
} from '../../../runtime/stats/snapshot.js'
import { countText, shortDuration } from '../render.js'
import { bytes, clipped, LABEL, row, wrapped } from './rows.js'
import type { AloneStatus, DaemonStatus, SpoolStatus } from './spool-status.js'
import { dueOf } from './thresholds.js'

/** The most names of tasks that wait for slots; further ones are only counted. */
const MOST_QUEUES = 5
/** The most workers with a line each; further ones are only counted. */
const MOST_WORKERS = 16

/** Yields the lines of one spool, for people. */
export function* screenOf(status: SpoolStatus): Generator<string> {
  if (status.source === 'none') {
    yield* wrapped(`${status.directory}:`, [status.because])
    return
  }
  yield status.directory
  yield* row('daemon', status.source === 'daemon' ? daemonOf(status) : [noDaemon(status)])
  const paused = describePauses(status.paused)
  if (paused !== '') yield* row('paused', [paused])
  yield* row('tasks', tasksOf(status))
  const priorities = prioritiesOf(status.tasks)
  if (priorities.length > 0) yield* row('priorities', priorities)
  if (status.source === 'daemon') yield* activity(status)
  yield* row('dead', deadOf(status))
  if (status.disk !== null) yield* row('disk', diskOf(status.disk))
  if (status.redis !== undefined)
    for (const [label, parts] of redisRows(status.redis)) yield* row(label, parts)
  if (status.source === 'daemon') yield* processes(status)
}

/**
 * Returns the counts for the first line. Several daemons of one spool have its tasks in common, so the highest of their counts is
 * taken; but of a directory, each daemon knows only the running tasks of its own, so these are added up.
 */
export function summaryOf(statuses: readonly SpoolStatus[]): string {
  const known = statuses.filter(each => each.source !== 'none')
  const spools = [...new Set(known.map(({ directory }) => directory))]
  const sum = (value: (status: AloneStatus | DaemonStatus) => number, isShared = (_spool: string) => true) =>
    spools
      .map(spool => {
        const values = known.filter(({ directory }) => directory === spool).map(value)
        return isShared(spool) ? Math.max(...values) : values.reduce((total, each) => total + each)
      })
      .reduce((total, each) => total + each, 0)
  const isLower = known.some(each => !dueOf(each).isWhole)
  const due = `${isLower ? 'at least ' : ''}${countText(sum(each => dueOf(each).count))} due`
  const unseen = sum(each => dueOf(each).unseen)
  const parts = [
    due,
    ...(unseen > 0 ? [unseenText(unseen)] : []),
    `${sum(({ tasks }) => tasks.running, isRedisAddress)} running`,
    `${countText(sum(({ tasks }) => tasks.waiting - tasks.held))} waiting`,
    ...heldText(sum(({ tasks }) => tasks.held)),
  ]
  const paused = known.some(each => each.paused !== null && isWholePaused(each.paused)) ? ['paused'] : []
  return [...parts, `${countText(sum(({ dead }) => dead.count))} dead`, ...paused].join(', ')
}

function daemonOf({ daemon, atMs }: DaemonStatus): string[] {
  const { pid, host, version, state, startedAtMs, isQuiet, files } = daemon
  const who = `pid ${pid} on ${host}`
  return [
    who,
    `spoold ${version}`,
    `${state} for ${shortDuration(atMs - startedAtMs)}`,
    ...(isQuiet ? ['quiet: it gives out no tasks'] : []),
    ...files,
  ]
}

function noDaemon({ because, source }: AloneStatus): string {
  const shows = source === 'redis' ? 'what Redis shows' : 'what the directory itself shows'
  if (because === null) return `none answers${source === 'redis' ? ' here' : ''}; this is ${shows}`
  return `cannot be asked (${because}); this is ${shows}`
}

function tasksOf(status: AloneStatus | DaemonStatus): string[] {
  const { tasks, atMs } = status
  const { running, waiting, held, oldestDueMs, nextDueMs, stored, countedAtMs } = tasks
  const due = dueOf(status)
  const age = oldestDueMs === null ? '' : ` (oldest ${shortDuration(atMs - oldestDueMs)})`
  const next = nextDueMs === null ? '' : ` (next in ${shortDuration(nextDueMs - atMs)})`
  const counted = countedAtMs === null ? '' : ` (counted ${shortDuration(atMs - countedAtMs)} ago)`
  const more = status.source === 'daemon' ? unreadableOf(tasks) : otherStates(status)
  return [
    `${due.isWhole ? '' : 'at least '}${countText(due.count)} due${age}`,
    ...(due.unseen > 0 ? [unseenText(due.unseen)] : []),
    `${running} running`,
    `${countText(waiting - held)} waiting${next}`,
    ...heldText(held),
    ...more,
    ...parkedOf(tasks),
    stored === null ? 'being counted' : `${countText(stored)} in all${counted}`,
  ]
}

function heldText(held: number): string[] {
  return held === 0 ? [] : [`${countText(held)} held`]
}

function unseenText(unseen: number): string {
  return `${countText(unseen)} not looked at yet`
}

/** Shows that tasks cannot run in a spool, for instance because the disk is read-only, or because of a file-size limit. */
function unreadableOf({ unreadable }: TaskCounts): string[] {
  return unreadable === 0 ? [] : [`${countText(unreadable)} of them cannot be read or begun: see the log`]
}

function parkedOf({ parked, slotQueues = [] }: TaskCounts): string[] {
  const reasons = Object.entries(parked).map(
    ([reason, parkedCount]) => `${countText(parkedCount)} parked: ${reason}`,
  )
  const queues = slotQueues
    .slice(0, MOST_QUEUES)
    .map(queue => `${countText(queue.parked)} of ${queue.name} (${countText(queue.count)} at a time)`)
  const more =
    slotQueues.length > MOST_QUEUES ? [`and ${counted(slotQueues.length - MOST_QUEUES, 'more name')}`] : []
  return [...reasons, ...queues, ...more]
}

function otherStates({ states, tasks }: AloneStatus): string[] {
  const rest = (['retrying', 'incomplete', 'malformed', 'unreadable'] as const).flatMap(state =>
    states[state] === undefined ? [] : [`${countText(states[state])} ${state}`],
  )
  return tasks.isWhole ? rest : [...rest, 'of those that were read']
}

function prioritiesOf({ priorities, prioritiesLeftOut }: TaskCounts): string[] {
  if (priorities.every(({ priority }) => priority === null)) return []
  const named = priorities.map(({ priority, due }) => `${priority ?? 'none'}: ${countText(due)}`)
  return prioritiesLeftOut === 0 ? named : [...named, `and ${prioritiesLeftOut} more`]
}

function* activity(status: DaemonStatus): Generator<string> {
  const { rates, times, totals, look, atMs } = status
  const periodic = periodicOf(status)
  if (periodic.length > 0) yield* row('periodic', periodic)
  const { done, failedShare } = rates
  const failed = failedShare === null ? [] : [`${percent(failedShare)} failed in 5 minutes`]
  yield* row('rate', [`${perSecond(done)} tasks/s over 1, 5 and 15 minutes`, ...failed])
  if (times.ran.count > 0)
    yield* row('times', [`runs ${quantiles(times.ran)}`, `waits ${quantiles(times.waited)}`])
  const { retried, errors, buried, setAside, unsettled, crashes, overran } = totals
  const rare = {
    retried,
    errors,
    buried,
    'set aside': setAside,
    'not settled': unsettled,
    crashes,
    'over their deadline': overran,
  }
  const others = Object.entries(rare).filter(([, number]) => number > 0)
  yield* row('since start', [
    `${countText(totals.done)} done`,
    ...others.map(([name, number]) => `${countText(number)} ${name}`),
  ])
  if (look === null) return
  const ago =
    look.lastAtMs === null ? [] : [`scanned ${shortDuration(atMs - look.lastAtMs)} ago in ${look.lastMs} ms`]
  const lost = look.refused > 0 ? [`${counted(look.refused, 'directory', 'directories')} unwatched`] : []
  yield* row('new tasks', [
    `by ${hintsOf(look.hints)}`,
    `scan every ${shortDuration(look.everyMs)}`,
    ...ago,
    ...lost,
  ])
}

function hintsOf(hints: string): string {
  return { events: 'events', poll: 'looking every second' }[hints] ?? 'scans alone'
}

function deadOf({ dead, records, atMs }: AloneStatus | DaemonStatus): string[] {
  const reasons = Object.entries(dead.byReason).map(([reason, number]) => `${countText(number)} ${reason}`)
  const all = `${dead.isWhole ? '' : 'at least '}${countText(dead.count)}`
  const newest = dead.newestMs === null ? [] : [`last ${shortDuration(atMs - dead.newestMs)} ago`]
  const failed =
    records.count === 0
      ? []
      : [
          `${countText(records.count)} ${records.count === 1 ? 'task that failed or is held waits' : 'tasks that failed or are held wait'}`,
        ]
  return [reasons.length === 0 ? all : `${all} (${reasons.join(', ')})`, ...newest, ...failed]
}

function diskOf({
  freeBytes,
  totalBytes,
  freeInodes,
  totalInodes,
}: NonNullable<SpoolSnapshot['disk']>): string[] {
  const inodes = totalInodes === 0 ? [] : [`${percent(freeInodes / totalInodes)} of the inodes`]
  return [`${bytes(freeBytes)} free (${percent(totalBytes === 0 ? 0 : freeBytes / totalBytes)})`, ...inodes]
}

function* processes({
  processes: { wanted, present, delayed, size, workers },
  atMs,
}: DaemonStatus): Generator<string> {
  const late = delayed > 0 ? [`${delayed} wait to be started again after a failure`] : []
  yield* row('workers', [`${present} of ${wanted}`, ...sizeText(size), ...late])
  for (const worker of workers.slice(0, MOST_WORKERS)) yield clipped(workerLine(worker, atMs))
  if (workers.length > MOST_WORKERS) yield `  and ${workers.length - MOST_WORKERS} more`
}

/** Returns how the number of processes is chosen; nothing if it is fixed. */
function sizeText({
  algorithm,
  minimum,
  maximum,
  reason,
  isByHand,
}: SpoolSnapshot['processes']['size']): string[] {
  const by = isByHand ? 'by hand' : algorithm
  if (by === null) return []
  const why = reason === null || isByHand ? '' : `: ${reason}`
  return [`${by}, ${minimum} to ${maximum}${why}`]
}

function workerLine({ pid, state, running, ran, rssBytes }: WorkerSnapshot, atMs: number): string {
  const [first, ...others] = running
  const memory = rssBytes === null ? '' : `, ${bytes(rssBytes)}`
  const facts = `${countText(ran)} done${memory}`
  const at = `  pid ${pid}`.padEnd(LABEL + 2)
  if (first === undefined) return `${at}${state === 'ready' ? 'idle' : state}; ${facts}`
  const more = others.length > 0 ? ` and ${others.length} more` : ''
  return `${at}${shortDuration(atMs - first.sinceMs)}; ${facts}; ${first.task}${more}`
}

function perSecond({ m1, m5, m15 }: Rate): string {
  return [m1, m5, m15].map(rate => (rate < 10 ? rate.toFixed(2) : countText(Math.round(rate)))).join(', ')
}

function quantiles({ p50Micros, p95Micros, p99Micros }: Distribution): string {
  return `${micros(p50Micros)} (95 %: ${micros(p95Micros)}, 99 %: ${micros(p99Micros)})`
}

function micros(value: number): string {
  if (value < 1000) return `${Math.round(value)} µs`
  return value < 1_000_000 ? `${Math.round(value / 1000)} ms` : shortDuration(value / 1000)
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`
}

/** The most periodic tasks, members or limits in a row; further ones are only counted. */
const MOST = 16

/** Returns when the periodic tasks of a spool are due, the next ones first. */
function periodicOf({ schedules, atMs }: DaemonStatus): string[] {
  const known = schedules.flatMap(({ schedule, nextAtMs, pausedSinceMs }) =>
    schedule.kind === 'periodic' ? [{ name: schedule.name, nextAtMs, pausedSinceMs }] : [],
  )
  const sorted = known.sort((a, b) => (a.nextAtMs ?? 0) - (b.nextAtMs ?? 0))
  const left = sorted.slice(0, MOST).map(({ name, nextAtMs, pausedSinceMs }) => {
    if (pausedSinceMs) return `${name} paused`
    if (nextAtMs === null) return name
    return nextAtMs <= atMs ? `${name} now` : `${name} in ${shortDuration(nextAtMs - atMs)}`
  })
  return sorted.length > left.length ? [...left, `${sorted.length - left.length} more`] : left
}

/** Yields the rows that only a spool on Redis has, by label. */
function* redisRows(redis: ServerStatus): Generator<[label: string, parts: readonly string[]]> {
  yield ['redis', [versionOf(redis), memoryOf(redis), persistenceOf(redis)].filter(part => part !== '')]
  yield ['run by', cut(redis.members, memberText)]
  if (redis.limits.length > 0) yield ['limits', cut(redis.limits, limitText)]
}

function versionOf({ version, role }: ServerStatus): string {
  const is = version === null ? 'it does not tell this user what it is' : `version ${version}`
  return role === null || role === 'master' ? is : `${is}, a ${role}`
}

function memoryOf({ usedBytes, maxBytes }: ServerStatus): string {
  if (usedBytes === null) return ''
  return maxBytes === null || maxBytes === 0
    ? `${bytes(usedBytes)} used`
    : `${bytes(usedBytes)} of ${bytes(maxBytes)} used`
}

function persistenceOf({ appends, syncs }: ServerStatus): string {
  if (appends === null) return ''
  return appends ? `appendfsync ${syncs ?? ''}` : 'appendonly is off'
}

function memberText({ host, pid, isDaemon, present, wanted, running, isHalted }: MemberFacts): string {
  const what = isDaemon ? 'daemon' : 'program'
  const halted = isHalted ? ', starts nothing' : ''
  return `${what} ${pid} on ${host} (${present} of ${counted(wanted, 'worker')}, ${running} running${halted})`
}

function limitText({ name, count, running, due }: ServerStatus['limits'][number]): string {
  return `${name}: ${running} of ${count} run, ${due} due`
}

function cut<T>(all: readonly T[], text: (each: T) => string): string[] {
  const shown = all.slice(0, MOST).map(text)
  if (shown.length === 0) return ['none that has said so lately']
  return all.length > MOST ? [...shown, `and ${all.length - MOST} more`] : shown
}

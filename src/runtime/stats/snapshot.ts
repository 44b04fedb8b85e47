import type { ParkReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import type { PeriodicTask, Schedule } from '../../base/task/schedule.js'
import type { SlotQueueStats } from '../../base/task/terms.js'
import type { LookStats } from '../../engines/contracts/look-stats.js'
import type { DeadStats, DiskStats, UpkeepStats } from '../../engines/contracts/upkeep.js'
import type { PriorityStats } from '../../engines/feed.js'

// Longer than other files: it has the whole shape, from which docs/status.md is generated.
/** Grows when a field changes its meaning or is removed. A new field does not change it. */
export const SNAPSHOT_VERSION = 1

/**
 * The state of a daemon at one moment. `status`, the stats server, the metrics and all views of them use this one shape.
 * It is plain JSON. Times are epoch ms. Names that are not UTF-8 have replacement characters. No packet or environment is in it.
 */
export interface DaemonSnapshot {
  readonly version: typeof SNAPSHOT_VERSION
  /** When the snapshot was taken. */
  readonly atMs: number
  readonly daemon: DaemonFacts
  /** The spools whose tasks the daemon runs. */
  readonly spools: readonly SpoolSnapshot[]
  readonly schedules: readonly ScheduleSnapshot[]
  readonly sockets: readonly SocketSnapshot[]
}

export interface DaemonFacts {
  readonly pid: number
  readonly version: string
  readonly state: 'starting' | 'running' | 'reloading' | 'stopping' | 'stopped'
  readonly startedAtMs: number
  /** True while the daemon is quiet: it gives out no tasks until the next SIGTSTP. */
  readonly isQuiet: boolean
  readonly host: string
  readonly uid: number
  readonly gid: number
  /** The working directory of the daemon. */
  readonly directory: string
  /** The configuration files in effect. */
  readonly files: readonly string[]
  /** Resident memory of the master. */
  readonly rssBytes: number
  /** Tasks that the daemon itself stored, for network peers and for handlers. `refused`: requests that it refused. */
  readonly stored: number
  readonly refused: number
}

export interface SpoolSnapshot {
  /** The real path of the spool, or its name in an engine without paths. */
  readonly directory: string
  readonly tasks: TaskCounts
  /** Counts since the daemon started, or took up the spool. */
  readonly totals: Totals
  readonly rates: Rates
  readonly times: Times
  /** Named tasks that have run, at most 100 names and all others together, most runs first. */
  readonly named: readonly NamedStats[]
  readonly processes: Processes
  readonly dead: DeadStats
  /** The number of tasks that have failed or are held. It is a lower bound if `isWhole` is false. */
  readonly records: UpkeepStats['records']
  readonly paused: UpkeepStats['paused']
  /** The disk that the spool is on. Null: unknown, or the file system does not answer. */
  readonly disk: DiskStats | null
  /** How new tasks are noticed. Null: the engine is told of each task. */
  readonly look: LookStats | null
  /** Whether this daemon fires the schedules of the spool. `asking`: not known yet. Null: the spool has no schedules. */
  readonly leadership: 'asking' | 'leading' | 'waiting' | 'stopped' | null
}

export interface TaskCounts {
  /** Tasks that do not run yet, and that may run now, as somebody has seen. */
  readonly due: number
  /** False if more tasks are due than are in memory. */
  readonly isWhole: boolean
  /** Tasks that may have begun; on Redis also those of other daemons, and of one that has died, until they are given back. */
  readonly running: number
  /** Tasks that nobody has looked at yet, or that a worker has but has not begun. They may be due or later. */
  readonly unseen: number
  /** Since when there has always been an unseen task that no worker had, epoch ms. Null: there is none. */
  readonly unseenSinceMs: number | null
  /** Tasks that are not due yet, or that are parked. */
  readonly waiting: number
  /** The part of `waiting` whose time has not come. */
  readonly later: number
  /** The part of `later` that people hold: nothing runs it until they release it. */
  readonly held: number
  /** The part of `waiting` whose file is not a task, or cannot be read, or cannot be begun. */
  readonly unreadable: number
  /** How many due tasks are parked, by what they wait for. */
  readonly parked: Readonly<Partial<Record<ParkReason, number>>>
  /** Tasks that wait for a slot, by their name, most first, at most 100 names. Absent: none wait. */
  readonly slotQueues?: readonly SlotQueueStats[]
  /** All stored tasks. If not `isWhole`: as counted at `countedAtMs`, less those that ended since. Null: not counted yet. */
  readonly stored: number | null
  /** When the names were counted. Null: `stored` is exact. */
  readonly countedAtMs: number | null
  /** Due and unseen tasks by priority, most urgent first. If not `isWhole`: all tasks of each directory when it was counted. */
  readonly priorities: readonly PriorityStats[]
  /** How many further priorities have tasks. */
  readonly prioritiesLeftOut: number
  /** Since when the oldest due task in memory has been due. Null: none is due, or the time is unknown. */
  readonly oldestDueMs: number | null
  /** When the next task becomes due without an event. */
  readonly nextDueMs: number | null
}

/** Tasks that are unseen for this many ms count as a backlog. The first 10,000 are seen in much less, whatever the workers do. */
const UNSEEN_MS = 10_000

/**
 * Returns how many tasks are due, for a comparison with a limit. Unseen tasks count only after `UNSEEN_MS`, because before that
 * they may be a day's schedule of later tasks that a start has just found.
 */
export function backlogOf(tasks: TaskCounts, atMs: number): number {
  return tasks.due + (isSettled(tasks, atMs) ? tasks.unseen : 0)
}

/** False while there have been unseen tasks for less than `UNSEEN_MS`, because somebody may be about to look at them. */
export function isSettled({ unseen, unseenSinceMs }: TaskCounts, atMs: number): boolean {
  return unseen === 0 || unseenSinceMs === null || atMs - unseenSinceMs >= UNSEEN_MS
}

/** How runs ended, and what else happened. */
export interface Totals {
  /** Runs that ended with SPOOL_OK. */
  readonly done: number
  /** Runs whose task runs again because the handler asked for it. `errors`: because the handler threw. */
  readonly retried: number
  readonly errors: number
  /** Runs in which all handlers answered SPOOL_IGNORE. */
  readonly ignored: number
  /** Tasks that became dead letters after a run. `setAside`: without a run. */
  readonly buried: number
  readonly setAside: number
  /** Runs that could not be settled. */
  readonly unsettled: number
  /** Processes that died unasked. `overran`: those that overran a deadline. `hostsDied`: interpreters that died. */
  readonly crashes: number
  readonly overran: number
  readonly hostsDied: number
  /** Processes that were killed because they did not stop within their mercy. */
  readonly outOfMercy: number
  readonly spawned: number
  readonly recycled: number
  /** How often the system stopped reporting changes of the directory. */
  readonly watchesLost: number
  /** Dead letters that were removed because of their age or number. */
  readonly purged: number
}

/** Runs of the tasks of one name, since the daemon started or took up the spool. */
export interface NamedStats {
  /** The name of the task. Empty: all further names together. */
  readonly name: string
  /** How many may run at a time, over all daemons. Null: there is no limit. */
  readonly slots: number | null
  /** How many tasks of this name the daemon runs now. */
  readonly running: number
  readonly started: number
  /** Runs that ended with SPOOL_OK. */
  readonly done: number
  /** Runs whose task runs again, because its handler asked for it or threw. */
  readonly retried: number
  /** Runs after which the task became a dead letter. */
  readonly buried: number
  /** Runs that ended otherwise: no handler took the task, or it could not be settled. */
  readonly other: number
  /** Runs that ended with their process. One that died within 20 ms of its start is missing, because it was not reported yet. */
  readonly killed: number
  /** The sum of the times that the ended runs took. */
  readonly ranMs: number
  /** `failed`: retried, buried or killed. */
  readonly rates: Pick<Rates, 'done' | 'failed'>
}

/** Events per second over the last 1, 5 and 15 minutes, or since the start if that is shorter. */
export interface Rate {
  readonly m1: number
  readonly m5: number
  readonly m15: number
}

export interface Rates {
  /** Runs that ended with SPOOL_OK. */
  readonly done: Rate
  /** Runs that ended otherwise: retried, with an error, buried, unsettled, or with the death of their process. */
  readonly failed: Rate
  /** The share of failed runs in the last five minutes, 0 to 1. Null: nothing ran. */
  readonly failedShare: number | null
}

/** How long runs took, and how long their tasks had waited. */
export interface Times {
  /** When the measurement began. */
  readonly sinceMs: number
  readonly ran: Distribution
  readonly waited: Distribution
}

export interface Distribution {
  readonly count: number
  readonly sumMicros: number
  /** Exact to within a factor of 1.5. 0: nothing was measured. */
  readonly p50Micros: number
  readonly p95Micros: number
  readonly p99Micros: number
  /** The buckets that are not empty: an upper bound, and how many values are below it and in no earlier bucket. */
  readonly buckets: ReadonlyArray<readonly [belowMicros: number, count: number]>
}

export interface Processes {
  /** How many processes there should be. */
  readonly wanted: number
  /** How many processes are not stopping. The one for tasks that must run alone counts neither here nor in `wanted`. */
  readonly present: number
  /** How many processes are spawned later, because others failed. */
  readonly delayed: number
  readonly size: Size
  readonly workers: readonly WorkerSnapshot[]
}

/** How the wanted number of processes is chosen. */
interface Size {
  /** The algorithm that chooses the number. Null: the number is always the configured one. */
  readonly algorithm: string | null
  readonly minimum: number
  readonly maximum: number
  /** Why the number was changed last. Null: it has not been changed. */
  readonly reason: string | null
  /** True while people have set the number by hand. */
  readonly isByHand: boolean
}

export interface WorkerSnapshot {
  /** 0: the worker has no process of its own. */
  readonly pid: number
  readonly state: 'starting' | 'ready' | 'draining' | 'exited'
  /** True for the worker that runs the tasks that must run alone, one at a time. */
  readonly isLone: boolean
  /** How many tasks the worker runs at a time. */
  readonly concurrency: number
  readonly spawnedAtMs: number
  /** The number of runs that the worker has reported. */
  readonly ran: number
  /** How long the worker has had something to do, until now, however many tasks it ran at a time. */
  readonly busyMs: number
  /** Recent milliseconds per task. Null: none has run. */
  readonly paceMs: number | null
  /** The tasks and signals that the worker has: they run, or wait in it. */
  readonly outstanding: number
  /** The tasks that may have begun, each with the latest time at which it can have begun. */
  readonly running: readonly RunningTask[]
  /** The signals whose handlers run. */
  readonly signals: readonly number[]
  /** Resident and virtual memory of the worker, without its interpreters. Null: unknown. */
  readonly rssBytes: number | null
  readonly vszBytes: number | null
}

export interface RunningTask {
  /** The path of the task in its spool, as text. */
  readonly task: string
  /** The same path with one character per byte. Absent: the path is UTF-8. */
  readonly ref?: Ref
  readonly sinceMs: number
}

export interface ScheduleSnapshot {
  /** How people name the schedule: the name of a periodic task, or twelve hexadecimal digits. */
  readonly id: string
  readonly schedule: Schedule | PeriodicTask
  /** Who asked for the schedule: an option, a handler while it was loaded, or running code. */
  readonly origin: 'configuration' | 'handlers' | 'code'
  /** The spool whose leader fires the schedule, or in which a periodic task is stored. Null: every daemon fires it. */
  readonly spool: string | null
  /** The time zone of the schedule. Null: the schedule does not depend on one. */
  readonly zone: string | null
  /** When the schedule fires next. Null: it has no time, never fires again, or is paused. */
  readonly nextAtMs: number | null
  /** Since when the schedule has been paused by people. Null: it is not paused. */
  readonly pausedSinceMs: number | null
}

export interface SocketSnapshot {
  readonly address: string
  /** How many connections may wait to be accepted. */
  readonly backlog: number
  /** Open connections, of all sockets together. */
  readonly connections: number
}

import type { ParkReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import type { PeriodicTask, Schedule } from '../../base/task/schedule.js'
import type { SlotQueueStats } from '../../base/task/terms.js'
import type { LookStats } from '../../engines/contracts/look-stats.js'
import type { DeadStats, DiskStats, UpkeepStats } from '../../engines/contracts/upkeep.js'
import type { PriorityStats } from '../../engines/feed.js'

// Longer than others: the whole shape, from which docs/status.md is generated.
/** Grows when a field changes its meaning or goes; a new field does not change it. */
export const SNAPSHOT_VERSION = 1

/**
 * A daemon at one moment: the one shape for `status`, the stats server, the metrics and whatever shows them. Plain JSON.
 * Times are epoch ms; names that are not UTF-8 have replacement characters; there is no packet and no environment in it.
 */
export interface DaemonSnapshot {
  readonly version: typeof SNAPSHOT_VERSION
  /** When it was taken. */
  readonly atMs: number
  readonly daemon: DaemonFacts
  /** Those whose tasks it runs. */
  readonly spools: readonly SpoolSnapshot[]
  readonly schedules: readonly ScheduleSnapshot[]
  readonly sockets: readonly SocketSnapshot[]
}

export interface DaemonFacts {
  readonly pid: number
  readonly version: string
  readonly state: 'starting' | 'running' | 'reloading' | 'stopping' | 'stopped'
  readonly startedAtMs: number
  /** It gives out no tasks until it is asked to (SIGTSTP). */
  readonly isQuiet: boolean
  readonly host: string
  readonly uid: number
  readonly gid: number
  /** Its working directory. */
  readonly directory: string
  /** The configuration files in effect. */
  readonly files: readonly string[]
  /** Resident memory of the master. */
  readonly rssBytes: number
  /** Tasks that it stored itself, for network peers and for handlers; and requests that it refused. */
  readonly stored: number
  readonly refused: number
}

export interface SpoolSnapshot {
  /** The real path, or an engine's own term. */
  readonly directory: string
  readonly tasks: TaskCounts
  /** Since the daemon started, or took up the spool. */
  readonly totals: Totals
  readonly rates: Rates
  readonly times: Times
  /** Named tasks that have run, those with most runs first. At most a hundred names, and all others together. */
  readonly named: readonly NamedStats[]
  readonly processes: Processes
  readonly dead: DeadStats
  /** Tasks that have failed or are held; a lower bound if not `isWhole`. */
  readonly records: UpkeepStats['records']
  readonly paused: UpkeepStats['paused']
  /** Null: unknown, or the file system does not answer. */
  readonly disk: DiskStats | null
  /** How new tasks are noticed; null: the engine is told of each. */
  readonly look: LookStats | null
  /** Whether its schedules are fired here; null: it has none. `asking`: not known yet. */
  readonly leadership: 'asking' | 'leading' | 'waiting' | 'stopped' | null
}

export interface TaskCounts {
  /** Somebody has seen that they may run now, and they do not run yet. */
  readonly due: number
  /** If not, further ones are not in memory. */
  readonly isWhole: boolean
  /** They may have begun. */
  readonly running: number
  /** Nobody has looked at them yet, or a process is about to: they may be due, or for later. */
  readonly unseen: number
  /** Since when there has always been one that no process had; epoch ms. Null: there is none. */
  readonly unseenSinceMs: number | null
  /** Not due yet, or parked. */
  readonly waiting: number
  /** Of `waiting`: their time has not come. */
  readonly later: number
  /** Of `waiting`: what was found at their names is no task, or nobody can read it, or begin it. */
  readonly unreadable: number
  /** Due, but something else than time keeps them: how many wait for what. */
  readonly parked: Readonly<Partial<Record<ParkReason, number>>>
  /** Those that wait for a slot, by the name of their task, most first; absent: none. At most a hundred names. */
  readonly slotQueues?: readonly SlotQueueStats[]
  /** All of them; if not `isWhole`, as counted at `countedAtMs`, less those that ended since; null: not counted yet. */
  readonly stored: number | null
  /** Null: `stored` is exact. */
  readonly countedAtMs: number | null
  /** Due and unseen tasks, the most urgent first; if not `isWhole`, all that each directory had when it was counted. */
  readonly priorities: readonly PriorityStats[]
  /** How many more priorities have tasks. */
  readonly prioritiesLeftOut: number
  /** Since when the one in memory that has been due for longest has been due; null: none, or unknown. */
  readonly oldestDueMs: number | null
  /** When the next one comes due by itself. */
  readonly nextDueMs: number | null
}

/** Within a fraction of it, somebody looks at the first 10,000, whatever the processes do. */
const UNSEEN_MS = 10_000

/**
 * How many tasks are due, where a limit is set. What nobody has looked at counts only after a while: then it is a backlog, and not
 * a day's schedule that a start has just found.
 */
export function backlogOf(tasks: TaskCounts, atMs: number): number {
  return tasks.due + (isSettled(tasks, atMs) ? tasks.unseen : 0)
}

/** Nothing has just come that may be due and that nobody has looked at. */
export function isSettled({ unseen, unseenSinceMs }: TaskCounts, atMs: number): boolean {
  return unseen === 0 || unseenSinceMs === null || atMs - unseenSinceMs >= UNSEEN_MS
}

/** How runs ended, and what else happened. */
export interface Totals {
  /** Runs that ended with SPOOL_OK. */
  readonly done: number
  /** Runs whose task runs again: the handler asked for it; or threw. */
  readonly retried: number
  readonly errors: number
  /** Runs that no handler wanted. */
  readonly ignored: number
  /** Tasks that became dead letters: after a run; without one. */
  readonly buried: number
  readonly setAside: number
  /** Runs that could not be settled. */
  readonly unsettled: number
  /** Processes that died of their own, and how many of them overran a deadline; interpreters that died. */
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
  /** Empty: all others together, of very many names. */
  readonly name: string
  /** How many may run at a time, over all daemons; null: that has no limit. */
  readonly slots: number | null
  /** How many this daemon runs now. */
  readonly running: number
  readonly started: number
  /** Runs that ended with SPOOL_OK. */
  readonly done: number
  /** Runs whose task runs again, because its handler asked for it or threw. */
  readonly retried: number
  /** Runs that made a dead letter of their task. */
  readonly buried: number
  /** Runs that ended otherwise: nobody wanted the task, or it could not be settled. */
  readonly other: number
  /** Runs that ended with their process, unless that was within 20 ms of their start: then nobody knows their name. */
  readonly killed: number
  /** How long the runs took that ended, together. */
  readonly ranMs: number
  /** `failed`: retried, buried or killed. */
  readonly rates: Pick<Rates, 'done' | 'failed'>
}

/** Per second, over the last minutes, or since the start if that is shorter. */
export interface Rate {
  readonly m1: number
  readonly m5: number
  readonly m15: number
}

export interface Rates {
  /** Runs that ended with SPOOL_OK. */
  readonly done: Rate
  /** Runs that ended otherwise: retried, with an error, buried, or with the death of their process. */
  readonly failed: Rate
  /** The share of failed runs in the last five minutes, 0 to 1; null: nothing ran. */
  readonly failedShare: number | null
}

/** How long runs took and how long their tasks had waited. */
export interface Times {
  /** When this began to be counted. */
  readonly sinceMs: number
  readonly ran: Distribution
  readonly waited: Distribution
}

export interface Distribution {
  readonly count: number
  readonly sumMicros: number
  /** To within a factor of 1.5; 0: nothing was measured. */
  readonly p50Micros: number
  readonly p95Micros: number
  readonly p99Micros: number
  /** What is not empty: an upper bound, and how many were below it and in no bucket before. */
  readonly buckets: ReadonlyArray<readonly [belowMicros: number, count: number]>
}

export interface Processes {
  /** How many there should be. */
  readonly wanted: number
  /** How many do not stop. The one that runs what must run alone counts in neither. */
  readonly present: number
  /** How many are spawned later, because others failed. */
  readonly delayed: number
  readonly size: Size
  readonly workers: readonly WorkerSnapshot[]
}

/** What says how many processes there should be. */
interface Size {
  /** Null: there are always as many as configured. */
  readonly algorithm: string | null
  readonly minimum: number
  readonly maximum: number
  /** Why there should be as many as there should; null: nothing has changed that yet. */
  readonly reason: string | null
  /** Set by hand, until it is left to the algorithm again. */
  readonly isByHand: boolean
}

export interface WorkerSnapshot {
  /** 0: it has no process of its own. */
  readonly pid: number
  readonly state: 'starting' | 'ready' | 'draining' | 'exited'
  /** It runs one task at a time, of those that must run alone. */
  readonly isLone: boolean
  /** How many tasks it runs at a time. */
  readonly concurrency: number
  readonly spawnedAtMs: number
  /** How many runs it has reported, and how long it was busy with them. */
  readonly ran: number
  readonly busyMs: number
  /** Milliseconds per task of late; null: none has run. */
  readonly paceMs: number | null
  /** Tasks and signals that it has: they run, or wait in it. */
  readonly outstanding: number
  /** What may have begun, and the latest time at which it can have. */
  readonly running: readonly RunningTask[]
  /** The signals whose handlers run. */
  readonly signals: readonly number[]
  /** Resident and virtual memory, without its interpreters'; null: unknown. */
  readonly rssBytes: number | null
  readonly vszBytes: number | null
}

export interface RunningTask {
  /** Its path in the spool, as text. */
  readonly task: string
  /** The same, a character per byte; absent: the path is UTF-8. */
  readonly ref?: Ref
  readonly sinceMs: number
}

export interface ScheduleSnapshot {
  /** What people call it: the name of a periodic task, or twelve hexadecimal digits. */
  readonly id: string
  readonly schedule: Schedule | PeriodicTask
  /** Who asked for it: options; what handlers declare while they are loaded; or code that runs. */
  readonly origin: 'configuration' | 'handlers' | 'code'
  /** The spool whose leader fires it, or where a periodic task is stored; null: every daemon fires it. */
  readonly spool: string | null
  /** The time zone in which its calendar counts; null: it has none. */
  readonly zone: string | null
  /** Null: it has no time, fires no more, or is paused. */
  readonly nextAtMs: number | null
  /** Since when people have paused it; null: they have not. */
  readonly pausedSinceMs: number | null
}

export interface SocketSnapshot {
  readonly address: string
  /** How many connections may wait to be accepted. */
  readonly backlog: number
  /** Connections that are open, of all sockets together. */
  readonly connections: number
}

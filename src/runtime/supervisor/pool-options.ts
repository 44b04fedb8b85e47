import type { Emitter } from '../../base/events/emitter.js'
import type { TaskName } from '../../base/task/ref.js'
import type { Looker, Report } from '../../base/task/report.js'
import type { Source } from '../../engines/feed.js'
import type { LastRuns } from './cut-short.js'
import type { RosterOptions } from './roster.js'
import type { ScalingOptions } from './scaling/algorithm.js'
import type { NamedAlgorithm } from './scaling/algorithms.js'
import type { WorkerProcess } from './worker-process.js'

/** How many workers a pool has. */
export interface SizeOptions {
  /** At most; always, without `scaling`. */
  readonly processes: number
  readonly scaling: PoolScaling | null
  /** None before the first task. */
  readonly startsCheap: boolean
  /** None after so long without a task, until the next; 0: never. */
  readonly idleMs: number
}

export interface PoolScaling {
  readonly algorithm: NamedAlgorithm
  readonly options: ScalingOptions
  readonly initial: number
}

/** When the master replaces a worker; 0: never. */
export interface WorkerLimits {
  /** Killed at once when it has so much memory, with its interpreters and programs. */
  readonly evilRssBytes: number
  readonly evilVszBytes: number
  readonly lifetimeMs: number
  /** Added for each worker before it. */
  readonly lifetimeDeltaMs: number
}

export interface PoolOptions extends RosterOptions, SizeOptions {
  readonly limits: WorkerLimits
}

/** A pool, as its parts see it. */
export interface PoolContext {
  readonly spool: string
  readonly feed: Source
  readonly events: Emitter
  readonly lastRuns: LastRuns
  /** Undefined: nobody looks. */
  readonly looker: Looker | undefined
  /** Also the one that runs alone. */
  readonly allWorkers: readonly WorkerProcess[]
  /** Nothing is to be started: the spool is paused, or the daemon is quiet. */
  readonly isHalted: boolean
  /**
   * What has become of tasks of a process that does not report it itself.
   *
   * @param known those whose start was announced
   */
  tell(pid: number, reports: readonly Report[], known?: ReadonlySet<TaskName>): void
  /** Tasks may now be given to workers. */
  dispatch(): void
}

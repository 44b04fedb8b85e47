import type { Emitter } from '../../base/events/emitter.js'
import type { TaskName } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { Source } from '../../engines/feed.js'
import type { AsideProcess } from './aside.js'
import type { LastRuns } from './cut-short.js'
import type { RosterOptions } from './roster.js'
import type { ScalingOptions } from './scaling/algorithm.js'
import type { NamedAlgorithm } from './scaling/algorithms.js'
import type { WorkerProcess } from './worker-process.js'

/** How many workers a pool has. */
export interface SizeOptions {
  /** The largest number of workers; without `scaling`, the number of workers. */
  readonly processes: number
  readonly scaling: PoolScaling | null
  /** There is no worker before the first task. */
  readonly startsCheap: boolean
  /** After so long without a task, all workers end until the next task comes; 0: never. */
  readonly idleMs: number
}

export interface PoolScaling {
  readonly algorithm: NamedAlgorithm
  readonly options: ScalingOptions
  readonly initial: number
}

/** When the master replaces a worker; 0: never. */
export interface WorkerLimits {
  /** A worker that has so much memory, with its interpreters and programs, is killed at once. */
  readonly evilRssBytes: number
  readonly evilVszBytes: number
  readonly lifetimeMs: number
  /** Added to the lifetime for each worker with a lower number. */
  readonly lifetimeDeltaMs: number
}

export interface PoolOptions extends RosterOptions, SizeOptions {
  readonly limits: WorkerLimits
}

/** The pool, as its parts see it. */
export interface PoolContext {
  readonly spool: string
  readonly feed: Source
  readonly events: Emitter
  readonly lastRuns: LastRuns
  readonly options: PoolOptions
  /** Settles what is left of runs that were cut short. */
  readonly aside: AsideProcess
  /** The workers of the pool, including the lone worker. */
  readonly allWorkers: readonly WorkerProcess[]
  /** True if nothing may be started: the spool is paused, or the daemon is quiet. */
  readonly isHalted: boolean
  /**
   * Tells what has become of tasks whose process does not report it itself.
   *
   * @param known the tasks whose start was announced
   */
  tell(pid: number, reports: readonly Report[], known?: ReadonlySet<TaskName>): void
  /** Tasks may now be given to workers. */
  dispatch(): void
}

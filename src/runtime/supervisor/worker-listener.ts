import type { RecycleReason } from '../../base/events/event-map.js'
import type { Ref, TaskName } from '../../base/task/ref.js'
import type { NamedRuns, Report } from '../../base/task/report.js'
import type { SlotWish } from '../../base/task/terms.js'
import type { SignalMessage, WorkerMessage } from '../ipc/messages.js'
import type { RunTimes } from '../ipc/reports.js'
import type { HostEventListener } from './host-messages.js'
import type { PortExit } from './worker-port.js'

export interface Reported {
  /** Runs that ended with SPOOL_OK, reported without their times because no listener wants single tasks. */
  readonly done: readonly Ref[]
  /** The same, as people know them. */
  readonly doneNames: readonly TaskName[]
  /** All other reports. */
  readonly reports: readonly Report[]
  /** Reports of refs that were recalled: they say what the run did, but not where the ref is now. */
  readonly late: readonly Report[]
  /** The tasks whose start was announced before. */
  readonly known: ReadonlySet<TaskName>
  /** The ids of named tasks that ended with SPOOL_OK. */
  readonly ids: ReadonlyMap<TaskName, string>
  /** How many more tasks of a name could follow those that the worker runs. */
  readonly wishes: readonly SlotWish[]
}

/** What a worker reports. */
export interface WorkerListener<Worker> extends HostEventListener {
  signalled(worker: Worker, message: SignalMessage): void
  reported(worker: Worker, reported: Reported): void
  /** The times of the runs it reported; only while there is a listener for them. */
  timed(times: RunTimes): void
  /** What it did with named tasks since it said so last. */
  named(worker: Worker, runs: readonly NamedRuns[]): void
  started(worker: Worker, name: TaskName): void
  /** It has claimed these and announced it. */
  claimed(refs: readonly Ref[]): void
  /** It no longer has these refs, and had not begun them. */
  dropped(refs: readonly Ref[]): void
  /** What a request to cancel a task has met. */
  cancelling(worker: Worker, message: Extract<WorkerMessage, { type: 'cancelling' }>): void
  recycling(worker: Worker, because: RecycleReason): void
  faulted(worker: Worker, error: string): void
  unfit(worker: Worker, error: string): void
  logged(worker: Worker, message: Extract<WorkerMessage, { type: 'log' }>): void
  /** @param name of the task that printed it; null: unknown */
  printed(worker: Worker, name: TaskName | null, message: Extract<WorkerMessage, { type: 'output' }>): void
}

/** How a worker ended. */
export interface Exit extends PortExit {
  /** It was asked to exit; it asked for a replacement and exited cleanly; or anything else. */
  readonly why: 'asked' | 'recycled' | 'failed'
  /** The cause was reported before the exit. */
  readonly isExplained: boolean
}

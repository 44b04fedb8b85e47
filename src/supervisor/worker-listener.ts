import type { SignalMessage, WorkerMessage } from '../ipc/messages.js'
import type { RunTimes } from '../ipc/reports.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { HostEventListener } from './host-messages.js'
import type { PortExit } from './worker-port.js'

export interface Reported {
  /** Ran to SPOOL_OK, told without their times: nobody listens to single tasks. */
  readonly done: readonly Ref[]
  /** All others. */
  readonly reports: readonly Report[]
  /** Of refs that were cancelled: they tell what it did, but not where the ref is now. */
  readonly late: readonly Report[]
  /** Those whose start was told before. */
  readonly known: ReadonlySet<Ref>
}

/** What a worker says. */
export interface WorkerListener<Worker> extends HostEventListener {
  signalled(worker: Worker, message: SignalMessage): void
  reported(worker: Worker, reported: Reported): void
  /** Of the runs among what it reported, while somebody listens. */
  timed(times: RunTimes): void
  started(worker: Worker, ref: Ref): void
  /** It had these, has not begun them, and does not have them any more. */
  dropped(refs: readonly Ref[]): void
  recycling(worker: Worker, tasks: number): void
  faulted(worker: Worker, error: string): void
  unfit(worker: Worker, error: string): void
  logged(worker: Worker, message: Extract<WorkerMessage, { type: 'log' }>): void
  printed(worker: Worker, message: Extract<WorkerMessage, { type: 'output' }>): void
}

/** How a worker ended. */
export interface Exit extends PortExit {
  /** It was told to; it left in good order, to be replaced; or anything else. */
  readonly why: 'asked' | 'recycled' | 'failed'
  /** What went wrong was said before. */
  readonly isExplained: boolean
}

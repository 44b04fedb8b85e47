import type { SignalMessage, WorkerMessage } from '../ipc/messages.js'
import type { RunTimes } from '../ipc/reports.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { HostEventListener } from './host-messages.js'
import type { PortExit } from './worker-port.js'

export interface Reported {
  /** Runs that ended with SPOOL_OK, reported without their times because no listener wants single tasks. */
  readonly done: readonly Ref[]
  /** All other reports. */
  readonly reports: readonly Report[]
  /** Reports of refs that were cancelled: they say what the run did, but not where the ref is now. */
  readonly late: readonly Report[]
  /** The refs whose start was announced before. */
  readonly known: ReadonlySet<Ref>
}

/** What a worker reports. */
export interface WorkerListener<Worker> extends HostEventListener {
  signalled(worker: Worker, message: SignalMessage): void
  reported(worker: Worker, reported: Reported): void
  /** The times of the runs it reported; only while there is a listener for them. */
  timed(times: RunTimes): void
  started(worker: Worker, ref: Ref): void
  /** It no longer has these refs, and had not begun them. */
  dropped(refs: readonly Ref[]): void
  recycling(worker: Worker, tasks: number): void
  faulted(worker: Worker, error: string): void
  unfit(worker: Worker, error: string): void
  logged(worker: Worker, message: Extract<WorkerMessage, { type: 'log' }>): void
  printed(worker: Worker, message: Extract<WorkerMessage, { type: 'output' }>): void
}

/** How a worker ended. */
export interface Exit extends PortExit {
  /** It was asked to exit; it asked for a replacement and exited cleanly; or anything else. */
  readonly why: 'asked' | 'recycled' | 'failed'
  /** The cause was reported before the exit. */
  readonly isExplained: boolean
}

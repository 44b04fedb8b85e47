import type { CancelNews, CancelResult } from './cancel.js'
import type { TaskName } from './ref.js'

/** A process that runs tasks of a spool which several machines share, as it was some seconds ago. */
export interface MemberFacts {
  readonly host: string
  readonly pid: number
  readonly startedAtMs: number
  /** False: a program that runs its own tasks. */
  readonly isDaemon: boolean
  /** How many workers there should be, and how many there are. */
  readonly wanted: number
  readonly present: number
  /** How many tasks it runs. */
  readonly running: number
  /** True if it gives out no tasks. */
  readonly isHalted: boolean
  /** The directory, on its machine, that has its control socket in `.spoold`; null: it has none. */
  readonly controls: string | null
}

/** The facts that others may learn of such a process, and the acts that they may ask of it. */
export interface Member {
  facts(): MemberFacts
  /** Ends a task that the process runs. @param tell called with what the end waits for */
  cancel(task: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult>
}

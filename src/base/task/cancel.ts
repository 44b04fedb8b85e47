/** How long a task that was cancelled may take to end by itself. */
export const CANCEL_MS = 5000

/** What became of a task that a daemon was asked to cancel. */
export const CANCEL_RESULTS = [
  'cancelled', // it is a dead letter now
  'done', // it ran to SPOOL_OK all the same
  'buried', // its run had ended before, with a dead letter of another reason
  'waiting', // it does not run: its run had ended before, or had not begun
  'unburied', // it was ended, but cannot be buried yet; `detail` says why. It does not run again
  'elsewhere', // no process of this daemon runs it
] as const

export interface CancelResult {
  readonly result: (typeof CANCEL_RESULTS)[number]
  readonly detail?: string
}

/** The reason why a cancelled task has not ended yet, once that takes longer than it may. */
export interface CancelNews {
  /** The process that runs it. */
  readonly pid: number
  /** How many tasks and signal handlers run in the same process, which is not killed before they have ended. */
  readonly others: number
}

/** The reason of a dead letter for a task that was told to end. @param ending how its run ended */
export function cancelledDetail(ending: string): string {
  return `it was cancelled, and ${ending}`
}

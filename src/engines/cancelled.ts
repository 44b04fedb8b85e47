import type { CancelNews, CancelResult } from '../base/task/cancel.js'
import { type Changed, DONE, refused } from './spool/admin/change.js'

/**
 * Returns the answer for a task that was to be cancelled.
 *
 * @returns undefined if the task does not run there any more, or never did
 */
export function changedBy({ result, detail = '' }: CancelResult): Changed | undefined {
  switch (result) {
    case 'cancelled':
      return DONE
    case 'done':
      return refused('it ended with SPOOL_OK before it could be cancelled')
    case 'buried':
      return refused('it had failed for the last time, and is a dead letter of another reason')
    case 'unburied':
      return refused(`it was ended, and waits to be buried, which is not possible now: ${detail}`)
    case 'waiting':
    case 'elsewhere':
      return undefined
  }
}

/** Says, for people, what the end of a cancelled task waits for. */
export function waitsFor({ pid, others }: CancelNews): string {
  return `waits until ${others} more in its process (pid ${pid}) ended: it is not killed before that, and is given nothing more`
}

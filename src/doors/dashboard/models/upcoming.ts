import type { Ref } from '../../../base/task/ref.js'
import { readTaskNames } from '../../../engines/control/task-names.js'
import { PAGE_SIZE } from './listings.js'

/** Asks the daemon one verb of the control protocol. @throws why it was not answered */
export type Ask = (verb: string, args: object) => Promise<unknown>

/** `next`: what starts next, and what runs already; `later`: what waits for its time. */
type Upcoming = 'next' | 'later'

/**
 * A page of the tasks of a spool in the order of the daemon, which knows them without a look at the directory.
 *
 * @param spool its real path
 * @param from how many are before it
 */
export async function upcomingRefs(
  ask: Ask,
  spool: string,
  which: Upcoming,
  from: number,
): Promise<{ refs: readonly Ref[]; next: number | null }> {
  const answer = readTaskNames(await ask(which, { spool, limit: PAGE_SIZE + 1, from }))
  if (answer === undefined) throw new Error(`the daemon answered ${which} with something else than names`)
  return {
    refs: answer.refs.slice(0, PAGE_SIZE),
    next: answer.refs.length > PAGE_SIZE ? from + PAGE_SIZE : null,
  }
}

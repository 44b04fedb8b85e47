import { MOST_NAMED, readTaskNames } from '../../control/task-names.js'
import type { Names } from './listings.js'

/** Asks the daemon one verb of the control protocol. @throws why it was not answered */
export type Ask = (verb: string, args: object) => Promise<unknown>

/** `next`: what starts next, and what runs already; `later`: what waits for its time. */
type Upcoming = 'next' | 'later'

/**
 * The tasks of a spool in the order of the daemon, which knows them without a look at the directory.
 *
 * @param spool its real path
 */
export async function upcomingRefs(ask: Ask, spool: string, which: Upcoming): Promise<Names> {
  const answer = readTaskNames(await ask(which, { spool, limit: MOST_NAMED }))
  if (answer === undefined) throw new Error(`the daemon answered ${which} with something else than names`)
  return { refs: answer.refs, isCut: answer.refs.length === MOST_NAMED }
}

import type { Ref } from '../../base/task/ref.js'
import { askDaemons } from '../control/client.js'
import { MOST_NAMED, readTaskNames, type TaskNames } from '../control/task-names.js'
import { isWaiting } from '../spool/admin/listing.js'
import type { SpoolView, TaskView } from '../spool/admin/task-view.js'
import type { ListingPlan } from '../task-store.js'

/** The tasks that daemons will start next, in that order. */
interface NextTasks {
  readonly tasks: readonly TaskView[]
  /** Where the order comes from, for people. */
  readonly source: string
}

/** Daemons are asked for at most this many tasks: for more, the directory itself is listed. */
const MOST_WANTED = 1000

/**
 * Asks the daemons of a spool what runs and what they will start next. Their answers are merged in turns.
 *
 * @returns undefined if these are fewer tasks than wanted, or if a daemon cannot say
 */
export async function nextTasks(
  view: SpoolView,
  { limit, mayHave, has }: Pick<ListingPlan, 'limit' | 'mayHave' | 'has'>,
): Promise<NextTasks | undefined> {
  if (limit > MOST_WANTED) return undefined
  const answers = await askAll(view.spool, 'next')
  const tasks: TaskView[] = []
  for (const ref of inTurns(answers.map(({ refs }) => refs))) {
    const task = mayHave(ref) ? view.view(ref) : undefined
    if (task === undefined || isWaiting(task) || !has(task)) continue
    if (tasks.push(task) === limit) return { tasks, source: sourceOf(answers) }
  }
  return undefined
}

/**
 * Returns the refs that the daemons of a spool will start next, or those that wait for their time. The daemons' answers are
 * merged in turns.
 *
 * @param spool its real path, a byte string
 * @param sockets where the daemons listen; undefined: in the spool
 */
export async function refsOf(
  spool: string,
  verb: 'next' | 'later',
  sockets?: readonly string[],
): Promise<readonly Ref[]> {
  const answers = await askAll(spool, verb, sockets)
  return [...inTurns(answers.map(({ refs }) => refs))]
}

function askAll(spool: string, verb: 'next' | 'later', sockets?: readonly string[]): Promise<TaskNames[]> {
  // asks for as many as possible, because some will have ended, or fail a filter, by the time they are looked at
  return askDaemons(spool, sockets, verb, { limit: MOST_NAMED }, answer => {
    const names = readTaskNames(answer)
    if (names === undefined) throw new Error('a program other than spoold answered')
    return names
  })
}

/** Yields the first ref of each list, then the second of each, and so on; each ref once. */
function* inTurns(lists: ReadonlyArray<readonly Ref[]>): Generator<Ref> {
  const given = new Set<Ref>()
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  for (let i = 0; i < longest; i++)
    for (const { [i]: ref } of lists) {
      if (ref === undefined || given.has(ref)) continue
      given.add(ref)
      yield ref
    }
}

function sourceOf(answers: readonly TaskNames[]): string {
  const pids = answers.map(({ pid }) => pid).join(', ')
  return answers.length === 1
    ? `as its daemon will start them (pid ${pids})`
    : `as its daemons will start them (pids ${pids})`
}

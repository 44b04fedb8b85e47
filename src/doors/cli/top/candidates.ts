import type { Ref } from '../../../base/task/ref.js'
import { askParked } from '../../../engines/control/parked-tasks.js'
import { refsOf } from '../../../engines/directory/next-tasks.js'
import type { SpoolView, TaskState } from '../../../engines/spool/admin/task-view.js'
import { recordedRefs } from '../../../engines/spool/records.js'
import { runningRef } from '../../../runtime/stats/read-snapshot.js'
import type { SpoolStatus } from '../status/spool-status.js'
import type { TaskTab } from './columns.js'

/** Where the tasks of a tab are looked for. */
interface Candidates {
  readonly refs: AsyncIterable<Ref> | Iterable<Ref>
  /** Which tasks these are, in words for people. */
  readonly scope: string
}

/** The states of the tasks that a tab shows. Its candidates may be in other states. */
export const STATES_OF: Readonly<Record<TaskTab, readonly TaskState[]>> = {
  running: ['running'],
  waiting: ['due', 'waiting', 'retrying'],
  retrying: ['retrying'],
  dead: ['dead'],
  held: ['held', 'parked'],
}

const DIRECTORY = 'as a listing of the directory meets them'
/** How many parked tasks are asked for, per reason and name. */
const PARKED_EACH = 200

/** Returns where the tasks of a tab are found: with the daemons if they answer, else in the directory. */
export async function candidatesOf(
  tab: TaskTab,
  spool: string,
  view: SpoolView,
  statuses: readonly SpoolStatus[],
  sockets: readonly string[] | undefined,
): Promise<Candidates> {
  const hasDaemon = statuses.some(({ source }) => source === 'daemon')
  switch (tab) {
    case 'running':
      return hasDaemon
        ? { refs: runningRefs(statuses), scope: '' }
        : { refs: scanned(view), scope: DIRECTORY }
    case 'waiting': {
      const next = async (verb: 'next' | 'later') => (hasDaemon ? refsOf(spool, verb, sockets) : [])
      const refs = [...(await next('next')), ...(await next('later'))]
      return refs.length > 0
        ? { refs, scope: 'as its daemon starts them, then those that wait' }
        : { refs: scanned(view), scope: DIRECTORY }
    }
    case 'retrying':
      return { refs: recordedRefs(spool), scope: '' }
    case 'dead':
      return { refs: view.dead(), scope: '' }
    case 'held':
      return { refs: heldRefs(spool, sockets), scope: '' }
  }
}

/** The running tasks that the snapshots name. */
function runningRefs(statuses: readonly SpoolStatus[]): Ref[] {
  return statuses.flatMap(status =>
    status.source === 'daemon'
      ? status.processes.workers.flatMap(({ running }) => running.map(runningRef))
      : [],
  )
}

async function* heldRefs(spool: string, sockets: readonly string[] | undefined): AsyncGenerator<Ref> {
  const groups = await askParked(spool, PARKED_EACH, sockets)
  yield* new Set(groups.flat().flatMap(({ tasks }) => tasks))
  yield* recordedRefs(spool)
}

/** Yields the tasks of a listing, which is read as a whole, or cut, before the first of them. */
async function* scanned(view: SpoolView): AsyncGenerator<Ref> {
  const refs: Ref[] = []
  await view.scan(
    ref => refs.push(ref) < MOST_LISTED,
    () => {},
  )
  yield* refs
}

/** The most tasks of a directory that are listed. */
const MOST_LISTED = 10_000

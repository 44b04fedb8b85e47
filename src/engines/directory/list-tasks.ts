import { errnoOf } from '../../base/errors.js'
import { Listing } from '../spool/admin/listing.js'
import type { SpoolView, TaskView } from '../spool/admin/task-view.js'
import type { ListingPlan } from '../task-store.js'
import { nextTasks } from './next-tasks.js'

interface Place {
  /** Its real path, a byte string. */
  readonly spool: string
  readonly view: SpoolView
  readonly nowMs: number
}

/** @see TaskStore.list */
export async function listTasks(
  { spool, view, nowMs }: Place,
  plan: ListingPlan,
  take: (task: TaskView) => boolean,
): Promise<string | undefined> {
  const { states, mayHave, has, failed } = plan
  const next = isFirst(plan) ? await nextTasks(spool, view, plan.limit, mayHave, has) : undefined
  if (next !== undefined) {
    next.tasks.every(take)
    return next.source
  }
  const listing = new Listing(spool, view, plan, nowMs)
  let isWanted = true
  const offer = (task: TaskView) => {
    isWanted = take(task)
    return isWanted
  }
  if (states === undefined || states.some(state => state !== 'dead')) await listing.living(offer)
  if (!isWanted || (states !== undefined && !states.includes('dead'))) return undefined
  try {
    await listing.dead(offer)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    failed('.spoold/dead', error) // only the spool's user may read it
  }
  return undefined
}

/** Only the first to start are wanted, which a daemon may know. */
function isFirst({ sort, isReversed }: ListingPlan): boolean {
  return sort === 'run' && !isReversed
}

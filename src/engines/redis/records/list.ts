import { baseName, type Ref } from '../../../base/task/ref.js'
import type { Sort } from '../../spool/admin/listing.js'
import { type Keyed, windowsInOrder } from '../../spool/admin/ref-window.js'
import { sinceMsOf, TASK_STATES, type TaskState, type TaskView } from '../../spool/admin/task-view.js'
import type { ListingPlan } from '../../task-store.js'

/** What a listing needs of the store. */
export interface Source {
  /** By the clock of Redis. */
  readonly nowMs: number
  /** The tasks that may be in these states, in the order in which they start or, reversed, the other way round. */
  walk(states: readonly TaskState[], isReversed: boolean): AsyncIterable<readonly TaskView[]>
  /** Those that are there. */
  viewAll(refs: readonly Ref[]): AsyncIterable<readonly TaskView[]>
}

type KeyOf = (task: TaskView, nowMs: number) => number

/** The smallest comes first. Without one, the order is that of the store, or of the names. */
const KEYS: Partial<Record<Sort, KeyOf>> = {
  name: () => 0,
  priority: ({ file }) => file.sinceMs ?? 0,
  age: (task, nowMs) => sinceMsOf(task, nowMs) ?? nowMs,
  due: ({ dueAtMs }) => dueAtMs,
  attempts: ({ letter, record }) => -((letter ?? record)?.attempts ?? 0),
  bytes: ({ file }) => -file.bytes,
}

/** Lists living tasks, then dead letters; in bounded memory, whatever their number. */
export async function listTasks(
  source: Source,
  plan: ListingPlan,
  take: (task: TaskView) => boolean,
): Promise<void> {
  const wanted = plan.states ?? TASK_STATES
  const groups = [wanted.filter(state => state !== 'dead'), wanted.filter(state => state === 'dead')]
  for (const states of groups) if (states.length > 0 && !(await listGroup(source, states, plan, take))) return
}

/** @returns false if no more is wanted */
async function listGroup(
  source: Source,
  states: readonly TaskState[],
  plan: ListingPlan,
  take: (task: TaskView) => boolean,
): Promise<boolean> {
  const isFit = (task: TaskView) => plan.mayHave(task.ref) && plan.has(task)
  const passOn = (tasks: readonly TaskView[]) => tasks.every(task => !isFit(task) || take(task))
  const keyOf = KEYS[plan.sort]
  if (keyOf === undefined) {
    for await (const tasks of source.walk(states, plan.isReversed)) if (!passOn(tasks)) return false
    return true
  }
  const byPriority = plan.sort === 'priority'
  const scan = async (offer: (task: Keyed) => void) => {
    for await (const tasks of source.walk(states, false))
      for (const task of tasks)
        if (isFit(task))
          offer({ ref: `${prefixFor(task, byPriority)}${task.ref}`, key: keyOf(task, source.nowMs) })
  }
  for await (const window of windowsInOrder(scan, { byPriority, isReversed: plan.isReversed }))
    for await (const tasks of source.viewAll([...window.inOrder()].map(baseName)))
      if (!passOn(tasks)) return false
  return true
}

/** A window sorts by the priority that a path has. */
function prefixFor({ priority }: TaskView, byPriority: boolean): string {
  return byPriority && priority !== undefined && priority !== null ? `${priority}/` : ''
}

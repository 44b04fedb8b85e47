import type { TaskState } from '../../spool/admin/task-view.js'
import { pausedPairs } from '../../task/pause.js'
import { displayName } from '../../task/ref.js'
import type { SpoolStatus } from '../status/spool-status.js'
import { cellsOf, NAME_COLUMNS, type NameCounts } from './columns.js'
import type { Row } from './state.js'

const NONE = { running: 0, due: 0, waiting: 0, parked: 0, retrying: 0, dead: 0 }

/** A task. */
export interface NamedState {
  /** '' if it has none. */
  readonly name: string
  readonly state: TaskState
}

/** The names of these tasks, those with most tasks first. */
export function nameRows(
  tasks: readonly NamedState[],
  statuses: readonly SpoolStatus[],
  nowMs: number,
): Row[] {
  const counts = new Map<string, typeof NONE>()
  for (const { name, state } of tasks) {
    if (name === '') continue
    const its = counts.get(name) ?? { ...NONE }
    counts.set(name, its)
    if (state in its) its[state as keyof typeof NONE]++
  }
  const total = (name: string) => Object.values(counts.get(name) ?? NONE).reduce((sum, each) => sum + each, 0)
  const [slots, paused] = [slotsOf(statuses), pausedNames(statuses)]
  return [...counts]
    .sort(([a], [b]) => total(b) - total(a) || (a < b ? -1 : 1))
    .map(([name, its]) => {
      const known: NameCounts = { name, ...its, slots: slots.get(name), isPaused: paused.has(name) }
      return { id: name, cells: cellsOf(NAME_COLUMNS, known, nowMs) }
    })
}

/** Only of names whose tasks wait for slots is the number told. */
function slotsOf(statuses: readonly SpoolStatus[]): ReadonlyMap<string, number> {
  const queues = statuses.flatMap(status => (status.source === 'none' ? [] : (status.tasks.slotQueues ?? [])))
  return new Map(queues.map(({ name, count }) => [name, count]))
}

function pausedNames(statuses: readonly SpoolStatus[]): ReadonlySet<string> {
  const pairs = statuses.flatMap(status =>
    status.source === 'none' || status.paused === null ? [] : pausedPairs(status.paused),
  )
  return new Set(pairs.flatMap(([key, value]) => (key === 'task' ? [displayName(value)] : [])))
}

import { pausedPairs } from '../../../base/task/pause.js'
import { displayName } from '../../../base/task/ref.js'
import type { TaskState } from '../../../engines/spool/admin/task-view.js'
import type { NamedStats } from '../../../runtime/stats/snapshot.js'
import type { SpoolStatus } from '../status/spool-status.js'
import { cellsOf, NAME_COLUMNS, type NameCounts } from './columns.js'
import type { Row } from './state.js'

const NONE = { running: 0, due: 0, waiting: 0, parked: 0, retrying: 0, dead: 0 }

/** A task. */
export interface NamedState {
  /** The task's name; '' if it has none. */
  readonly name: string
  readonly state: TaskState
}

/** The names of these tasks and of those that the daemons have run; names with the most tasks first. */
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
  const ran = ranBy(statuses)
  for (const name of ran.keys()) counts.set(name, counts.get(name) ?? { ...NONE })
  const total = (name: string) => Object.values(counts.get(name) ?? NONE).reduce((sum, each) => sum + each, 0)
  const [slots, paused] = [slotsOf(statuses), pausedNames(statuses)]
  return [...counts]
    .sort(([a], [b]) => total(b) - total(a) || (a < b ? -1 : 1))
    .map(([name, its]) => {
      const stats = ran.get(name) ?? []
      const known: NameCounts = {
        ...{ name, ...its, isPaused: paused.has(name) },
        slots: slots.get(name) ?? stats.find(each => each.slots !== null)?.slots ?? undefined,
        done: sum(stats, ({ done }) => done),
        failed: sum(stats, ({ retried, buried, killed }) => retried + buried + killed),
        perSecond: sum(stats, ({ rates }) => rates.done.m5 + rates.failed.m5),
      }
      return { id: name, cells: cellsOf(NAME_COLUMNS, known, nowMs) }
    })
}

/** The figures that each daemon has of the names that it has run. */
function ranBy(statuses: readonly SpoolStatus[]): ReadonlyMap<string, readonly NamedStats[]> {
  const all = new Map<string, NamedStats[]>()
  for (const status of statuses)
    for (const stats of status.source === 'daemon' ? status.named : [])
      if (stats.name !== '') all.set(stats.name, [...(all.get(stats.name) ?? []), stats])
  return all
}

function sum(stats: readonly NamedStats[], of: (each: NamedStats) => number): number {
  return stats.reduce((total, each) => total + of(each), 0)
}

/** The number of slots per name, for names whose tasks wait for slots. */
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

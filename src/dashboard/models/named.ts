import type { DaemonSnapshot } from '../../stats/snapshot.js'

/** What is known of the tasks of one name. */
export interface NamedRow {
  readonly name: string
  /** How many may run at a time; null: as many as there are workers, or none waits for a slot. */
  readonly slots: number | null
  /** How many wait for one. */
  readonly queued: number
  /** How often it is scheduled by itself, and when next; null: not. */
  readonly rhythm: string | null
  readonly nextAtMs: number | null
}

/** By name. @param spool its real path */
export function namedIn({ spools, schedules }: DaemonSnapshot, spool: string): NamedRow[] {
  const rows = new Map<string, NamedRow>()
  const queues = spools.find(({ directory }) => directory === spool)?.tasks.slotQueues ?? []
  for (const { name, count, parked } of queues)
    rows.set(name, { name, slots: count, queued: parked, rhythm: null, nextAtMs: null })
  for (const { schedule, nextAtMs, spool: of } of schedules) {
    if (schedule.kind !== 'periodic' || of !== spool) continue
    const { name, when } = schedule
    const known = rows.get(name) ?? { name, slots: null, queued: 0 }
    const rhythm = 'everyMs' in when ? `every ${when.everyMs / 1000} s` : when.expression
    rows.set(name, { ...known, rhythm, nextAtMs })
  }
  return [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

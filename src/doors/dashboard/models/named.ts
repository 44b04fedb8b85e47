import type { DaemonSnapshot, NamedStats } from '../../../runtime/stats/snapshot.js'

/** What is known of the tasks of one name. */
export interface NamedRow
  extends Pick<NamedStats, 'name' | 'slots' | 'running' | 'done' | 'retried' | 'buried' | 'killed'> {
  /** Per second, over the last five minutes. */
  readonly doneRate: number
  readonly failedRate: number
  /** How long a run takes on average; null: none has ended. */
  readonly meanMs: number | null
  /** How many wait for a slot. */
  readonly queued: number
  /** How often it is scheduled by itself, and when next; null: not. */
  readonly rhythm: string | null
  readonly nextAtMs: number | null
}

const UNKNOWN = {
  ...{ slots: null, running: 0, done: 0, retried: 0, buried: 0, killed: 0, doneRate: 0, failedRate: 0 },
  ...{ meanMs: null, queued: 0, rhythm: null, nextAtMs: null },
}

/** By name; all others together come last. @param spool its real path */
export function namedIn({ spools, schedules }: DaemonSnapshot, spool: string): NamedRow[] {
  const rows = new Map<string, NamedRow>()
  const known = (name: string): NamedRow => rows.get(name) ?? { name, ...UNKNOWN }
  const { named = [], tasks } = spools.find(({ directory }) => directory === spool) ?? {}
  for (const stats of named) rows.set(stats.name, rowOf(stats))
  for (const { name, count, parked } of tasks?.slotQueues ?? [])
    rows.set(name, { ...known(name), slots: count, queued: parked })
  for (const { schedule, nextAtMs, spool: of } of schedules) {
    if (schedule.kind !== 'periodic' || of !== spool) continue
    const { name, when } = schedule
    const rhythm = 'everyMs' in when ? `every ${when.everyMs / 1000} s` : when.expression
    rows.set(name, { ...known(name), rhythm, nextAtMs })
  }
  return [...rows.values()].sort((a, b) => (a.name === '' || (b.name !== '' && a.name > b.name) ? 1 : -1))
}

function rowOf({
  name,
  slots,
  running,
  done,
  retried,
  buried,
  killed,
  other,
  ranMs,
  rates,
}: NamedStats): NamedRow {
  const ended = done + retried + buried + other
  return {
    ...{ ...UNKNOWN, name, slots, running, done, retried, buried, killed },
    ...{ doneRate: rates.done.m5, failedRate: rates.failed.m5 },
    meanMs: ended === 0 ? null : ranMs / ended,
  }
}

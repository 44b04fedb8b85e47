import type { SpoolSnapshot } from '../../stats/snapshot.js'
import { baseName } from '../../task/ref.js'

/** A task that a worker of this daemon runs. */
export interface RunningRow {
  /** Its path in the spool, as text: bytes that are not UTF-8 are replaced. */
  readonly task: string
  readonly name: string
  readonly sinceMs: number
  readonly pid: number
}

/** Those that have run for longest come first. */
export function runningIn({ processes: { workers } }: SpoolSnapshot): RunningRow[] {
  return workers
    .flatMap(({ pid, running }) =>
      running.map(({ task, sinceMs }) => ({ task, name: baseName(task), sinceMs, pid })),
    )
    .sort((a, b) => a.sinceMs - b.sinceMs)
}

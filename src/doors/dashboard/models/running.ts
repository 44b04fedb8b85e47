import { printable } from '../../../base/printable.js'
import { baseName, displayName, type Ref } from '../../../base/task/ref.js'
import { runningRef } from '../../../runtime/stats/read-snapshot.js'
import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'

/** A task that a worker of this daemon runs. */
export interface RunningRow {
  readonly ref: Ref
  /** Its file's name, for people. */
  readonly name: string
  readonly sinceMs: number
  readonly pid: number
}

/** Those that have run for longest come first. */
export function runningIn({ processes: { workers } }: SpoolSnapshot): RunningRow[] {
  return workers
    .flatMap(({ pid, running }) =>
      running.map(task => {
        const ref = runningRef(task)
        return { ref, name: printable(displayName(baseName(ref))), sinceMs: task.sinceMs, pid }
      }),
    )
    .sort((a, b) => a.sinceMs - b.sinceMs)
}

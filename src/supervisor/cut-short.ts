import type { LastRun } from '../task/last-run.js'
import type { Begun } from './given-tasks.js'
import type { Exit } from './worker-listener.js'

/** Why the master killed a worker. `at`: when, on the clock of `performance.now()`. */
export type KillReason =
  /** One of its tasks overran `spooler-harakiri`. */
  | { readonly kind: 'harakiri'; readonly at: number; readonly harakiriMs: number }
  /** Its task overran the deadline that it had set itself. */
  | { readonly kind: 'own-deadline' }
  /** It was replaced or stopped, and its mercy was over. */
  | { readonly kind: 'mercy' }

/** What is known of a run that its worker's end has cut short. */
export function lastRunOf({ startedAt }: Begun, killed: KillReason | undefined, exit: Exit): LastRun {
  switch (killed?.kind) {
    case 'mercy':
      return { kind: 'blameless' }
    case 'own-deadline':
      return { kind: 'crash', cause: 'it overran the deadline that it had set' }
    case 'harakiri': {
      const { at, harakiriMs } = killed
      if (startedAt + harakiriMs > at) return { kind: 'blameless' } // a neighbour did
      return { kind: 'crash', cause: `it overran spooler-harakiri (${harakiriMs / 1000} s)` }
    }
    case undefined:
      return { kind: 'crash', cause: `its process ${howOf(exit)}` }
  }
}

function howOf({ code, signal }: Exit): string {
  return signal === null ? `exited with code ${code}` : `was killed by ${signal}`
}

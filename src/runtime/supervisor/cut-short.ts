import type { LastRun } from '../../base/task/last-run.js'
import type { Begun } from './given-tasks.js'
import type { Exit } from './worker-listener.js'

/** Why the master killed a worker. `at` is on the clock of `performance.now()`. */
export type KillReason =
  /** One of its tasks overran `spooler-harakiri`. */
  | { readonly kind: 'harakiri'; readonly at: number; readonly harakiriMs: number }
  /** Its task overran the deadline that it had set itself (`uwsgi.set_user_harakiri`). */
  | { readonly kind: 'own-deadline' }
  /** A task that people had cancelled did not end, and was all that it ran. */
  | { readonly kind: 'cancel' }
  /** It had more memory than an option allows. */
  | { readonly kind: 'overweight'; readonly option: string }
  /** Something in it has written to the descriptor that its messages take. */
  | { readonly kind: 'garbled' }
  /** It was replaced or stopped, and its mercy was over. */
  | { readonly kind: 'mercy' }

/** Classifies a run that was cut short by the exit of its worker. */
export function lastRunOf(
  { startedAt }: Pick<Begun, 'startedAt'>,
  killed: KillReason | undefined,
  exit: Exit,
): LastRun {
  switch (killed?.kind) {
    case 'mercy':
    case 'cancel':
      return { kind: 'blameless' }
    case 'own-deadline':
      return { kind: 'crash', cause: 'it overran the deadline that it had set' }
    case 'harakiri': {
      const { at, harakiriMs } = killed
      if (startedAt + harakiriMs > at) return { kind: 'blameless' } // another task overran
      return { kind: 'crash', cause: `it overran spooler-harakiri (${harakiriMs / 1000} s)` }
    }
    case 'overweight':
      return { kind: 'crash', cause: `its process had more memory than ${killed.option} allows` }
    case 'garbled':
      return { kind: 'crash', cause: 'its process wrote to the descriptor of its messages' }
    case undefined:
      return { kind: 'crash', cause: `its process ${howOf(exit)}` }
  }
}

/** As the end of a sentence about the process. */
export function howOf({ code, signal }: Exit): string {
  return signal === null ? `exited with code ${code}` : `was killed by ${signal}`
}

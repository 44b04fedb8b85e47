import { epochMs } from '../../base/clock.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report, ReportKind } from '../../base/task/report.js'
import type { MarkedRef } from '../ipc/messages.js'
import type { Given } from './given-tasks.js'
import type { PortExit } from './worker-port.js'

/** A start that is not announced is counted from the last report, and is at most so much later; milliseconds. */
const UNTOLD_MS = 250

/** Why the master killed a worker. `at` is on the clock of `performance.now()`. */
export type KillReason =
  /** One of its tasks overran `spooler-harakiri`. `concurrency` is how many tasks the worker runs at a time. */
  | {
      readonly kind: 'harakiri'
      readonly at: number
      readonly harakiriMs: number
      readonly concurrency: number
    }
  /** Its task overran the deadline that it had set itself (`uwsgi.set_user_harakiri`). */
  | { readonly kind: 'own-deadline' }
  /** A cancelled task did not end, and was all that the worker ran. */
  | { readonly kind: 'cancel' }
  /** The worker had more memory than an option allows. */
  | { readonly kind: 'overweight'; readonly option: string }
  /** Other code in the worker wrote to the descriptor of its messages. */
  | { readonly kind: 'garbled' }
  /** The worker was not ready in time, so it had no task. */
  | { readonly kind: 'start' }
  /** The worker was replaced or stopped, and its mercy was over. */
  | { readonly kind: 'mercy' }

/**
 * What the end of a worker means for a task that it had. Under a lease, the run is certain and its start is known. For a file, the
 * mark says whether there was such a run, and when.
 *
 * @param isInnocent the task was sent to an interpreter with others, which all have marks, and another one was running there
 */
export function lastRunOf(
  { beganAt, givenAtMs, lease }: Pick<Given, 'beganAt' | 'givenAtMs' | 'lease'>,
  killed: KillReason | undefined,
  exit: PortExit,
  isInnocent = false,
): LastRun {
  if (killed?.kind === 'harakiri' && lease !== undefined && beganAt + killed.harakiriMs > killed.at)
    return { kind: 'blameless' } // another task overran
  const lastRun: LastRun = isInnocent ? { kind: 'blameless' } : causeOf(killed, exit)
  if (lease !== undefined) return lastRun
  const nowMs = Date.now()
  return { ...lastRun, from: Math.min(givenAtMs, nowMs), to: Math.max(givenAtMs, nowMs) } // the clock may have been set back
}

function causeOf(killed: KillReason | undefined, exit: PortExit): LastRun {
  switch (killed?.kind) {
    case 'mercy':
    case 'cancel':
      return { kind: 'blameless' }
    case 'own-deadline':
      return { kind: 'crash', cause: 'it overran the deadline that it had set' }
    case 'harakiri': {
      const { at, harakiriMs, concurrency } = killed
      const cause = `it overran spooler-harakiri (${harakiriMs / 1000} s)`
      if (concurrency === 1) return { kind: 'crash', cause }
      return { kind: 'crash', cause, latest: epochMs(at) - harakiriMs + UNTOLD_MS }
    }
    case 'overweight':
      return { kind: 'crash', cause: `its process had more memory than ${killed.option} allows` }
    case 'garbled':
      return { kind: 'crash', cause: 'its process wrote to the descriptor of its messages' }
    case 'start':
    case undefined:
      return { kind: 'crash', cause: `its process ${howOf(exit)}` }
  }
}

/** A task of a worker that has ended, whose run has no result through no fault of its own. */
export interface Excused extends MarkedRef {
  readonly given: Given
}

/** Reports by which a worker says that it has not dealt with what the last run left. */
const UNDECIDED: ReadonlySet<ReportKind> = new Set(['untouched', 'locked', 'unreadable'])

/**
 * How the last runs of refs were cut short, until a worker has dealt with what they left. Where claims are leases the engine keeps
 * this (`Feed.lose`), because such a ref need not bring the same task again.
 */
export class LastRuns {
  readonly #lastRuns = new Map<Ref, LastRun>()

  of(ref: Ref): LastRun | undefined {
    return this.#lastRuns.get(ref)
  }

  /** The tasks whose last run counts as if it had not taken place. */
  excused(tasks: readonly Given[]): Excused[] {
    return tasks.flatMap(given => {
      const lastRun = this.of(given.ref)
      return lastRun?.kind === 'blameless' ? [{ given, ref: given.ref, lastRun }] : []
    })
  }

  /** The last runs of those refs that have one, with their places in `refs`. */
  among(refs: readonly Ref[]): Array<readonly [place: number, LastRun]> {
    if (this.#lastRuns.size === 0) return []
    return refs.flatMap((ref, place) => {
      const lastRun = this.#lastRuns.get(ref)
      return lastRun === undefined ? [] : [[place, lastRun] as const]
    })
  }

  /** Nobody begins a task before what its last run left is dealt with, so this replaces what was known. */
  add(ref: Ref, lastRun: LastRun): void {
    this.#lastRuns.set(ref, lastRun)
  }

  done(refs: readonly Ref[]): void {
    if (this.#lastRuns.size > 0) for (const ref of refs) this.#lastRuns.delete(ref)
  }

  reported(reports: readonly Pick<Report, 'ref' | 'kind'>[]): void {
    if (this.#lastRuns.size === 0) return
    for (const { ref, kind } of reports) if (!UNDECIDED.has(kind)) this.#lastRuns.delete(ref)
  }
}

/** As the end of a sentence about the process. */
export function howOf({ code, signal }: PortExit): string {
  return signal === null ? `exited with code ${code}` : `was killed by ${signal}`
}

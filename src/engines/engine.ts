import type { Vars } from '../protocol/vars.js'
import type { LastRun } from '../task/last-run.js'
import type { Company, Outcome } from '../task/outcome.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { Request } from '../task/request.js'

/** A task that this process holds: nobody else runs it until it is settled. */
export interface Claim {
  readonly ref: Ref
  /** The packet's pairs. */
  readonly vars: Vars
  /** Epoch ms. */
  readonly dueAtMs: number
  /** This run's number, from 1. */
  readonly attempt: number
  /** 0: there is none. */
  readonly bodyBytes: number
  /** Its last runner died while it ran beside others: nobody knows whose fault that was, unless it runs alone now. */
  readonly mustBeAlone: boolean
  /** At most once: such a task is never sent beside others. */
  readonly isOnce: boolean
  /** Undefined when there is none. Valid until the claim is settled. */
  readBody(): Buffer | undefined
  /**
   * A descriptor for another process: until that has ended, or this claim is settled, nobody else claims the task, even
   * if this process dies. Undefined where claims are leases.
   */
  shareLock(): number | undefined
}

export interface Counts {
  readonly ready: number
  readonly busy: number
  readonly waiting: number
}

/** Where tasks can be put; all that a program needs that runs none. */
export interface Enqueuer {
  /** Stores a task; resolves to its path when it is safe there. */
  enqueue(request: Request): Promise<string>
}

/**
 * Where tasks live. One contract for every kind of storage, in two roles: the master asks what is due and learns what
 * came of it; a worker claims and settles. The same conformance suite runs against every engine.
 *
 * A ref that `due` gave is busy until exactly one of `done`, `returned` or `abandoned` is called with it. `claim` may be called
 * by anybody for anything: it is the claim that excludes others, never the master's book-keeping.
 */
export interface Engine extends Enqueuer {
  /** The most urgent due refs, at most `limit`. Never blocks, opens nothing. */
  due(limit: number): readonly Ref[]
  /** A worker ran these to SPOOL_OK, and they are gone. */
  done(refs: readonly Ref[]): void
  /** A worker is through with these refs, with or without having run them. */
  returned(reports: readonly Report[]): void
  /** The worker that had them died; they are due again. */
  abandoned(refs: readonly Ref[]): void
  /** Calls back whenever `due` may give more than it did. The first call comes when the engine knows its tasks. */
  onWakeUp(wakeUp: () => void): Promise<void>
  /** This process has put a task in by another way than `enqueue`: it is due as soon as if it had been noticed. */
  stored(ref: Ref): void
  /** How often everything is looked at from now on; null: as often as it was opened with. */
  setFrequency(frequencyMs: number | null): void
  /** Looks again at everything, at once. */
  scanNow(): void
  counts(): Counts
  /** All that was due has run, and nothing is under way. */
  readonly isDrained: boolean

  /**
   * Takes hold of a task, or says in a report why not. Writes nothing, but to deal with what a past run left: a run that
   * began alone and never ended counts as a crash of the task, unless the caller knows it for blameless. What has no run
   * left is buried.
   */
  claim(ref: Ref, lastRun?: LastRun): Claim | Report
  /**
   * Writes the mark of a run; to be called right before the handler is. `beside`: should its process die, nobody knows
   * whose fault that was. A report says why it could not be written: nothing ran, and the claim is released.
   */
  begin(claim: Claim, company: Company): Report | undefined
  /** Applies a run's outcome and gives the claim up. Exactly once for a claim that began. */
  settle(claim: Claim, outcome: Outcome, ranMs: number): Report
  /** Gives up a claim that did not begin. Nothing is written. */
  release(claim: Claim): Report

  /** Stops looking. Claims that are held stay held until they are settled. */
  close(): void
}

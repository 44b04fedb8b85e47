import type { Vars } from '../protocol/vars.js'
import type { LastRun } from '../task/last-run.js'
import type { Company, Outcome } from '../task/outcome.js'
import type { Ref } from '../task/ref.js'
import type { ParkReason, Report } from '../task/report.js'

/** A plain value where the engine can give one, so that no promise is allocated and no turn is lost. */
export type Awaitable<T> = T | Promise<T>

/** A task that this process holds: nobody else runs it until it is settled. */
export interface Claim {
  readonly ref: Ref
  /** The task's name, for handlers and people: a ref need not hold it. */
  readonly name: string
  /** Where the task lies, as text: its file's absolute path, or its engine's word for it. */
  readonly path: string
  /** Null: it has none, and comes after those that have one. */
  readonly priority: number | null
  /** The directory that its handler runs in, unless `spooler-chdir` names another; undefined: it stays where it is. */
  readonly directory: string | undefined
  /** The packet's pairs. */
  readonly vars: Vars
  /** Epoch ms. */
  readonly dueAtMs: number
  /** This run's number, from 1. */
  readonly attempt: number
  /** 0: there is none. */
  readonly bodyBytes: number
  /**
   * Its last runner died while it ran beside others: nobody knows whose fault that was, unless it runs alone now. Or one
   * died while it ran alone: it is not to take others with it.
   */
  readonly mustBeAlone: boolean
  /** At most once: such a task is never sent beside others. */
  readonly isOnce: boolean
  /** Undefined when there is none. Valid until the claim is settled. */
  readBody(): Buffer | undefined
  /**
   * A descriptor for another process: until that has ended, or this claim is settled, nobody else claims the task, even
   * if this process dies. Undefined where a claim is no descriptor.
   */
  shareLock(): number | undefined
}

/**
 * What a worker does with tasks: claim → begin → settle, or claim → release.
 *
 * Anybody may claim any ref: the claim excludes others, not what the master remembers. Nothing here throws or rejects;
 * what cannot be done is a report that says why. Each method may return a promise.
 */
export interface Claims {
  /**
   * Takes a task, or reports why not. Writes nothing, except to deal with what a past run left: a run that began alone and
   * never ended counts as a crash of the task, unless the caller knows that the task is blameless. A task without a run
   * left is buried. What may not run now for another reason than its time is `parked`, and is left as it is.
   */
  claim(ref: Ref, lastRun?: LastRun): Awaitable<Claim | Report>
  /**
   * Marks that the run begins; to be called right before the handler is. `beside`: should its process die, nobody knows
   * whose fault that was. A report: the mark could not be made, nothing may run, and the claim is given up.
   */
  begin(claim: Claim, company: Company): Awaitable<Report | undefined>
  /** Applies a run's outcome and gives the claim up. Exactly once for a claim that began. */
  settle(claim: Claim, outcome: Outcome, ranMs: number): Awaitable<Report>
  /**
   * Gives up a claim that did not begin. Nothing is counted.
   *
   * @param reason what the task needs, and this worker cannot give: the report is `parked` instead of `untouched`
   */
  release(claim: Claim, reason?: ParkReason): Awaitable<Report>
}

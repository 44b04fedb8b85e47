import type { LastRun } from '../base/task/last-run.js'
import type { Company, Outcome } from '../base/task/outcome.js'
import type { ParkReason } from '../base/task/parked.js'
import type { Ref } from '../base/task/ref.js'
import type { ClaimNotice, Report } from '../base/task/report.js'
import type { Delivery, NamedSlots, RetryPolicy, SlotNews, TermsOrPark } from '../base/task/terms.js'
import type { Vars } from '../formats/protocol/vars.js'
import type { DeadRun, TellDeath } from './contracts/death.js'

export type { DeadRun, Death, TellDeath } from './contracts/death.js'

/** What a worker's claims are opened with in every engine. */
export interface ClaimsSettings {
  readonly policy: RetryPolicy
  /** The default; a packet may name its own. */
  readonly delivery: Delivery
  /** The default delay of a retry, and the maximum delay after a crash. */
  readonly frequencyMs: number
  /** Returns the terms that the handlers have for a task; absent: none for any task. */
  readonly termsOf?: ((vars: Vars) => TermsOrPark) | undefined
  readonly died?: TellDeath | undefined
}

/** A plain value where the engine can give one, which saves a promise and a turn of the event loop. */
export type Awaitable<T> = T | Promise<T>

/** A task that this process holds: no other process runs it until it is settled or released. */
export interface Claim extends DeadRun {
  /** Where the task is stored: the absolute path of its file, or an engine's own term. */
  readonly path: string
  /** Null: no priority; such a task comes after those that have one. */
  readonly priority: number | null
  /**
   * The directory in which its handler runs, unless `spooler-chdir` names another; undefined: the worker stays where
   * it is.
   */
  readonly directory: string | undefined
  /**
   * True if its process died while it ran beside other tasks, so that it is unknown which one is to blame until it
   * runs alone. Also true if its process died while it ran alone, so that it takes no other tasks with it.
   */
  readonly mustBeAlone: boolean
  /** True if its process died while it ran alone, so that it is to blame. Tasks that have not crashed go first. */
  readonly hasCrashed: boolean
  /** True if the task would find no slot, as far as this worker knows, so that it need not wait for its begin. */
  readonly findsNoSlot?: boolean
  /** True if the task is delivered at most once. Such a task is never sent to a host together with others. */
  readonly isOnce: boolean
  /**
   * Set once the task has begun: larger than that of every run of the spool that began before. Undefined if the engine has none.
   */
  readonly fencingToken?: number | undefined
  /** What the worker sends to the master before the task begins. Undefined: the ref says it all, and no message is sent. */
  readonly notice: ClaimNotice | undefined
  /**
   * Returns a descriptor to pass to another process. No other process can claim the task until that process has ended or this
   * claim is settled, even if this process dies. Undefined if the engine's claims are not descriptors.
   */
  shareLock(): number | undefined
}

/**
 * A worker's operations on tasks: claim → begin → settle, or claim → release.
 *
 * Any worker may claim any ref: exclusion comes from the claim, not from what the master remembers. No method throws
 * or rejects; a failure is a report that gives the reason. Each method may return a promise.
 */
export interface Claims {
  /**
   * Takes a task, or reports why not. It writes nothing, except to settle what a past run left: a run that began
   * alone and never ended counts as a crash of the task, unless `lastRun` says that the task is blameless. A task
   * with no attempts left is buried. A task that may not run now for a reason other than its due time is reported as
   * `parked`, and left unchanged: so is a named task whose name the options' `termsOf` does not know.
   */
  claim(ref: Ref, lastRun?: LastRun): Awaitable<Claim | Report>
  /**
   * Marks the start of the run. Call it right before the handler. `beside` means that other tasks run in this process, so if the
   * process dies, it is unknown which one is to blame.
   *
   * A task whose terms have slots takes one of them first. If all are taken, it is reported as `parked`, and left unchanged.
   *
   * @returns a report if the task gets no slot, or if the mark could not be made: then nothing may run, and the claim is given up
   */
  begin(claim: Claim, company: Company): Awaitable<Report | undefined>
  /**
   * Applies a run's outcome, gives up the claim, and then gives back the slot, which the report has as `slots`. Call it exactly
   * once for a claim that began. A named task that every handler ignored is parked.
   *
   * @param next the ref that will be claimed after this, as far as is known: an engine may fetch its task with the same command
   * @param isFollowed true keeps the slot for the next claim of the name that begins; only if there are `slots`
   */
  settle(claim: Claim, outcome: Outcome, ranMs: number, next?: Ref, isFollowed?: boolean): Awaitable<Report>
  /**
   * Gives up a claim that did not begin. No attempt is counted.
   *
   * @param reason what the task needs and this worker cannot provide: the report is then `parked` instead of
   *   `untouched`
   */
  release(claim: Claim, reason?: ParkReason): Awaitable<Report>
  /**
   * Does what `settle` has put off. Call it before a report is sent.
   *
   * @param isEmpty true if no ref waits to be claimed: then what `settle` fetched and nobody has claimed is given up, and so is
   *   what is kept open for the next claim
   */
  rest(isEmpty: boolean): void
}

/** The slots of one worker's claims. */
interface ClaimedSlots {
  /**
   * Learns that the master has given more tasks, so that slots that were found taken may be free by now.
   *
   * @param news what has changed: only the tasks in `tries` may take a slot of a name in `queued`
   */
  refresh(news: SlotNews | undefined): void
  /** Gives back a slot that `settle` has kept, because no task follows on it. @returns true if there was one */
  dropKept(slots: NamedSlots): boolean
  /** Returns how many slots of a name this worker's claims have: those of claims that have begun, and those kept. */
  heldOf(name: string): number
}

/** What an engine opens for a worker. */
export interface WorkerClaims extends Claims {
  /** Absent: the engine keeps no slot for the next task of its name. */
  readonly slots?: ClaimedSlots
}

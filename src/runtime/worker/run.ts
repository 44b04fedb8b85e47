import { countDown } from '../../base/clock.js'
import { cancelledDetail } from '../../base/task/cancel.js'
import { boundedFailure, failureLine } from '../../base/task/failure-text.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Outcome } from '../../base/task/outcome.js'
import type { Ref } from '../../base/task/ref.js'
import type { Claim } from '../../engines/claims.js'

/** The abort signal fires this long before the end, or after half of the remaining time if that is later. */
const WARNING_MS = 1000

/** A task that the master gave. */
export interface Given {
  /** The master's. */
  readonly number: number
  readonly ref: Ref
  readonly lastRun: LastRun | undefined
  /** The last ref of its message. */
  readonly isLast: boolean
  /** It may run although it has crashed. */
  readonly isItsTurn: boolean
}

/** How long a run may take. */
export interface RunLimits {
  /** 0: no deadline. */
  readonly harakiriMs: number
  /** Its process is killed then. Otherwise its signal is all there is, and fires when the time is over. */
  readonly isKilled: boolean
}

/** One claimed task, until it is reported. */
export class Run {
  readonly claim: Claim
  /** The number that the master gave it. */
  readonly number: number
  /** When it was given to its executor. All times here are on the clock of `performance.now()`. */
  startedAt = 0
  /** Its handler has been called, as far as its executor knows. */
  hasStarted = false
  /** The master knows that it is running. */
  isAnnounced = false
  hasEnded = false
  /** A program runs for it now: a cancel ends that, at the latest by SIGKILL, and its worker need not be killed. */
  isProgram = false
  #cancelled: Error | undefined
  #stop: (() => void) | undefined
  #mercyBegan: (() => void) | undefined
  readonly #limits: RunLimits
  #mercyEndsAt = Number.POSITIVE_INFINITY
  #controller: AbortController | undefined
  /** They end what counts down to the signal. As for the master, time counts in which this process runs. */
  #counts: Array<() => void> | undefined

  constructor(claim: Claim, number: number, limits: RunLimits) {
    this.claim = claim
    this.number = number
    this.#limits = limits
  }

  /**
   * Fires when people cancel the task, and shortly before the master's SIGKILL. Created on first access, so only handlers
   * that use it pay for it.
   */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#cancelled !== undefined) this.#controller.abort(this.#cancelled)
      this.#countToDeadline()
      this.#countToMercy()
    }
    return this.#controller.signal
  }

  /** A stop or a reload has begun: the run has this long to end. */
  setMercy(mercyMs: number): void {
    this.#mercyEndsAt = performance.now() + mercyMs
    if (this.#controller !== undefined) this.#countToMercy()
    this.#mercyBegan?.()
  }

  /** @param act called when a stop or a reload begins: for a run that only waits */
  whenStopped(act: () => void): void {
    this.#mercyBegan = act
  }

  /** People do not want its result. */
  cancel(): void {
    if (this.isCancelled) return
    this.#cancelled = new Error('this task was cancelled')
    this.#controller?.abort(this.#cancelled)
    this.#stop?.()
  }

  get isCancelled(): boolean {
    return this.#cancelled !== undefined
  }

  /** @param stop ends what runs for this task; called at once if it was cancelled before */
  whenCancelled(stop: () => void): void {
    this.#stop = stop
    if (this.isCancelled) stop()
  }

  /** What its outcome counts as: what was done before the cancel could end it is done. */
  outcomeOf(outcome: Outcome): Outcome {
    if (!this.isCancelled || outcome.kind === 'ok') return bounded(outcome)
    return { kind: 'cancel', detail: cancelledDetail(endingOf(outcome)) }
  }

  end(): void {
    this.hasEnded = true
    if (this.#counts !== undefined) for (const stop of this.#counts) stop()
  }

  #countToDeadline(): void {
    const { harakiriMs, isKilled } = this.#limits
    const endsAt = harakiriMs === 0 ? Number.POSITIVE_INFINITY : this.startedAt + harakiriMs
    this.#count(endsAt, `its deadline${isKilled ? ' (spooler-harakiri)' : ''}`, isKilled)
  }

  #countToMercy(): void {
    this.#count(this.#mercyEndsAt, 'the mercy of a stop', true)
  }

  #count(endsAt: number, why: string, isWarned: boolean): void {
    if (endsAt === Number.POSITIVE_INFINITY) return
    const leftMs = Math.max(0, endsAt - performance.now())
    const warningMs = isWarned ? Math.min(WARNING_MS, leftMs / 2) : 0
    const what = this.#limits.isKilled ? 'is about to be killed' : 'has to end'
    const abort = () => this.#controller?.abort(new Error(`this task ${what}: ${why} ends`))
    this.#counts ??= []
    this.#counts.push(countDown(leftMs - warningMs, abort))
  }
}

function bounded(outcome: Outcome): Outcome {
  if (!('detail' in outcome) || outcome.detail === undefined) return outcome
  return { ...outcome, detail: boundedFailure(outcome.detail) }
}

function endingOf(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'release':
      return outcome.isUnbegun === true ? 'had not begun' : 'was interrupted'
    case 'retry':
      return outcome.detail === undefined ? 'ended' : `ended: ${failureLine(outcome.detail)}`
    case 'error':
    case 'bury':
    case 'crash':
      return `ended: ${failureLine(outcome.detail)}`
    default:
      return 'ended'
  }
}

import { countDown } from '../../base/clock.js'
import { cancelledDetail } from '../../base/task/cancel.js'
import { boundedFailure, failureLine } from '../../base/task/failure-text.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Outcome } from '../../base/task/outcome.js'
import type { Ref } from '../../base/task/ref.js'
import type { BegunTask } from '../../base/task/report.js'
import type { Claim } from '../../engines/claims.js'

/** The abort signal fires this many ms before the end, or after half of the remaining time if that is later. */
const WARNING_MS = 1000

/** A task that the master has given to this worker. */
export interface Given {
  /** The master's number of the task. */
  readonly number: number
  readonly ref: Ref
  readonly lastRun: LastRun | undefined
  /** True for the last ref of a message. */
  readonly isLast: boolean
  /** True if the task may run although it has crashed. */
  readonly isItsTurn: boolean
  /** True once the worker has taken the task. */
  isTaken: boolean
}

/** How long a run may take. */
export interface RunLimits {
  /** 0: no deadline. */
  readonly harakiriMs: number
  /** True if the process is killed at the deadline. Otherwise only the run's signal fires, when the time is over. */
  readonly isKilled: boolean
}

/** A claimed task, from its claim until it is reported. */
export class Run {
  readonly claim: Claim
  /** The number that the master gave it. */
  readonly number: number
  /** When the run was given to its executor. All times here are on the clock of `performance.now()`. */
  startedAt = 0
  /** True once the handler has been called, as far as the executor knows. */
  hasStarted = false
  /** True once the master has been told that the task is running. */
  isAnnounced = false
  hasEnded = false
  /** The number by which the host knows the task, if a host runs it. */
  hostNumber: number | undefined
  /** True while a program runs for the task. A cancel ends that, at the latest by SIGKILL, so the worker need not be killed. */
  isProgram = false
  /** The task as it was told to who follows runs; undefined: nobody did when it began, or the task has no name. */
  told: BegunTask | undefined
  #cancelled: Error | undefined
  #stop: (() => void) | undefined
  #mercyBegan: (() => void) | undefined
  readonly #limits: RunLimits
  #mercyEndsAt = Number.POSITIVE_INFINITY
  #controller: AbortController | undefined
  /** Functions that stop the countdowns to the signal. As in the master, only time in which this process runs counts. */
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

  /** Gives the run this long to end, because a stop or a reload has begun, unless an earlier one ends sooner. */
  setMercy(mercyMs: number): void {
    this.#mercyEndsAt = Math.min(this.#mercyEndsAt, performance.now() + mercyMs)
    if (this.#controller !== undefined) this.#countToMercy()
    this.#mercyBegan?.()
  }

  /** Sets what a run that only waits does when a stop or a reload begins. @param act called then */
  whenStopped(act: () => void): void {
    this.#mercyBegan = act
  }

  /** Cancels the run: people do not want its result. */
  cancel(): void {
    if (this.isCancelled) return
    this.#cancelled = new Error('this task was cancelled')
    this.#controller?.abort(this.#cancelled)
    this.#stop?.()
  }

  get isCancelled(): boolean {
    return this.#cancelled !== undefined
  }

  /** Sets how a cancel ends the run. @param stop ends what runs for this task; called at once if the task was cancelled before */
  whenCancelled(stop: () => void): void {
    this.#stop = stop
    if (this.isCancelled) stop()
  }

  /** Returns what an outcome counts as: that of a cancelled run as cancelled, unless the task was done before. */
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

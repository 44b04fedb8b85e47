import type { Claim } from '../engines/claims.js'

/** The abort signal fires this long before the end, or after half of the remaining time if that is later. */
const WARNING_MS = 1000

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
  readonly #harakiriMs: number
  #mercyEndsAt = Number.POSITIVE_INFINITY
  #controller: AbortController | undefined
  #timer: NodeJS.Timeout | undefined

  /** @param harakiriMs 0: no deadline */
  constructor(claim: Claim, number: number, harakiriMs: number) {
    this.claim = claim
    this.number = number
    this.#harakiriMs = harakiriMs
  }

  /** Fires shortly before the master's SIGKILL. Created on first access, so only handlers that use it pay for it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      this.#arm()
    }
    return this.#controller.signal
  }

  /** A stop or a reload has begun: the run has this long to end. */
  setMercy(mercyMs: number): void {
    this.#mercyEndsAt = performance.now() + mercyMs
    this.#arm()
  }

  end(): void {
    this.hasEnded = true
    if (this.#timer !== undefined) clearTimeout(this.#timer)
  }

  #arm(): void {
    const controller = this.#controller
    const deadlineAt = this.#harakiriMs === 0 ? Number.POSITIVE_INFINITY : this.startedAt + this.#harakiriMs
    const endsAt = Math.min(deadlineAt, this.#mercyEndsAt)
    clearTimeout(this.#timer)
    if (controller === undefined || endsAt === Number.POSITIVE_INFINITY) return
    const leftMs = Math.max(0, endsAt - performance.now())
    const why = endsAt === deadlineAt ? 'its deadline (spooler-harakiri)' : 'the mercy of a stop'
    const abort = () => controller.abort(new Error(`this task is about to be killed: ${why} ends`))
    this.#timer = setTimeout(abort, leftMs - Math.min(WARNING_MS, leftMs / 2))
  }
}

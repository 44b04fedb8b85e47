import { endOf } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Lease, LeaseListener } from '../../base/task/schedule.js'

interface LeadershipOptions {
  /** Takes the lease. @returns undefined if another process has it */
  take(listener: LeaseListener): Promise<Lease | undefined>
  changed(isLeading: boolean): void
  failed(error: string): void
}

const RETRY_MS = 1000
/** How long a stop waits, in ms, until the lease is released. If its store does not answer, the lease expires by itself. */
const RELEASE_MS = 500

/**
 * A candidate among several to fire the same schedules.
 *
 * States: asking → leading → asking …, or asking → waiting (another one leads) → leading; then stopped.
 */
export class Leadership {
  readonly #options: LeadershipOptions
  #state: 'asking' | 'waiting' | 'leading' | 'stopped' = 'asking'
  readonly #stopping = new AbortController()
  #lease: Lease | undefined
  #timer: NodeJS.Timeout | undefined
  #asked: Promise<void>
  #reported: string | undefined

  constructor(options: LeadershipOptions) {
    this.#options = options
    this.#asked = this.#ask()
  }

  /**
   * True if this process may fire what is due at this time. A process that was suspended fires nothing that its successor may
   * have fired, because the successor gets the lease, and starts, only after the old lease has expired.
   */
  leadsAt(instantMs: number): boolean {
    return this.#state === 'leading' && this.#lease !== undefined && instantMs < this.#lease.validUntilMs
  }

  get state(): 'asking' | 'waiting' | 'leading' | 'stopped' {
    return this.#state
  }

  /** True once it is known whether this process leads. */
  get isDecided(): boolean {
    return this.#state === 'leading' || this.#state === 'waiting'
  }

  async stop(): Promise<void> {
    this.#state = 'stopped'
    this.#stopping.abort()
    clearTimeout(this.#timer)
    const released = this.#asked.then(() => this.#lease?.release())
    await endOf(released, RELEASE_MS)
    this.#lease = undefined
  }

  async #ask(): Promise<void> {
    try {
      const lease = await this.#options.take({
        givenUp: this.#stopping.signal,
        lost: () => this.#lose(),
        renewed: () => this.#lead(),
      })
      this.#lease = lease
      if (lease === undefined) this.#wait()
      else if (!lease.isTakenOver) this.#lead()
    } catch (error) {
      this.#fail(messageOf(error))
    }
  }

  #lead(): void {
    if (this.#state === 'stopped' || this.#state === 'leading' || this.#lease === undefined) return
    this.#state = 'leading'
    this.#reported = undefined
    this.#options.changed(true)
  }

  #wait(): void {
    this.#reported = undefined
    if (this.#state === 'asking') {
      this.#state = 'waiting'
      this.#options.changed(false)
    }
    this.#askLater()
  }

  #lose(): void {
    this.#lease = undefined
    if (this.#state !== 'stopped') this.#state = 'asking'
    this.#askLater()
  }

  #fail(error: string): void {
    if (this.#state === 'stopped') return
    if (error !== this.#reported) this.#options.failed(error)
    this.#reported = error
    this.#askLater()
  }

  #askLater(): void {
    if (this.#state === 'stopped') return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#asked = this.#ask()
    }, RETRY_MS)
  }
}

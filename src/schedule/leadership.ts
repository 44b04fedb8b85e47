import { messageOf } from '../base/errors.js'

/** The right to fire, held for a while and renewed all the time. */
export interface Lease {
  /** Epoch ms. Nobody else can have it before then. */
  readonly validUntilMs: number
  /** Another one had it, and was found to be gone: who else noticed may believe to have it until it is renewed. */
  readonly isTakenOver: boolean
  release(): Promise<void>
}

export interface LeadershipOptions {
  /** Undefined when somebody has it. @param lost is called when it could not be renewed @param renewed when it was */
  take(lost: () => void, renewed: () => void): Promise<Lease | undefined>
  changed(isLeading: boolean): void
  failed(error: string): void
}

const RETRY_MS = 1000

/**
 * One of many that all want to fire the same schedules.
 *
 * States: asking → leading → asking …, or asking → waiting (somebody else leads) → leading; then stopped.
 */
export class Leadership {
  readonly #options: LeadershipOptions
  #state: 'asking' | 'waiting' | 'leading' | 'stopped' = 'asking'
  #lease: Lease | undefined
  #timer: NodeJS.Timeout | undefined
  #asked: Promise<void>
  #told: string | undefined

  constructor(options: LeadershipOptions) {
    this.#options = options
    this.#asked = this.#ask()
  }

  /**
   * Whether what is due at this instant is ours to fire. A process that slept fires nothing that its successor may have
   * fired: that one has the lease, and begins, only after ours was valid.
   */
  leadsAt(instantMs: number): boolean {
    return this.#state === 'leading' && this.#lease !== undefined && instantMs < this.#lease.validUntilMs
  }

  /** It is known who leads. */
  get isDecided(): boolean {
    return this.#state === 'leading' || this.#state === 'waiting'
  }

  async stop(): Promise<void> {
    this.#state = 'stopped'
    clearTimeout(this.#timer)
    await this.#asked
    await this.#lease?.release().catch(() => {})
    this.#lease = undefined
  }

  async #ask(): Promise<void> {
    try {
      const lease = await this.#options.take(
        () => this.#lose(),
        () => this.#lead(),
      )
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
    this.#told = undefined
    this.#options.changed(true)
  }

  #wait(): void {
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
    if (error !== this.#told) this.#options.failed(error)
    this.#told = error
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

import type { Claim } from '../../engines/engine.js'
import type { HostOptions } from '../../ipc/messages.js'
import type { Outcome } from '../../task/outcome.js'
import { HostProcess } from './host-process.js'

/** Who runs tasks in a host. */
export interface HostUser {
  /** Some of what was sent has ended, and can be collected. */
  progress(): void
  /** The last `count` of those sent will not be started. */
  recalled(count: number): void
  /** It is gone, and what had not ended with it. `detail` says how. */
  died(detail: string): void
  /** It takes tasks again. */
  revived(): void
}

export interface HostDuties {
  call(name: string, values: readonly Buffer[]): Promise<ReadonlyArray<string | Uint8Array>>
  /** It died, and another is started. */
  died(host: Host, death: string): void
  /** Another one could not be started: the worker is of no use any more. */
  failed(error: Error): void
}

/**
 * The host of one language: an interpreter process that is replaced when it dies.
 *
 * States: loading → open → (dies) loading → … → closed.
 */
export class Host {
  readonly options: HostOptions
  readonly #duties: HostDuties
  #user: HostUser | undefined
  #process: HostProcess
  #state: 'loading' | 'open' | 'closed' = 'loading'
  readonly #signals = new Map<number, { resolve(): void; reject(error: Error): void }>()

  private constructor(options: HostOptions, dutiesOf: (host: () => Host) => HostDuties) {
    this.options = options
    this.#duties = dutiesOf(() => this)
    this.#process = this.#spawn()
  }

  /** @throws SpooldError HANDLER_UNLOADABLE */
  static async start(options: HostOptions, dutiesOf: (host: () => Host) => HostDuties): Promise<Host> {
    const host = new Host(options, dutiesOf)
    await host.#process.whenReady
    host.#state = 'open'
    return host
  }

  attach(user: HostUser): void {
    this.#user = user
  }

  get pid(): number {
    return this.#process.pid
  }

  /** It takes tasks. */
  get isOpen(): boolean {
    return this.#state === 'open' && !this.#process.isRecalling
  }

  get isRecalling(): boolean {
    return this.#process.isRecalling
  }

  get messages(): number {
    return this.#process.messages
  }

  send(claims: readonly Claim[]): void {
    this.#process.send(claims)
  }

  /** What came of tasks since the last call, in the order in which they were sent. */
  collect(): Outcome[] {
    return this.#process.collect()
  }

  /** Does the oldest task of which nothing came yet run? As of the last `collect`. */
  hasStarted(): boolean {
    return this.#process.hasStarted(this.#process.oldest)
  }

  /** Takes back what is not started. @returns how many are left to it, at most one less after `recalled` */
  recall(): number {
    return this.#process.recall() - this.#process.oldest
  }

  /** Calls the function that the host registered for a signal. Rejects with what it throws. */
  signal(number: number): Promise<void> {
    if (this.#state !== 'open') return Promise.reject(new Error('the interpreter is being replaced'))
    return new Promise((resolve, reject) => {
      this.#signals.set(number, { resolve, reject })
      this.#process.signal(number)
    })
  }

  async end(): Promise<void> {
    this.#state = 'closed'
    await this.#process.end()
  }

  #spawn(): HostProcess {
    const process = new HostProcess(this.options, {
      progress: () => this.#user?.progress(),
      recalled: count => this.#user?.recalled(count),
      signalEnded: (number, error) => this.#signalEnded(number, error),
      call: (name, values) => this.#duties.call(name, values),
    })
    void process.whenDead.then(death => this.#died(process, death))
    return process
  }

  #signalEnded(number: number, error: string): void {
    const waiting = this.#signals.get(number)
    this.#signals.delete(number)
    if (error === '') waiting?.resolve()
    else waiting?.reject(new Error(error))
  }

  #died(process: HostProcess, death: string): void {
    const { language } = this.options
    const wasOpen = this.#state === 'open'
    if (wasOpen) {
      this.#state = 'loading'
      this.#duties.died(this, death)
      for (const { reject } of this.#signals.values())
        reject(new Error(`the ${language} interpreter ${death}`))
      this.#signals.clear()
      this.#user?.died(`the ${language} interpreter that ran it ${death}`)
    }
    process.release()
    if (wasOpen) void this.#revive()
  }

  async #revive(): Promise<void> {
    this.#process = this.#spawn()
    try {
      await this.#process.whenReady
    } catch (error) {
      return this.#duties.failed(error instanceof Error ? error : new Error(String(error)))
    }
    this.#state = 'open'
    this.#user?.revived()
  }
}

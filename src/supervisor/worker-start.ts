import { SpooldError } from '../base/errors.js'
import type { WorkerMessage } from '../ipc/messages.js'
import type { SignalNews } from '../task/schedule.js'
import type { PortExit } from './worker-port.js'

/** A start that takes so long is told of. */
const SLOW_MS = 10_000

interface StartWatch {
  /** 0: no deadline. */
  readonly timeoutMs: number
  slow(what: string, afterMs: number): void
  /** It took too long, and has failed. */
  gaveUp(): void
}

/** What a worker says until it is ready. */
export class WorkerStart {
  #loading: string | undefined
  #news: readonly SignalNews[] = []
  #settle: { resolve(): void; reject(error: SpooldError): void } = { resolve() {}, reject() {} }
  /** Rejects with a SpooldError when it cannot load its handlers, or dies before it could. */
  readonly whenReady = new Promise<void>((resolve, reject) => {
    this.#settle = { resolve, reject }
  })

  constructor() {
    this.whenReady.catch(() => {}) // not every caller awaits it; a failure is also reported by the exit
  }

  /** What its handlers said about signals while they were loaded. */
  get news(): readonly SignalNews[] {
    return this.#news
  }

  hear(message: Extract<WorkerMessage, { type: 'loading' | 'ready' | 'unloadable' }>): void {
    switch (message.type) {
      case 'loading':
        this.#loading = message.name
        return
      case 'ready':
        this.#news = message.news
        return this.#settle.resolve()
      case 'unloadable':
        return this.#fail(new SpooldError('HANDLER_UNLOADABLE', message.error))
    }
  }

  /** It is gone: before it was ready, if it was not. */
  ended({ code, signal, unforked }: PortExit): void {
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    const what =
      unforked === undefined
        ? `the worker ${how} before it was ready`
        : `no worker could be forked: ${unforked}`
    this.#fail(new SpooldError('START_FAILED', what))
  }

  /** Tells of a start that takes long, and gives it up when it takes too long. */
  watch({ timeoutMs, slow, gaveUp }: StartWatch): void {
    const timers = [setTimeout(() => slow(this.#what, SLOW_MS), SLOW_MS)]
    const giveUp = () => {
      const error = `${this.#what} is still loading after ${timeoutMs / 1000} s (spooler-start-timeout)`
      this.#fail(new SpooldError('HANDLER_UNLOADABLE', error))
      gaveUp()
    }
    if (timeoutMs > 0) timers.push(setTimeout(giveUp, timeoutMs))
    const clear = () => timers.forEach(clearTimeout)
    this.whenReady.then(clear, clear)
  }

  get #what(): string {
    return this.#loading ?? 'the worker'
  }

  #fail(error: SpooldError): void {
    this.#settle.reject(error)
  }
}

import { SpooldError } from '../base/errors.js'
import type { WorkerMessage } from '../ipc/messages.js'
import type { SignalNews } from '../task/schedule.js'
import type { ChildExit } from './child-exit.js'

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
    this.whenReady.catch(() => {}) // who does not wait for it hears of the exit
  }

  /** The handler that it loads; undefined: none yet. */
  get loading(): string | undefined {
    return this.#loading
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
        return this.fail(new SpooldError('HANDLER_UNLOADABLE', message.error))
    }
  }

  /** It is gone: before it was ready, if it was not. */
  ended({ code, signal, unforked }: ChildExit): void {
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    const what =
      unforked === undefined
        ? `the worker ${how} before it was ready`
        : `no worker could be forked: ${unforked}`
    this.fail(new SpooldError('START_FAILED', what))
  }

  fail(error: SpooldError): void {
    this.#settle.reject(error)
  }
}

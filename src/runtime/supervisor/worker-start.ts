import { SpooldError } from '../../base/errors.js'
import type { SignalNews } from '../../base/task/schedule.js'
import { treeCpuMsOf } from '../../system/process-usage.js'
import type { WorkerMessage } from '../ipc/messages.js'
import { howOf } from './cut-short.js'
import type { PortExit } from './worker-port.js'

/** A start that takes longer than this is reported. */
const SLOW_MS = 10_000

interface StartWatch {
  /** 0: no deadline. */
  readonly timeoutMs: number
  slow(what: string, afterMs: number): void
  /** The start took too long, and has failed. */
  gaveUp(): void
}

/** The start of a worker, until it is ready. */
export class WorkerStart {
  readonly #since = performance.now()
  #loading: string | undefined
  #costMs = 0
  #news: readonly SignalNews[] = []
  #settle: { resolve(): void; reject(error: SpooldError): void } = { resolve() {}, reject() {} }
  /** Rejects with a SpooldError when it cannot load its handlers, or exits before it is ready. */
  readonly whenReady = new Promise<void>((resolve, reject) => {
    this.#settle = { resolve, reject }
  })

  constructor() {
    this.whenReady.catch(() => {}) // not every caller awaits it; a failure is also reported by the exit
  }

  /** What it took of a processor, or how long it took where that is not known; 0 while it is not ready. */
  get costMs(): number {
    return this.#costMs
  }

  /** What its handlers declared about signals while they were loaded. */
  get news(): readonly SignalNews[] {
    return this.#news
  }

  /** @param pid of its process, if it has one of its own */
  hear(message: Extract<WorkerMessage, { type: 'loading' | 'ready' | 'unloadable' }>, pid?: number): void {
    switch (message.type) {
      case 'loading':
        this.#loading = message.name
        return
      case 'ready':
        this.#news = message.news
        this.#costMs = (pid === undefined ? 0 : treeCpuMsOf(pid)) || performance.now() - this.#since
        return this.#settle.resolve()
      case 'unloadable':
        return this.#fail(new SpooldError('HANDLER_UNLOADABLE', message.error))
    }
  }

  /** Call it when the worker has exited; rejects `whenReady` if it was not ready. */
  ended(exit: PortExit): void {
    const what =
      exit.unforked === undefined
        ? `the worker ${howOf(exit)} before it was ready`
        : `no worker could be forked: ${exit.unforked}`
    this.#fail(new SpooldError('START_FAILED', what))
  }

  /** Reports a slow start, and gives it up at the timeout. */
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

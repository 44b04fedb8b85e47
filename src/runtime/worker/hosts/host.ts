import { messageOf } from '../../../base/errors.js'
import { RespawnPace } from '../../../base/respawn-pace.js'
import type { DeadRun, Death } from '../../../engines/claims.js'
import type { HostOptions, WorkerMessage } from '../../ipc/messages.js'
import type { PeriodicSettings } from '../../tasks/periodic.js'
import type { Run } from '../run.js'
import { encodeDeath, encodeSignal, type UpFrame } from './frames.js'
import { HostProcess } from './host-process.js'

/** A named task that code in a host has registered, as our own code in that language reports it. */
interface DeclaredTask {
  readonly name: string
  /** -1: no limit. */
  readonly maxRetries: number
  /** How many tasks of this name run at a time; null: no limit. */
  readonly maxConcurrency: number | null
  /** Absent: the language has no queues. */
  readonly queue?: string
  /** The settings of a periodic task, which are not checked yet; null: the task is not periodic. */
  readonly periodic: PeriodicSettings | null
  /** Where the task is registered, for people. */
  readonly place: string
  /** True if the task may run beside others, if the configuration allows it. Absent: the language has no such tasks. */
  readonly isAsync?: boolean
}

/** The code that runs tasks in a host. */
interface HostTaskListener {
  /** Called when some of the tasks that were sent have ended and can be collected. */
  progress(): void
  /** Called when the last `count` of the tasks that were sent will not be started. */
  recalled?(count: number): void
  /**
   * Called when the host has died. The tasks that had not ended are lost with it. `detail` says how the host died.
   *
   * @returns true if the host had begun one of these tasks
   */
  died(detail: string): boolean
  /** Called with `ended` or `printed` when a task has ended or printed something, beside others. */
  beside?(frame: UpFrame): void
  /** Called when the host accepts tasks again. */
  revived(): void
  /** Called when the host will never accept tasks again. */
  failed?(): void
}

export interface HostStart extends HostOptions {
  /** How long an interpreter that replaces a dead one may take to start, in ms; 0: no limit. */
  readonly startTimeoutMs: number
}

export interface HostCallbacks {
  call(name: string, values: readonly Buffer[]): Promise<ReadonlyArray<string | Uint8Array>>
  /** True while the log is full. */
  isLogBehind(): boolean
  /** Sends text that the host has printed to the log, on behalf of a task if that is known. */
  print(author: Run | undefined, text: string): void
  /** Sends a message to the master. */
  send(message: WorkerMessage): void
  /** Called when the host accepts no tasks for now. */
  closed(): void
  /** Called when the host accepts tasks again. */
  opened(): void
  /** Called when the worker cannot go on: the host died before any task had ended, or a replacement could not be started. */
  failed(why: string): void
  /** Called when the worker has to exit at once, without settling what runs. */
  lost(why: string): void
}

/**
 * The host of one language: an interpreter process that is replaced when it dies.
 *
 * States: loading → open → (dies) loading → … → closed.
 */
export class Host {
  readonly #options: HostStart
  readonly #callbacks: HostCallbacks
  #user: HostTaskListener | undefined
  #process: HostProcess
  #state: 'loading' | 'open' | 'closed' = 'loading'
  #declared: readonly DeclaredTask[] = []
  readonly #pace = new RespawnPace()
  /** Messages about tasks whose process has died, which the interpreter has not been sent yet. */
  readonly #untold: Buffer[] = []
  readonly #signals = new Map<number, { resolve(): void; reject(error: Error): void }>()

  private constructor(options: HostStart, callbacksOf: (host: Host) => HostCallbacks) {
    this.#options = options
    this.#callbacks = callbacksOf(this)
    this.#process = this.#spawn()
  }

  /** @throws SpooldError HANDLER_UNLOADABLE */
  static async start(options: HostStart, callbacksOf: (host: Host) => HostCallbacks): Promise<Host> {
    const host = new Host(options, callbacksOf)
    const declared = await host.#process.whenReady
    if (declared !== '') host.#declared = JSON.parse(declared)
    host.#state = 'open'
    return host
  }

  attach(user: HostTaskListener): void {
    this.#user = user
  }

  /** The interpreter that runs the tasks of this host. Another one takes its place when it has died. */
  get process(): HostProcess {
    return this.#process
  }

  /** Sends printed text to the log. @param author the task that has printed the text, if that is known */
  print(author: Run | undefined, text: string): void {
    this.#callbacks.print(author, text)
  }

  /**
   * Tells the master where the page of the interpreter is. Call it for each interpreter before it is sent anything, if the
   * master's numbers are sent with the tasks.
   */
  tellPage(): void {
    this.#callbacks.send({ type: 'host-page', fd: this.#process.pageFd })
  }

  /** True while the host accepts tasks. */
  get isOpen(): boolean {
    return this.#state === 'open' && !this.#process.isRecalling
  }

  /** The named tasks that the code of the host has declared. */
  get declared(): readonly DeclaredTask[] {
    return this.#declared
  }

  /** Calls the function that the host registered for a signal. Rejects with what the function throws. */
  signal(number: number): Promise<void> {
    if (this.#state !== 'open') return Promise.reject(new Error('the interpreter is being replaced'))
    return new Promise((resolve, reject) => {
      this.#signals.set(number, { resolve, reject })
      this.#process.post(encodeSignal(number))
    })
  }

  /**
   * Tells a Python host that the process of a named task has died, because our Python library has signals for that. The host
   * knows which tasks are its own.
   */
  died(run: DeadRun, death: Death): void {
    if (this.#options.language !== 'Python' || run.terms === undefined) return
    this.#untold.push(encodeDeath(run, death))
    this.#tell()
  }

  /** Sends the untold deaths once there is an interpreter, because the process that died may have been that of this host. */
  #tell(): void {
    if (this.#state === 'open') for (const message of this.#untold.splice(0)) this.#process.post(message)
  }

  async end(): Promise<void> {
    this.#state = 'closed'
    const { language } = this.#options
    if (await this.#process.end()) return
    const why = 'a thread that a task has left, or code that it runs at its exit, holds it up'
    this.print(undefined, `the ${language} interpreter (pid: ${this.#process.pid}) is killed: ${why}\n`)
  }

  #spawn(): HostProcess {
    const process = new HostProcess(this.#options, {
      progress: () => this.#user?.progress(),
      recalled: count => this.#user?.recalled?.(count),
      signalEnded: (number, error) => this.#signalEnded(number, error),
      beside: frame => this.#user?.beside?.(frame),
      isLogBehind: () => this.#callbacks.isLogBehind(),
      printed: text => this.print(undefined, text),
      call: (name, values) => this.#callbacks.call(name, values),
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
    const { language } = this.#options
    const wasOpen = this.#state === 'open'
    let diedAtWork = false
    if (wasOpen) {
      this.#state = 'loading'
      const detail = `the ${language} interpreter (pid: ${process.pid}) ${death}`
      this.#callbacks.send({ type: 'host-died', detail })
      for (const { reject } of this.#signals.values())
        reject(new Error(`the ${language} interpreter ${death}`))
      this.#signals.clear()
      diedAtWork = this.#user?.died(`the ${language} interpreter that ran it ${death}`) === true
      if (!this.#isClosed) this.#callbacks.closed()
    } else this.print(undefined, process.takePrinted()) // text printed while loading, or at the exit
    process.release()
    if (wasOpen && !this.#isClosed) this.#replace(process, death, diedAtWork)
  }

  /**
   * Replaces a dead interpreter: at once if a task crashed it, because crashes of a task have limits of their own. If it died
   * without a task, and before any had ended, the worker gives up, and the master sets the pace, because it knows all workers.
   */
  #replace({ hasProgressed }: HostProcess, death: string, diedAtWork: boolean): void {
    const { language, startTimeoutMs } = this.#options
    if (!diedAtWork && !hasProgressed)
      return this.#failed(`the ${language} interpreter ${death} before any task had ended`)
    const delayMs = diedAtWork ? 0 : this.#pace.delayOfBurst()
    setTimeout(() => void this.#revive(startTimeoutMs), delayMs).unref()
  }

  async #revive(startTimeoutMs: number): Promise<void> {
    if (this.#state === 'closed') return
    try {
      this.#process = this.#spawn() // may throw EMFILE
      await this.#process.readyWithin(startTimeoutMs)
    } catch (error) {
      return this.#failed(messageOf(error))
    }
    if (this.#isClosed) return
    this.#state = 'open'
    this.#tell()
    this.#callbacks.send({ type: 'host-revived' })
    this.#user?.revived()
    this.#callbacks.opened()
  }

  /** Ends the host, which is not replaced, and with it the worker. Its tasks have the marks of runs that were cut short. */
  lost(why: string): void {
    void this.end()
    this.#callbacks.lost(why)
  }

  #failed(why: string): void {
    this.#callbacks.failed(why)
    this.#user?.failed?.()
  }

  /** True once the host is closed, also if that happened while an await was pending. */
  get #isClosed(): boolean {
    return this.#state === 'closed'
  }
}

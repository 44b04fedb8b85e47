import { messageOf } from '../../../base/errors.js'
import { RespawnPace } from '../../../base/respawn-pace.js'
import type { DeadRun, Death } from '../../../engines/claims.js'
import type { HostOptions, WorkerMessage } from '../../ipc/messages.js'
import type { PeriodicSettings } from '../../tasks/periodic.js'
import type { Run } from '../run.js'
import { encodeDeath, encodeSignal, type UpFrame } from './frames.js'
import { HostProcess } from './host-process.js'

/** A named task that the code of a host registered, as our own code in its language says it. */
interface DeclaredTask {
  readonly name: string
  /** -1: no limit. */
  readonly maxRetries: number
  /** How many run at a time; null: no limit. */
  readonly maxConcurrency: number | null
  /** Absent: the language has no queues. */
  readonly queue?: string
  /** Not checked; null: it is not periodic. */
  readonly periodic: PeriodicSettings | null
  /** Where it is registered, for people. */
  readonly place: string
  /** It may run beside others, if the configuration allows it. Absent: the language has no such tasks. */
  readonly isAsync?: boolean
}

/** The code that runs tasks in a host. */
interface HostTaskListener {
  /** Some of the tasks that were sent have ended and can be collected. */
  progress(): void
  /** The last `count` of the tasks that were sent will not be started. */
  recalled?(count: number): void
  /**
   * The host died, and the tasks that had not ended are lost with it. `detail` says how it died.
   *
   * @returns whether it had begun one of them
   */
  died(detail: string): boolean
  /** A task has ended or printed something, beside others: `ended` or `printed`. */
  beside?(frame: UpFrame): void
  /** It accepts tasks again. */
  revived(): void
  /** It will not accept tasks again. */
  failed?(): void
}

export interface HostStart extends HostOptions {
  /** How long an interpreter that replaces a dead one may take to start; 0: no limit. */
  readonly startTimeoutMs: number
}

export interface HostCallbacks {
  call(name: string, values: readonly Buffer[]): Promise<ReadonlyArray<string | Uint8Array>>
  /** The log is full for now. */
  isLogBehind(): boolean
  /** Prints what it has printed, on behalf of a task if that is known. */
  print(author: Run | undefined, text: string): void
  /** To the master. */
  send(message: WorkerMessage): void
  /** It died before any task had ended, or a replacement could not be started: the worker cannot go on. */
  failed(why: string): void
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
  /** Deaths, as messages. */
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

  /** The interpreter that runs its tasks, until that dies. */
  get process(): HostProcess {
    return this.#process
  }

  /** @param author the task that has printed it, if that is known */
  print(author: Run | undefined, text: string): void {
    this.#callbacks.print(author, text)
  }

  /** Call it for each interpreter, before it is sent anything, if the master's numbers are sent with the tasks. */
  tellPage(): void {
    this.#callbacks.send({ type: 'host-page', fd: this.#process.pageFd })
  }

  /** It accepts tasks. */
  get isOpen(): boolean {
    return this.#state === 'open' && !this.#process.isRecalling
  }

  /** The named tasks that its code declared. */
  get declared(): readonly DeclaredTask[] {
    return this.#declared
  }

  /** Calls the function that the host registered for a signal. Rejects with what it throws. */
  signal(number: number): Promise<void> {
    if (this.#state !== 'open') return Promise.reject(new Error('the interpreter is being replaced'))
    return new Promise((resolve, reject) => {
      this.#signals.set(number, { resolve, reject })
      this.#process.post(encodeSignal(number))
    })
  }

  /** The process of a named task has died: tells Python, which has signals for that; it knows which tasks are its own. */
  died(run: DeadRun, death: Death): void {
    if (this.#options.language !== 'Python' || run.terms === undefined) return
    this.#untold.push(encodeDeath(run, death))
    this.#tell()
  }

  /** Once there is an interpreter: the one that died may have been its own. */
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
    } else this.print(undefined, process.takePrinted()) // printed while loading, or at its exit
    process.release()
    if (wasOpen && !this.#isClosed) this.#replace(process, death, diedAtWork)
  }

  /**
   * At once after the crash of a task, which has limits of its own. If it died with none, and before any had ended, the worker gives
   * up: the master sets the pace then, as it knows all workers.
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
  }

  #failed(why: string): void {
    this.#callbacks.failed(why)
    this.#user?.failed?.()
  }

  /** True if it was closed while an await was pending. */
  get #isClosed(): boolean {
    return this.#state === 'closed'
  }
}

import { hostname } from 'node:os'
import { SpooldError } from '../../../base/errors.js'
import type { Request } from '../../../base/task/request.js'
import type { LoadedProcess } from '../../../base/task/schedule.js'
import { listTasks, peekTask } from '../../../engines/directory/peek.js'
import { type SpoolTarget, SpoolTargets } from '../../../engines/targets.js'
import type { VarPair } from '../../../formats/protocol/packet.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { requestFromPairs } from '../../../formats/protocol/request-vars.js'
import type { WorkerMessage } from '../../ipc/messages.js'
import type { WorkerSignals } from '../signal-actions.js'
import { tellStored } from '../worker-daemon.js'

interface CallsOptions {
  readonly targets: readonly SpoolTarget[]
  readonly signals: WorkerSignals
  loaded(process: LoadedProcess): void
  /** Makes the host call the function that it registered for a signal. */
  runSignal(number: number): Promise<void>
  send(message: WorkerMessage): void
  /** Asks the master a question. */
  ask(name: string, values: Values): Promise<Answer>
  /**
   * Sets the deadline of the running task, in ms from now; 0: the task has no deadline of its own.
   *
   * @param task the task's number, if several run
   */
  setDeadline(afterMs: number, task: number | undefined): void
}

type Values = readonly Buffer[]
type Answer = ReadonlyArray<string | Uint8Array>
type Call = (values: Values) => Answer | Promise<Answer> | undefined

/** The calls that a host can make to the daemon, by name. Every language's module is a thin layer over them. */
export class Calls {
  readonly #options: CallsOptions
  #targets: SpoolTargets | undefined
  #first: Promise<boolean> | undefined
  readonly #calls: Readonly<Record<string, Call>> = {
    spool: values => this.#spool(values),
    'spool-all': values => this.#spoolAll(values),
    'spool-while-loading': values => this.#spoolWhileLoading(values),
    'spool-all-while-loading': async values => ((await this.#isFirst()) ? this.#spoolAll(values) : []),
    warn: values => this.#options.ask('warn', values),
    jobs: () => this.#jobs(),
    task: ([path]) => peekTask(String(path)) ?? [],
    harakiri: ([seconds, task]) =>
      void this.#options.setDeadline(Number(seconds) * 1000, task?.length ? Number(task) : undefined),
    'register-signal': ([number, target]) => this.#register(Number(number), String(target)),
    signal: ([number]) => void this.#signals.raise(Number(number)),
    timer: ([number, everyMs, iterations]) =>
      void this.#signals.addTimer(Number(number), Number(everyMs), Number(iterations)),
    cron: ([number, minute, hour, day, month, weekday]) =>
      void this.#signals.addCron(
        Number(number),
        Number(minute),
        Number(hour),
        Number(day),
        Number(month),
        Number(weekday),
      ),
    loaded: values => this.#loaded(values),
    'file-monitor': ([number, path]) => void this.#signals.addFileMonitor(Number(number), String(path)),
    pids: values => this.#options.ask('pids', values),
    frequency: values => this.#options.ask('frequency', values),
    cache: values => this.#options.ask('cache', values),
  }

  constructor(options: CallsOptions) {
    this.#options = options
  }

  /** Answers a call. @throws why the call failed, worded for a handler */
  async answer(name: string, values: Values): Promise<Answer> {
    const call = Object.hasOwn(this.#calls, name) ? this.#calls[name] : undefined
    if (call === undefined) throw new SpooldError('REQUEST_INVALID', `spoold has no call ${name}`)
    return (await call(values)) ?? []
  }

  get #places(): SpoolTargets {
    this.#targets ??= new SpoolTargets(this.#options.targets)
    return this.#targets
  }

  /**
   * Stores a task.
   *
   * @param values the keys and values of a dictionary in turn
   * @returns the new task's path
   */
  async #spool(values: Values): Promise<Answer> {
    const { request, spooler } = requestFromPairs(pairsOf(values))
    const enqueuer = this.#places.get(spooler)
    const stored = enqueuer.storeSync?.(request) ?? (await enqueuer.store(request))
    tellStored([request], [{ stored }], this.#options.send)
    return [stored.path]
  }

  /**
   * Stores all tasks of a batch, or none.
   *
   * @param values for each task: its id, which may be empty, how many values follow, and its keys and values in turn
   */
  async #spoolAll(values: Values): Promise<Answer> {
    const requests: Request[] = []
    for (let at = 0; at < values.length; ) {
      const [id = '', count = 0] = [String(values[at]), Number(values[at + 1])]
      at += 2
      const { request } = requestFromPairs(pairsOf(values.slice(at, at + count)))
      requests.push(id === '' ? request : { ...request, id })
      at += count
    }
    const results = await this.#places.get(undefined).storeAll(requests, true)
    for (const result of results) if ('error' in result) throw result.error
    tellStored(requests, results, this.#options.send)
    return results.flatMap(result => ('stored' in result ? [result.stored.path] : []))
  }

  /**
   * True in the first worker, which alone stores what code stores while it is being loaded. Every worker loads the code, while
   * uWSGI loads it once, in its master.
   */
  #isFirst(): Promise<boolean> {
    this.#first ??= this.#options.ask('first', []).then(({ length }) => length > 0)
    return this.#first
  }

  async #spoolWhileLoading(values: Values): Promise<Answer> {
    if (await this.#isFirst()) return this.#spool(values)
    const { spooler } = requestFromPairs(pairsOf(values))
    return [`${this.#places.get(spooler).name}/uwsgi_spoolfile_on_${hostname()}_0_0_0_0_0`]
  }

  get #signals(): WorkerSignals {
    return this.#options.signals
  }

  #register(number: number, target: string): undefined {
    if (/^(mule|farm_)/.test(target))
      void this.#options.ask('warn', [
        Buffer.from(
          `signal ${number} is for ${target}, and there are no mules: a process of the spools handles it`,
        ),
      ])
    this.#signals.register(number, target, () => this.#options.runSignal(number))
  }

  /**
   * Reports how loading has changed the interpreter.
   *
   * @param values directory and umask, empty if they are as before; then variables, as `name=value`, or the name of a removed one
   */
  #loaded([directory, umask, ...variables]: Values): undefined {
    const textOrNull = (value: Buffer | undefined) => (value?.length ? String(value) : null)
    const mask = textOrNull(umask)
    this.#options.loaded({
      kind: 'process',
      directory: textOrNull(directory),
      umask: mask === null ? null : Number(mask),
      environment: variables.map(variable => {
        const [name = '', ...value] = String(variable).split('=')
        return [name, value.length === 0 ? null : value.join('=')] as const
      }),
    })
  }

  #jobs(): Answer {
    const [first] = this.#places.directories
    return first === undefined || isRedisAddress(first) ? [] : listTasks(first)
  }
}

function pairsOf(values: Values): VarPair[] {
  return Array.from({ length: values.length / 2 }, (_, i) => [values[2 * i], values[2 * i + 1]] as VarPair)
}

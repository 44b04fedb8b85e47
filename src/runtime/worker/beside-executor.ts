import { fromThrown } from '../../base/task/answer.js'
import { type Outcome, RELEASE } from '../../base/task/outcome.js'
import type { Executor, ExecutorListener } from './executor.js'
import { fromEnded, loadBody } from './hosts/frames.js'
import type { Host } from './hosts/host.js'
import type { Run } from './run.js'

/** Runs tasks that are coroutines in one host, beside each other. */
export class BesideExecutor implements Executor {
  readonly slots: number
  readonly pageTasks = 1
  readonly running = undefined
  readonly #host: Host
  readonly #listener: ExecutorListener
  /** The runs that have not ended, by the host's number. `done` is called at the end of the run. */
  readonly #runs = new Map<number, { readonly run: Run; readonly done: (settled?: Promise<void>) => void }>()
  /**
   * The deadlines that tasks have set themselves, on the clock of `performance.now()`, by the tasks' numbers. Undefined: a deadline
   * whose task is unknown, which ends with the next task that ends.
   */
  readonly #deadlines = new Map<number | undefined, number>()
  readonly #tellFirst: (afterMs: number) => void

  /**
   * @param lost called when the host died while several tasks ran. The worker has to exit without settling them: which one is to
   *   blame is found out as after the death of a worker
   * @param tellFirst called with the time until the first of the deadlines, in ms; 0: there is none
   */
  constructor(
    host: Host,
    concurrency: number,
    listener: ExecutorListener,
    lost: () => void,
    tellFirst: (afterMs: number) => void,
  ) {
    this.#tellFirst = tellFirst
    this.slots = concurrency
    this.#host = host
    this.#listener = listener
    host.attach({
      progress: () => host.print(undefined, host.process.takePrinted()),
      beside: ({ kind, number, text }) => {
        if (kind === 'ended') this.#end(number, fromEnded(text))
        else host.print(this.#runs.get(number)?.run, text)
      },
      died: detail => this.#died(detail, lost),
      revived: () => listener.progressed(),
    })
  }

  get isOpen(): boolean {
    return this.#host.isOpen
  }

  run([run]: readonly Run[], now: number): Promise<void> | undefined {
    if (run === undefined) return undefined
    try {
      loadBody(run.claim)
      run.startedAt = now
      run.hasStarted = true
      const number = this.#host.process.send([run.claim])
      const ended = new Promise<void>(done => this.#runs.set(number, { run, done }))
      this.#listener.starting(run, now)
      return ended
    } catch (error) {
      return this.#listener.ended(run, fromThrown(error), 0)
    }
  }

  /** Sets the deadline of a task. @param afterMs from now; 0: none @param number undefined: the task is unknown */
  setDeadline(afterMs: number, number: number | undefined): void {
    if (afterMs === 0) this.#deadlines.delete(number)
    else this.#deadlines.set(number, performance.now() + afterMs)
    this.#tellDeadline()
  }

  #tellDeadline(): void {
    const first = Math.min(...this.#deadlines.values())
    this.#tellFirst(
      first === Number.POSITIVE_INFINITY ? 0 : Math.max(1, Math.ceil(first - performance.now())),
    )
  }

  /** Ends all runs as interrupted, because it is unknown whose code threw. */
  fault(): boolean {
    for (const number of [...this.#runs.keys()]) this.#end(number, RELEASE)
    return false
  }

  #end(number: number, outcome: Outcome): void {
    const running = this.#runs.get(number)
    if (running === undefined) return
    this.#runs.delete(number)
    const ended = [number, undefined].filter(each => this.#deadlines.delete(each))
    if (ended.length > 0) this.#tellDeadline()
    const { run, done } = running
    done(this.#listener.ended(run, outcome, performance.now() - run.startedAt))
  }

  #died(detail: string, lost: () => void): boolean {
    this.#host.print(undefined, this.#host.process.takePrinted()) // the last output of the host
    const had = [...this.#runs.keys()]
    if (had.length > 1) {
      void this.#host.end() // the host is not replaced, because the worker exits
      lost()
      return true
    }
    for (const number of had) this.#end(number, { kind: 'crash', detail })
    this.#listener.closed()
    return had.length > 0
  }
}

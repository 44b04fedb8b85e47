import { fromThrown } from '../../base/task/answer.js'
import { RELEASE } from '../../base/task/outcome.js'
import type { Executor, ExecutorListener } from './executor.js'
import { type BesideFrame, loadBody } from './hosts/frames.js'
import type { Host } from './hosts/host.js'
import { fromEnded } from './hosts/host-answer.js'
import type { Printer } from './printer.js'
import type { Run } from './run.js'

/** Runs tasks in one host beside each other: those that are coroutines. */
export class BesideExecutor implements Executor {
  readonly slots: number
  readonly batchTasks = 1
  readonly takesAhead = false
  readonly running = undefined
  readonly #host: Host
  readonly #printer: Printer
  readonly #listener: ExecutorListener
  /** By the number that the host knows. */
  readonly #runs = new Map<number, Run>()

  /**
   * @param lost the host died while several tasks ran, and the worker has to go without settling them: which one is to blame is
   *   found out as after the death of a worker
   */
  constructor(
    host: Host,
    concurrency: number,
    printer: Printer,
    listener: ExecutorListener,
    lost: (detail: string) => void,
  ) {
    this.slots = concurrency
    this.#host = host
    this.#printer = printer
    this.#listener = listener
    host.attach({
      progress: () => this.#printer.print(null, 'output', host.takePrinted()),
      beside: frame => this.#hear(frame),
      recalled() {}, // nothing ever waits in the host
      died: detail => this.#died(detail, lost),
      revived: () => listener.hasRoom(),
      failed() {}, // no call waits for it here
    })
  }

  get isOpen(): boolean {
    return this.#host.isOpen
  }

  start(batch: readonly Run[], now: number): void {
    for (const run of batch)
      try {
        loadBody(run.claim)
        run.startedAt = now
        run.hasStarted = true
        this.#runs.set(this.#host.send([run.claim]), run)
        this.#listener.starting(run, now)
      } catch (error) {
        this.#listener.ended(run, fromThrown(error), 0)
      }
  }

  turnBegan(): void {}

  /** Does nothing: every run that has begun is running. */
  recall(): void {}

  /** It is unknown whose code threw. */
  fault(): boolean {
    for (const run of this.#runs.values()) this.#end(run, RELEASE)
    this.#runs.clear()
    return false
  }

  #hear(frame: BesideFrame): void {
    const run = this.#runs.get(frame.number)
    if (run === undefined) return
    if (frame.kind === 'printed') {
      this.#listener.announce(run)
      this.#printer.print(run.number, 'output', frame.text)
      return
    }
    this.#runs.delete(frame.number)
    this.#end(run, fromEnded(frame.text))
    this.#listener.hasRoom()
  }

  #end(run: Run, outcome: Parameters<ExecutorListener['ended']>[1]): void {
    this.#listener.ended(run, outcome, performance.now() - run.startedAt)
  }

  #died(detail: string, lost: (detail: string) => void): boolean {
    const hadTask = this.#runs.size > 0
    if (this.#runs.size > 1) {
      lost(detail)
      return false // nothing replaces it here: the worker goes
    }
    for (const run of this.#runs.values()) this.#end(run, { kind: 'crash', detail })
    this.#runs.clear()
    this.#listener.closed()
    return hadTask
  }
}

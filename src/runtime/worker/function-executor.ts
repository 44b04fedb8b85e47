import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { isThenable } from '../../base/promise.js'
import { fromThrown } from '../../base/task/answer.js'
import { IGNORE, type Outcome, RELEASE } from '../../base/task/outcome.js'
import type { RunningTask } from '../tasks/daemon.js'
import type { Executor, ExecutorListener } from './executor.js'
import { type HandlerCall, HandlerTask, type TaskContext } from './handler-task.js'
import { runningTask } from './named-tasks.js'
import type { Run } from './run.js'

/** Kept here because Node's global `performance` is a getter, and each task would read it five times. */
const clock = performance

/**
 * The run to which the executing code belongs. All executors share this storage, because Node keeps each storage that was ever
 * used, and every promise of the program gets a property for it.
 */
const authors = new AsyncLocalStorage<{ readonly of: FunctionExecutor; readonly run: Run }>()

interface FunctionExecutorOptions {
  readonly chain: readonly HandlerCall[]
  readonly context: TaskContext
  /** The directory that is entered before each task; null: the directory that holds the task, as in uWSGI. */
  readonly chdir: string | null
  /** The current directory of the process. Absent: it is not changed. */
  readonly directory?: ProcessDirectory | undefined
  /** How many tasks run at a time. */
  readonly concurrency: number
  /** The hosts that handlers of the chain call. */
  readonly hosts: ReadonlyArray<{ readonly isOpen: boolean }>
  /** Calls handlers so that their code can be told from other code in this process. Set if there is such code. */
  readonly around?: (<Result>(call: () => Result) => Result) | undefined
}

/** Calls the user's handlers in this process, and turns whatever they return or throw into an outcome. */
export class FunctionExecutor implements Executor {
  readonly pageTasks = 1
  readonly slots: number
  /** True if code that executes while a run goes on counts as that run's: nothing else goes on in this process. */
  readonly #isAlone: boolean
  readonly #options: FunctionExecutorOptions
  readonly #listener: ExecutorListener
  /** The run that started last. It is used where one task runs at a time. */
  #latest: Run | undefined

  constructor(options: FunctionExecutorOptions, listener: ExecutorListener) {
    this.#options = options
    this.#listener = listener
    this.slots = options.concurrency
    this.#isAlone = options.concurrency === 1 && options.around === undefined
  }

  get isOpen(): boolean {
    return this.#options.hosts.every(({ isOpen }) => isOpen)
  }

  run([run]: readonly Run[], now: number): Promise<void> | undefined {
    if (run === undefined) return undefined
    run.startedAt = now
    run.hasStarted = true
    this.#listener.starting(run, now)
    const outcome = this.#perform(run)
    if (!isThenable(outcome)) return this.#ended(run, outcome)
    return outcome.then(
      late => this.#endedLater(run, late),
      thrown => this.#endedLater(run, fromThrown(thrown)),
    )
  }

  #ended(run: Run, outcome: Outcome): Promise<void> | undefined {
    return this.#listener.ended(run, outcome, clock.now() - run.startedAt)
  }

  #endedLater(run: Run, outcome: Outcome): Promise<void> | undefined {
    return run.hasEnded ? undefined : this.#ended(run, outcome) // a fault may have ended the run
  }

  /**
   * Ends the run that threw as failed, and the others as if they had not begun: code that threw may be of a run that has ended. Code
   * that no run has started counts as the running one's, if one runs at a time. Runs that have ended are being settled.
   */
  fault(thrown: unknown, runs: Iterable<Run>): boolean {
    const author = authors.getStore()
    let isReported = false
    for (const run of runs) {
      if (run.hasEnded) continue
      const isGuilty = author === undefined ? this.slots === 1 : run === author.run
      if (isGuilty) isReported = true
      void this.#ended(run, isGuilty ? fromThrown(thrown) : RELEASE)
    }
    return isReported
  }

  /**
   * Calls the handlers. Returns an outcome directly if there was nothing to await, because a promise per task would cost a tenth
   * of the rate. May reject.
   */
  #perform(run: Run): Outcome | Promise<Outcome> {
    const { chdir, context, directory, around } = this.#options
    this.#latest = run
    const place = chdir ?? run.claim.directory
    if (place !== undefined) directory?.enter(place)
    try {
      const task = new HandlerTask(run, context)
      const ask = () => this.#ask(0, run, task)
      const call = () => authors.run({ of: this, run }, ask)
      // or the next task would see what this one enters with `enterWith`
      const own = () => new AsyncResource('spoold.task').runInAsyncScope(call)
      return around === undefined ? own() : around(own)
    } catch (thrown) {
      return fromThrown(thrown)
    }
  }

  turnBegan(): void {
    this.#options.directory?.forget()
  }

  /** The run whose code is executing. */
  get author(): Run | undefined {
    const author = this.#isAlone ? this.#latest : this.#trackedAuthor
    return author?.hasEnded === true ? undefined : author
  }

  /** The run whose code is executing; undefined if it is of another executor in this process. */
  get #trackedAuthor(): Run | undefined {
    const author = authors.getStore()
    return author?.of === this ? author.run : undefined
  }

  /** True if the code that is executing is what a run of this executor has left behind when it ended. */
  get isLeftBehind(): boolean {
    const author = authors.getStore()
    return author?.of === this && author.run.hasEnded
  }

  /** The named task whose code is executing. */
  get current(): RunningTask | undefined {
    const { author } = this
    return author === undefined ? undefined : runningTask(author, this.#options.context)
  }

  /** Calls one handler after the other until one does not return SPOOL_IGNORE. */
  #ask(first: number, run: Run, task: HandlerTask): Outcome | Promise<Outcome> {
    const { chain } = this.#options
    for (let i = first; i < chain.length; i++) {
      const outcome = chain[i]?.(run, task) ?? IGNORE // may throw
      if (isThenable(outcome))
        return i === chain.length - 1 ? outcome : this.#askLater(outcome, i + 1, run, task)
      if (outcome.kind !== 'ignore') return outcome
    }
    return IGNORE
  }

  async #askLater(answer: Promise<Outcome>, next: number, run: Run, task: HandlerTask): Promise<Outcome> {
    const outcome = await answer
    return outcome.kind === 'ignore' && !run.isCancelled ? await this.#ask(next, run, task) : outcome
  }
}

/** The current directory of this process, in which handlers run. Handlers may change it at any time. */
export class ProcessDirectory {
  #entered: string | undefined

  /** Enters a directory. A failure is ignored, as in uWSGI, because it is not the task's fault. */
  enter(path: string): void {
    try {
      if (this.#entered === path && process.cwd() === path) return
    } catch {} // a handler has changed the current directory, and removed the new one
    try {
      process.chdir(path)
      this.#entered = path
    } catch {}
  }

  /** Makes `enter` change the directory again. Call it between turns, because the directory may have been replaced meanwhile. */
  forget(): void {
    this.#entered = undefined
  }
}

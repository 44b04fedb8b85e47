import { AsyncLocalStorage } from 'node:async_hooks'
import { fromThrown } from '../task/answer.js'
import { IGNORE, type Outcome } from '../task/outcome.js'
import { displayName, type Ref } from '../task/ref.js'
import type { Env } from '../task/task.js'
import type { HandlerCall } from './handler-call.js'
import { createEnv, HandlerTask, type TaskContext } from './handler-task.js'
import type { Run } from './run.js'

export interface ExecutorOptions {
  readonly chain: readonly HandlerCall[]
  readonly context: TaskContext
  /** Entered before each task; null: the directory that holds the task, as uWSGI does. */
  readonly chdir: string | null
  /** Several tasks are in flight: who throws late has to be found out. */
  readonly isConcurrent: boolean
}

/** Calls the user's handlers, and turns whatever they return or throw into an outcome. */
export class Executor {
  readonly #options: ExecutorOptions
  readonly #author = new AsyncLocalStorage<Run>()
  /** Where one runs at a time. */
  #latest: Run | undefined

  constructor(options: ExecutorOptions) {
    this.#options = options
  }

  /** At once when there was nothing to wait for: a promise for every task would cost a tenth of the rate. */
  perform(run: Run): Outcome | Promise<Outcome> {
    const { chdir, context, isConcurrent } = this.#options
    this.#latest = run
    enterDirectory(chdir ?? directoryOf(context.spool, run.claim.ref))
    try {
      const env = createEnv(run.claim)
      const task = new HandlerTask(run, context)
      return isConcurrent
        ? this.#author.run(run, () => this.#ask(0, run, env, task))
        : this.#ask(0, run, env, task)
    } catch (thrown) {
      return fromThrown(thrown)
    }
  }

  /** The directory that we are in may have been removed and made again since: it is entered anew. */
  forgetDirectory(): void {
    entered = undefined
  }

  /** Whose code is being run: while something is thrown outside of every call, the run that started it. */
  get author(): Run | undefined {
    const author = this.#options.isConcurrent ? this.#author.getStore() : this.#latest
    return author?.hasEnded === true ? undefined : author
  }

  /** Asks one after the other until one does not answer SPOOL_IGNORE. */
  #ask(first: number, run: Run, env: Env, task: HandlerTask): Outcome | Promise<Outcome> {
    const { chain } = this.#options
    for (let i = first; i < chain.length; i++) {
      const outcome = chain[i]?.(run, env, task) ?? IGNORE // may throw: `perform` and `#askLater` catch
      if (outcome instanceof Promise) return this.#askLater(outcome, i, run, env, task)
      if (outcome.kind !== 'ignore') return outcome
    }
    return IGNORE
  }

  async #askLater(
    answer: Promise<Outcome>,
    at: number,
    run: Run,
    env: Env,
    task: HandlerTask,
  ): Promise<Outcome> {
    try {
      const outcome = await answer
      return outcome.kind === 'ignore' ? await this.#ask(at + 1, run, env, task) : outcome
    } catch (thrown) {
      return fromThrown(thrown)
    }
  }
}

function directoryOf(spool: string, ref: Ref): string {
  if (!ref.includes('/')) return spool
  return `${spool}/${displayName(ref.slice(0, ref.lastIndexOf('/')))}`
}

/** In this turn. */
let entered: string | undefined

/** A failure is not the task's fault, as in uWSGI. */
export function enterDirectory(path: string): void {
  try {
    if (entered === path && process.cwd() === path) return
  } catch {} // a handler left it, and removed where it went
  try {
    process.chdir(path)
    entered = path
  } catch {}
}

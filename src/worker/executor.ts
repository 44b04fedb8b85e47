import { AsyncLocalStorage } from 'node:async_hooks'
import { type Answer, fromThrown, toOutcome } from '../task/answer.js'
import { IGNORE, type Outcome } from '../task/outcome.js'
import { displayName, type Ref } from '../task/ref.js'
import type { Env, Handler, Task } from '../task/task.js'
import { createEnv, HandlerTask, type TaskContext } from './handler-task.js'
import type { Run } from './run.js'

export interface ExecutorOptions {
  readonly handlers: readonly Handler[]
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

  constructor(options: ExecutorOptions) {
    this.#options = options
  }

  /** At once when there was nothing to wait for: a promise for every task would cost a tenth of the rate. */
  perform(run: Run): Outcome | Promise<Outcome> {
    const { chdir, context, isConcurrent } = this.#options
    enterDirectory(chdir ?? directoryOf(context.spool, run.claim.ref))
    try {
      const env = createEnv(run.claim)
      const task = new HandlerTask(run, context)
      return isConcurrent ? this.#author.run(run, () => this.#ask(0, env, task)) : this.#ask(0, env, task)
    } catch (thrown) {
      return fromThrown(thrown)
    }
  }

  /** Whose code is being run: while something is thrown outside of every call, the run that started it. */
  get author(): Run | undefined {
    return this.#author.getStore()
  }

  /** Asks one handler module after the other until one does not answer SPOOL_IGNORE. */
  #ask(first: number, env: Env, task: Task): Outcome | Promise<Outcome> {
    const { handlers } = this.#options
    for (let i = first; i < handlers.length; i++) {
      const answer = handlers[i]?.(env, task) // may throw: `perform` and `#askLater` catch
      if (isThenable(answer)) return this.#askLater(answer, i, env, task)
      const outcome = toOutcome(answer)
      if (outcome.kind !== 'ignore') return outcome
    }
    return IGNORE
  }

  async #askLater(answer: PromiseLike<Answer>, at: number, env: Env, task: Task): Promise<Outcome> {
    try {
      const outcome = toOutcome(await answer)
      return outcome.kind === 'ignore' ? await this.#ask(at + 1, env, task) : outcome
    } catch (thrown) {
      return fromThrown(thrown)
    }
  }
}

function isThenable(value: unknown): value is PromiseLike<Answer> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

function directoryOf(spool: string, ref: Ref): string {
  if (!ref.includes('/')) return spool
  return `${spool}/${displayName(ref.slice(0, ref.lastIndexOf('/')))}`
}

/** A failure is not the task's fault, as in uWSGI. */
export function enterDirectory(path: string): void {
  if (process.cwd() === path) return
  try {
    process.chdir(path)
  } catch {}
}

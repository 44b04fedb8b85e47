import type { Stream } from '../../base/events/event-map.js'
import { isThenable } from '../../base/promise.js'
import { toOutcome } from '../../base/task/answer.js'
import { type Outcome, SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from '../../base/task/outcome.js'
import type { Env, Handler, Task } from '../../base/task/task.js'
import type { Claim } from '../../engines/claims.js'
import type { VarPair } from '../../formats/protocol/packet.js'
import { toDictionary, toPairs } from '../../formats/protocol/vars.js'
import type { Run } from './run.js'

/** Calls one handler of the chain for one task; may throw. */
export type HandlerCall = (run: Run, task: HandlerTask) => Outcome | Promise<Outcome>

/** Returns the call of a function of a JavaScript module. */
export function callFunction(handler: Handler): HandlerCall {
  return (_run, task) => {
    const answer = handler(task.env, task)
    return isThenable(answer) ? Promise.resolve(answer).then(toOutcome) : toOutcome(answer)
  }
}

/** A line for the log. `stream`: where the line was printed, if it was. */
export interface Said {
  readonly message: string
  readonly stream?: Stream
}

export interface TaskContext {
  /** The spool's real path. */
  readonly spool: string
  /** @param sent called when the message has been handed to the channel */
  log(run: Run, said: Said, sent?: () => void): void
}

/** A handler's view of its run. What is costly is created on first access. */
export class HandlerTask implements Task {
  readonly #run: Run
  readonly #context: TaskContext
  #vars: VarPair[] | undefined
  #env: Env | undefined

  constructor(run: Run, context: TaskContext) {
    this.#run = run
    this.#context = context
  }

  /** The dictionary of the task. The handlers of a chain share it. */
  get env(): Env {
    this.#env ??= createEnv(this.#run.claim)
    return this.#env
  }

  get name(): string {
    return this.#run.claim.name
  }

  get path(): string {
    return this.#run.claim.path
  }

  get spooler(): string {
    return this.#context.spool
  }

  get priority(): number | null {
    return this.#run.claim.priority
  }

  get at(): Date {
    return new Date(this.#run.claim.dueAtMs)
  }

  get attempt(): number {
    return this.#run.claim.attempt
  }

  get fencingToken(): number | undefined {
    return this.#run.claim.fencingToken
  }

  get vars(): readonly VarPair[] {
    this.#vars ??= toPairs(this.#run.claim.vars)
    return this.#vars
  }

  get body(): Buffer | undefined {
    return this.#run.claim.readBody()
  }

  get signal(): AbortSignal {
    return this.#run.signal
  }

  /** Logs a line. @param sent called when the message has been handed to the channel: then there is room for more */
  say(said: Said, sent: () => void): void {
    this.#context.log(this.#run, said, sent)
  }

  log(message: string): void {
    this.#context.log(this.#run, { message: String(message) })
  }

  get SPOOL_OK(): typeof SPOOL_OK {
    return SPOOL_OK
  }

  get SPOOL_RETRY(): typeof SPOOL_RETRY {
    return SPOOL_RETRY
  }

  get SPOOL_IGNORE(): typeof SPOOL_IGNORE {
    return SPOOL_IGNORE
  }
}

/**
 * Creates the dictionary that uWSGI's plugins create: the packet's keys, the task's name and the body, which replaces any key
 * `body`. The body is read on first access.
 */
function createEnv(claim: Claim): Env {
  const env: Record<string, string | Buffer | undefined> = toDictionary(claim.vars)
  env.spooler_task_name = claim.name
  if (claim.bodyBytes > 0) {
    let body: Buffer | undefined
    Object.defineProperty(env, 'body', {
      enumerable: true,
      configurable: true,
      get: () => (body ??= claim.readBody()),
      set: value => {
        body = value
      },
    })
  }
  return env as Env
}

import { type Answer, toOutcome } from '../../base/task/answer.js'
import type { Outcome } from '../../base/task/outcome.js'
import type { Handler } from '../../base/task/task.js'
import type { HandlerTask } from './handler-task.js'
import type { Run } from './run.js'

/** Calls one handler of the chain for one task; may throw. */
export type HandlerCall = (run: Run, task: HandlerTask) => Outcome | Promise<Outcome>

/** A function of a JavaScript module. */
export function callFunction(handler: Handler): HandlerCall {
  return (_run, task) => {
    const answer = handler(task.env, task)
    return isThenable(answer) ? Promise.resolve(answer).then(toOutcome) : toOutcome(answer)
  }
}

function isThenable(value: unknown): value is PromiseLike<Answer> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

import { Queue } from '../../../base/queue.js'
import { fromThrown } from '../../../base/task/answer.js'
import { type Outcome, RELEASE } from '../../../base/task/outcome.js'
import type { HandlerCall } from '../handler-task.js'
import type { Run } from '../run.js'
import { loadBody } from './frames.js'
import type { Host } from './host.js'

interface Waiting {
  readonly run: Run
  settle(outcome: Outcome): void
}

/** Returns a handler that gives tasks to a host, one at a time, for a chain with other handlers. */
export function callHost(host: Host): HandlerCall {
  const queue = new Queue<Waiting>()
  let isBusy = false

  function next(): void {
    for (let first = queue.peek(); first !== undefined && !isBusy && host.isOpen; first = queue.peek())
      try {
        loadBody(first.run.claim)
        host.process.send([first.run.claim])
        isBusy = true
      } catch (error) {
        queue.pop()
        first.settle(fromThrown(error))
      }
  }

  function collect(): Outcome | undefined {
    const [ended] = host.process.collect()
    const author = queue.peek()?.run
    const printed = ended?.printed ?? host.process.takePrinted()
    host.print(ended !== undefined || host.process.hasStarted ? author : undefined, printed)
    return ended?.outcome
  }

  function end(outcome: Outcome | undefined): void {
    isBusy = false
    if (outcome !== undefined) queue.pop()?.settle(outcome)
    next()
  }

  host.attach({
    progress() {
      const outcome = collect()
      if (outcome !== undefined) end(outcome)
    },
    died(detail) {
      const ended = collect()
      const hasCrashed = ended === undefined && host.process.hasStarted
      end(hasCrashed ? { kind: 'crash', detail } : ended)
      return hasCrashed
    },
    revived: next,
    failed() {
      for (let first = queue.pop(); first !== undefined; first = queue.pop()) first.settle(RELEASE)
    },
  })

  return run =>
    new Promise<Outcome>(settle => {
      queue.push({ run, settle })
      next()
    })
}

import { fromThrown } from '../../../base/task/answer.js'
import { type Outcome, RELEASE } from '../../../base/task/outcome.js'
import type { HandlerCall } from '../handler-task.js'
import type { Run } from '../run.js'
import { fromEnded, loadBody } from './frames.js'
import type { Host } from './host.js'

interface Waiting {
  readonly run: Run
  settle(outcome: Outcome): void
}

/**
 * Returns a handler that gives tasks to a host.
 *
 * @param isBeside true: the tasks are coroutines, which run beside each other; false: the host runs one at a time
 */
export function callHost(host: Host, isBeside: boolean): HandlerCall {
  const waiting: Waiting[] = []
  /** The tasks that the host has, by its number. */
  const running = new Map<number, Waiting>()

  function next(): void {
    while (host.isOpen && (isBeside || running.size === 0)) {
      const first = waiting.shift()
      if (first === undefined) return
      try {
        loadBody(first.run.claim)
        first.run.hostNumber = host.process.send([first.run.claim])
        running.set(first.run.hostNumber, first)
      } catch (error) {
        first.settle(fromThrown(error))
      }
    }
  }

  function end(number: number | undefined, outcome: Outcome): void {
    if (number === undefined) return
    running.get(number)?.settle(outcome)
    running.delete(number)
    next()
  }

  function collect(): void {
    for (const { outcome, printed } of host.process.collect()) {
      const [number, its] = [...running][0] ?? []
      host.print(its?.run, printed)
      end(number, outcome)
    }
    const author = host.process.hasStarted ? [...running.values()][0]?.run : undefined
    host.print(author, host.process.takePrinted())
  }

  host.attach({
    progress: collect,
    beside: ({ kind, number, text }) => {
      if (kind === 'ended') end(number, fromEnded(text))
      else host.print(running.get(number)?.run, text)
    },
    died(detail) {
      collect()
      const had = [...running]
      if (had.length > 1) {
        // which one is to blame is found out as after the death of a worker
        host.lost('several tasks ran in its interpreter')
        return true
      }
      const hasCrashed = had.length > 0 && (isBeside || host.process.hasStarted)
      for (const [number, its] of had)
        if (hasCrashed) end(number, { kind: 'crash', detail })
        else waiting.unshift(its) // it has not begun: the next interpreter runs it
      running.clear()
      return hasCrashed
    },
    revived: next,
    failed() {
      for (const each of waiting.splice(0)) each.settle(RELEASE)
    },
  })

  return run =>
    new Promise<Outcome>(settle => {
      waiting.push({ run, settle })
      next()
    })
}

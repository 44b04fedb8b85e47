import { Queue } from '../../base/queue.js'
import type { Outcome } from '../../task/outcome.js'
import type { Performer } from '../performer.js'
import type { Run } from '../run.js'
import type { Host } from './host.js'

interface Waiting {
  readonly run: Run
  settle(outcome: Outcome): void
}

/** A host as one link among others: it is given one task at a time. */
export function hostPerformer(host: Host): Performer {
  const queue = new Queue<Waiting>()
  let isBusy = false

  function next(): void {
    const first = queue.peek()
    if (isBusy || first === undefined || !host.isOpen) return
    isBusy = true
    host.send([first.run.claim])
  }

  function end(outcome: Outcome | undefined): void {
    isBusy = false
    if (outcome !== undefined) queue.pop()?.settle(outcome)
    next()
  }

  host.attach({
    progress() {
      const [outcome] = host.collect()
      if (outcome !== undefined) end(outcome)
    },
    recalled() {}, // nothing ever waits behind what runs
    died(detail) {
      const [outcome] = host.collect()
      end(outcome ?? (host.hasStarted() ? { kind: 'crash', detail } : undefined))
    },
    revived: next,
  })

  return run =>
    new Promise<Outcome>(settle => {
      queue.push({ run, settle })
      next()
    })
}

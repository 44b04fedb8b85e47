import { DeferredEnqueuer } from '../../engines/deferred-enqueuer.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import { type Engine, memoryEngine } from '../../engines/open-engine.js'

/** The value of `spooler` with which tasks live in this process, and are lost when it ends. */
export const MEMORY = 'memory:'

interface MemoryQueue {
  readonly engine: Engine
  readonly enqueuer: Enqueuer
}

/** The spools in memory of one application: one per queue, made when the queue is first named. */
export class MemoryQueues {
  readonly #queues = new Map<string, MemoryQueue>()

  get names(): string[] {
    return [...this.#queues.keys()]
  }

  engineOf(queue: string): Engine {
    return this.#of(queue).engine
  }

  enqueuerOf(queue: string): Enqueuer {
    return this.#of(queue).enqueuer
  }

  #of(queue: string): MemoryQueue {
    const known = this.#queues.get(queue)
    if (known !== undefined) return known
    const name = spoolOf(queue)
    const engine = memoryEngine(name)
    const made = { engine, enqueuer: new DeferredEnqueuer(name, () => engine.enqueuer(false)) }
    this.#queues.set(queue, made)
    return made
  }
}

/** Returns the name of a queue's spool in memory, as log lines have it. */
export function spoolOf(queue: string): string {
  return `${MEMORY}${queue}`
}

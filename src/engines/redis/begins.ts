import { toError } from '../../base/errors.js'
import type { Past } from '../contracts/verdict.js'
import type { Connection } from './connection.js'
import type { HeldJob } from './refs.js'
import type { TaskRecord } from './task-job.js'

/** The mark with which a run began. */
export type Mark = Exclude<Past, 'none'>

/** The mark of a run that has begun. */
export interface Begun {
  readonly past: Mark
  readonly fence: number
}

/** A run that is about to begin. */
interface Beginning {
  readonly args: readonly string[]
  begun(fence: number): void
  failed(error: Error): void
}

/** Stores that runs begin: all those of one turn of the event loop by one script. */
export class Begins {
  readonly #connection: Connection
  #waiting: Beginning[] = []

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /**
   * Stores that a run begins.
   *
   * @param prefix of the keys of its job's queue
   * @returns the fencing token; 0: another claim may have the job
   */
  add(prefix: string, { id, token }: HeldJob, record: TaskRecord): Promise<number> {
    const args = [prefix, id, token, JSON.stringify(record)]
    return new Promise((begun, failed) => {
      if (this.#waiting.length === 0) process.nextTick(() => this.#send())
      this.#waiting.push({ args, begun, failed })
    })
  }

  #send(): void {
    const runs = this.#waiting
    this.#waiting = []
    const fence = this.#connection.key('spoold:fence')
    this.#connection.run('begin', fence, ...runs.flatMap(({ args }) => args)).then(
      reply => {
        const fences = reply as readonly number[]
        for (const [i, { begun }] of runs.entries()) begun(Number(fences[i]))
      },
      error => {
        for (const { failed } of runs) failed(toError(error))
      },
    )
  }
}

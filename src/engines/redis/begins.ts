import { toError } from '../../base/errors.js'
import type { Past } from '../verdict.js'
import type { Connection } from './connection.js'
import type { SpoolQueue } from './queues.js'
import type { HeldJob } from './refs.js'
import type { ScriptName } from './scripts.js'
import { NEW_RECORD, type TaskRecord } from './task-job.js'

/** The mark that a run began with. */
export type Mark = Exclude<Past, 'none'>

/** The mark of a run that has begun. */
export interface Begun {
  readonly past: Mark
  readonly fence: number
}

/** Stores that runs begin: those of one turn of the event loop by one script. */
export class Begins {
  readonly #known: Turn
  readonly #next: Turn

  constructor(connection: Connection) {
    const fence = connection.key('spoold:fence')
    this.#known = new Turn(connection, 'begin', [fence])
    this.#next = new Turn(connection, 'beginNext', [fence, connection.key('active'), connection.key('')])
  }

  /** @returns its fencing token; 0: another one may have the job */
  add(queue: SpoolQueue, { id, token }: HeldJob, record: TaskRecord): Promise<number> {
    return this.#known.add([queue.key(''), id, token, JSON.stringify(record)])
  }

  /**
   * Call it together with the command that pulls a job of the spool's own queue, whatever that is: it begins in the same write, if
   * it has no record yet. @returns its fencing token; 0: it has not begun
   */
  addNext(token: string, past: Mark): Promise<number> {
    return this.#next.add([token, JSON.stringify({ ...NEW_RECORD, past })])
  }
}

/** A run that is to begin. */
interface Beginning {
  readonly args: readonly string[]
  begun(fence: number): void
  failed(error: Error): void
}

/** Collects what one script is asked in one turn of the event loop. */
class Turn {
  readonly #connection: Connection
  readonly #script: ScriptName
  /** Before those of the runs. */
  readonly #args: readonly string[]
  #waiting: Beginning[] = []

  constructor(connection: Connection, script: ScriptName, args: readonly string[]) {
    this.#connection = connection
    this.#script = script
    this.#args = args
  }

  add(args: readonly string[]): Promise<number> {
    return new Promise((begun, failed) => {
      if (this.#waiting.length === 0) process.nextTick(() => this.#send())
      this.#waiting.push({ args, begun, failed })
    })
  }

  #send(): void {
    const runs = this.#waiting
    this.#waiting = []
    this.#connection.run(this.#script, ...this.#args, ...runs.flatMap(({ args }) => args)).then(
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

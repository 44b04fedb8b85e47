import { setTimeout as sleep } from 'node:timers/promises'
import { pauseMs } from './client.js'
import type { Connection } from './connection.js'
import { refusalCode, renew } from './locked-jobs.js'
import type { HeldJob } from './refs.js'
import { whyNot } from './store-failure.js'

/** People are told of what has been refused so often, after a second or so: less is a failover, or a script that is busy. */
const TRIES_UNTOLD = 6

/** Tells people of a task. */
export type Tell = (task: string, message: string) => void

/** Tries what a worker has to store of its runs until Redis has answered, and says once that Redis refuses it. */
export class Persistence {
  readonly #connection: Connection
  readonly #tell: Tell
  /** What has been refused for long, and still is. The first is told, and the end of the last. */
  #refused = 0

  constructor(connection: Connection, tell: Tell = () => {}) {
    this.#connection = connection
    this.#tell = tell
  }

  /**
   * A run that has ended ran, whatever Redis says. A lock that expired meanwhile is taken again if nobody has the job.
   *
   * @throws what BullMQ's scripts refuse
   */
  run<T>(held: HeldJob, act: (tries: number) => Promise<T>): Promise<T> {
    const first = act(0) // nearly always the last, and without promises for the others
    return first.catch(() => this.#runAgain(held, first, act))
  }

  async #runAgain<T>(held: HeldJob, first: Promise<T>, act: (tries: number) => Promise<T>): Promise<T> {
    let isTold = false
    for (let tries = 0, refusals = 0; ; tries++)
      try {
        if (tries > 0) await renew(this.#connection, [held])
        const result = await (tries === 0 ? first : act(tries))
        if (isTold) this.#settled(held)
        return result
      } catch (error) {
        if (refusalCode(error) !== undefined) {
          if (isTold) this.#settled(held)
          throw error
        }
        // if there is no connection, the feed says why
        if (this.#connection.isReady && ++refusals === TRIES_UNTOLD) {
          this.#refusedFor(held, error)
          isTold = true
        }
        await sleep(pauseMs(tries))
      }
  }

  #refusedFor({ id }: HeldJob, error: unknown): void {
    if (this.#refused++ > 0) return
    const why = whyNot(error)
    const hint = why.includes('spoold doctor') ? '' : ' (spoold doctor examines it)'
    this.#tell(id, `how its run went cannot be stored, and is tried again until it is: ${why}${hint}`)
  }

  #settled({ id }: HeldJob): void {
    if (--this.#refused === 0) this.#tell(id, 'Redis has answered: what it refused is stored')
  }
}

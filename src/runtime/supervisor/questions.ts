import { messageOf, SpooldError } from '../../base/errors.js'
import { checkSendable } from '../ipc/frames.js'
import { CacheStore } from './cache-store.js'
import type { Master } from './master.js'
import type { Answer, Question } from './worker-port.js'

/** Answers questions of handlers that concern the whole daemon. */
export class QuestionHandler {
  readonly #master: Master
  readonly #warn: (message: string) => void
  readonly #caches = new CacheStore()
  /**
   * What happens once per configuration: the keys of `first`, which let one of all workers with the same handlers do something, and
   * each warning that was printed.
   */
  readonly #taken = new Set<string>()

  /** @param warn reports problems that workers found while they loaded handlers */
  constructor(master: Master, warn: (message: string) => void) {
    this.#master = master
    this.#warn = warn
  }

  /** Call it before code is loaded again, as by a uWSGI that was reloaded. */
  forget(): void {
    this.#taken.clear()
  }

  /** @param code identifies the handlers that the worker loads */
  answer({ id, name, values }: Question, code: string): Answer {
    try {
      const answer = { type: 'answer', id, values: this.#valuesOf(name, values, code) } as const
      checkSendable(`the answer of ${name}`, answer)
      return answer
    } catch (error) {
      return { type: 'answer', id, values: [], error: messageOf(error) }
    }
  }

  /** @throws SpooldError REQUEST_INVALID, worded for a handler */
  #valuesOf(name: string, values: readonly string[], code: string): readonly string[] {
    switch (name) {
      case 'pids':
        return this.#master.all.flatMap(({ pool }) => Array.from(pool.workers, ({ pid }) => String(pid)))
      case 'frequency':
        return this.#setFrequency(Number(values[0]))
      case 'cache':
        return this.#caches.answer(values)
      case 'first':
        return this.#take(`first ${code}`) ? ['1'] : []
      case 'warn':
        return this.#warnOnce(values.join(''))
      default:
        throw new SpooldError('REQUEST_INVALID', `the master has no answer to ${name}`)
    }
  }

  #take(what: string): boolean {
    if (this.#taken.has(what)) return false
    this.#taken.add(what)
    return true
  }

  #warnOnce(message: string): readonly string[] {
    const text = Buffer.from(message, 'latin1').toString()
    if (this.#take(`warning ${text}`)) this.#warn(text)
    return []
  }

  /** uwsgi.set_spooler_frequency: 0 restores the configured option. */
  #setFrequency(seconds: number): readonly string[] {
    if (!Number.isInteger(seconds) || seconds < 0)
      throw new SpooldError('REQUEST_INVALID', `expected a number of seconds from 0, got ${seconds}`)
    const everyMs = seconds === 0 ? null : seconds * 1000
    for (const { feed } of this.#master.all) feed.look({ everyMs })
    return []
  }
}

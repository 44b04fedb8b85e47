import { messageOf, SpooldError } from '../base/errors.js'
import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'
import { CacheStore } from './cache-store.js'

export type Question = Extract<WorkerMessage, { type: 'ask' }>
export type Answer = Extract<MasterMessage, { type: 'answer' }>

/** One spool, as far as handlers may ask of it. */
export interface Questioned {
  readonly pids: readonly number[]
  setFrequency(frequencyMs: number | null): void
}

/** Answers what handlers ask of the whole daemon. */
export class Questions {
  readonly #spools: () => readonly Questioned[]
  readonly #caches = new CacheStore()

  constructor(spools: () => readonly Questioned[]) {
    this.#spools = spools
  }

  answer({ id, name, values }: Question): Answer {
    try {
      return { type: 'answer', id, values: this.#valuesOf(name, values) }
    } catch (error) {
      return { type: 'answer', id, values: [], error: messageOf(error) }
    }
  }

  /** @throws SpooldError REQUEST_INVALID in words for a handler */
  #valuesOf(name: string, values: readonly string[]): readonly string[] {
    switch (name) {
      case 'pids':
        return this.#spools().flatMap(({ pids }) => pids.map(String))
      case 'frequency':
        return this.#setFrequency(Number(values[0]))
      case 'cache':
        return this.#caches.answer(values)
      default:
        throw new SpooldError('REQUEST_INVALID', `the master has no answer to ${name}`)
    }
  }

  /** uwsgi.set_spooler_frequency: 0 goes back to the option. */
  #setFrequency(seconds: number): readonly string[] {
    if (!Number.isInteger(seconds) || seconds < 0)
      throw new SpooldError('REQUEST_INVALID', `expected a number of seconds from 0, got ${seconds}`)
    for (const spool of this.#spools()) spool.setFrequency(seconds === 0 ? null : seconds * 1000)
    return []
  }
}

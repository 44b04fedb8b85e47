import { EventEmitter } from 'node:events'
import type { EventMap, EventName } from './event-map.js'

/** Tells facts to whoever subscribed. Listeners run at once and in order; they must not throw. */
export class Emitter {
  readonly #emitter = new EventEmitter().setMaxListeners(0)

  emit<Name extends EventName>(name: Name, payload: EventMap[Name]): void {
    this.#emitter.emit(name, payload)
  }

  /** @returns what ends it */
  on<Name extends EventName>(name: Name, listener: (payload: EventMap[Name]) => void): () => void {
    this.#emitter.on(name, listener)
    return () => this.#emitter.off(name, listener)
  }
}

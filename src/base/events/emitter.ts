import { EventEmitter } from 'node:events'
import type { EventMap, EventName } from './event-map.js'

/** Passes events on to their listeners, which run at once and in order. Listeners must not throw. */
export class Emitter {
  readonly #emitter = new EventEmitter().setMaxListeners(0)

  emit<Name extends EventName>(name: Name, payload: EventMap[Name]): void {
    this.#emitter.emit(name, payload)
  }

  /** @returns a function that ends the subscription */
  on<Name extends EventName>(name: Name, listener: (payload: EventMap[Name]) => void): () => void {
    this.#emitter.on(name, listener)
    return () => this.#emitter.off(name, listener)
  }
}

import { EventEmitter } from 'node:events'
import type { EventMap, EventName } from './event-map.js'

/** Tells facts to whoever subscribed. Listeners run at once and in order; they must not throw. */
export class Emitter {
  readonly #emitter = new EventEmitter()

  emit<Name extends EventName>(name: Name, payload: EventMap[Name]): void {
    this.#emitter.emit(name, payload)
  }

  on<Name extends EventName>(name: Name, listener: (payload: EventMap[Name]) => void): void {
    this.#emitter.on(name, listener)
  }

  /** Nobody listens: the payload need not be made. */
  isSilent(name: EventName): boolean {
    return this.#emitter.listenerCount(name) === 0
  }
}

import { EventEmitter } from 'node:events'
import type { EventMap, EventName } from './event-map.js'

/** Calls the listeners of an event, synchronously and in order; they must not throw. */
export class Emitter {
  readonly #emitter = new EventEmitter()

  emit<Name extends EventName>(name: Name, payload: EventMap[Name]): void {
    this.#emitter.emit(name, payload)
  }

  on<Name extends EventName>(name: Name, listener: (payload: EventMap[Name]) => void): void {
    this.#emitter.on(name, listener)
  }

  /** No listeners: the payload need not be created. */
  isSilent(name: EventName): boolean {
    return this.#emitter.listenerCount(name) === 0
  }
}

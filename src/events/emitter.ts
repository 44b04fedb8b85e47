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
}

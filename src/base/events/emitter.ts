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

  /** There are no listeners: the payload need not be made. */
  isSilent(name: EventName): boolean {
    return this.#emitter.listenerCount(name) === 0
  }

  /** Calls back when an event is about to get its first listener, and when the last one has gone. @returns what ends it */
  followListeners(name: EventName, changed: (isHeard: boolean) => void): () => void {
    const tell = (isHeard: boolean) => (each: string) => {
      if (each === name && this.isSilent(name)) changed(isHeard)
    }
    const [added, removed] = [tell(true), tell(false)]
    this.#emitter.on('newListener', added).on('removeListener', removed)
    return () => this.#emitter.off('newListener', added).off('removeListener', removed)
  }
}

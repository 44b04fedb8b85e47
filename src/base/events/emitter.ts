import { EventEmitter } from 'node:events'
import type { EventMap, EventName } from './event-map.js'

/** Tells facts to whoever subscribed. Listeners run at once and in order; they must not throw. */
export class Emitter {
  readonly #emitter = new EventEmitter()
  readonly #followers = new Set<{ readonly name: EventName; changed(isHeard: boolean): void }>()

  emit<Name extends EventName>(name: Name, payload: EventMap[Name]): void {
    this.#emitter.emit(name, payload)
  }

  /** @returns what ends it */
  on<Name extends EventName>(name: Name, listener: (payload: EventMap[Name]) => void): () => void {
    const wasSilent = this.isSilent(name)
    this.#emitter.on(name, listener)
    if (wasSilent) this.#tell(name, true)
    return () => {
      this.#emitter.off(name, listener)
      if (this.isSilent(name)) this.#tell(name, false)
    }
  }

  /** There are no listeners: the payload need not be made. */
  isSilent(name: EventName): boolean {
    return this.#emitter.listenerCount(name) === 0
  }

  /** Calls back when an event gets its first listener, and when the last one has gone. @returns what ends it */
  followListeners(name: EventName, changed: (isHeard: boolean) => void): () => void {
    const follower = { name, changed }
    this.#followers.add(follower)
    return () => this.#followers.delete(follower)
  }

  #tell(name: EventName, isHeard: boolean): void {
    for (const follower of this.#followers) if (follower.name === name) follower.changed(isHeard)
  }
}

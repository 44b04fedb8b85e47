import { messageOf } from '../../base/errors.js'
import { isThenable } from '../../base/promise.js'
import type { ScheduledTask } from './scheduled-task.js'

/** The payload of an event of a named task. */
export interface TaskEvent {
  /** The namespace of the application. */
  readonly namespace: string
  /** The worker that runs the task: its queue, and its number from 1; in a daemon's worker, its pid. */
  readonly worker: string
  readonly task: ScheduledTask
}

/** A run of a named task was not a success. */
export interface TaskErrorEvent extends TaskEvent {
  /**
   * An error with the message, name and stack of what was thrown. It is not the thrown object, which may be in another process.
   */
  readonly error: Error
}

/** The payload of an event of a worker. */
export interface WorkerEvent {
  /** The namespace of the application. */
  readonly namespace: string
  readonly worker: string
  readonly queue: string
}

/** All events with their payloads, which are frozen. */
export interface LifecycleEvents {
  'task-started': TaskEvent
  /** A run failed, and the task runs again. The task has its new time and its number of runs. */
  'task-retried': TaskErrorEvent
  /** A run failed, and the task does not run again. */
  'task-failed': TaskErrorEvent
  /** A run has ended in any way. This event comes last, after `task-retried` or `task-failed` if there is one. */
  'task-finished': TaskEvent
  /** A worker is ready for tasks. */
  'worker-started': WorkerEvent
  'worker-terminated': WorkerEvent
}

/** The name of an event. */
export type LifecycleEvent = keyof LifecycleEvents

/** Which events to listen to. */
export interface ListenOptions {
  /** Only events of the application with this namespace. */
  readonly namespace?: string
}

type Listen<Name extends LifecycleEvent> = (event: LifecycleEvents[Name]) => unknown

interface Listener {
  readonly name: LifecycleEvent
  readonly listen: (event: never) => unknown
  readonly namespace: string | undefined
  readonly isOnce: boolean
}

const NAMES: readonly string[] = [
  ...['task-started', 'task-retried', 'task-failed', 'task-finished'],
  ...['worker-started', 'worker-terminated'],
]

/** Passes events to listeners. A listener that throws, or rejects, harms nothing. */
export class EventHub {
  #listeners: readonly Listener[] = []
  readonly #watchers = new Set<(isHeard: boolean) => void>()

  /** @throws TypeError if there is no such event */
  on<Name extends LifecycleEvent>(name: Name, listen: Listen<Name>, options: ListenOptions = {}): this {
    return this.#add(name, listen, options, false)
  }

  /** Listens to the first event alone. */
  once<Name extends LifecycleEvent>(name: Name, listen: Listen<Name>, options: ListenOptions = {}): this {
    return this.#add(name, listen, options, true)
  }

  off<Name extends LifecycleEvent>(name: Name, listen: Listen<Name>): this {
    return this.#set(this.#listeners.filter(each => each.name !== name || each.listen !== listen))
  }

  /** @internal @param failed is told of a listener that throws */
  emit<Name extends LifecycleEvent>(
    name: Name,
    event: LifecycleEvents[Name],
    failed: (message: string) => void,
  ): void {
    for (const each of this.#listeners) {
      if (each.name !== name || (each.namespace !== undefined && each.namespace !== event.namespace)) continue
      if (each.isOnce) this.#set(this.#listeners.filter(other => other !== each))
      const complain = (error: unknown) => failed(`a listener of ${name} failed: ${messageOf(error)}`)
      try {
        const answer = (each.listen as Listen<Name>)(event)
        if (isThenable(answer)) answer.then(undefined, complain)
      } catch (error) {
        complain(error)
      }
    }
  }

  /** @internal Calls back when somebody listens, and when nobody does any more. @returns a function that ends this */
  watch(changed: (isHeard: boolean) => void): () => void {
    this.#watchers.add(changed)
    if (this.#listeners.length > 0) changed(true)
    return () => this.#watchers.delete(changed)
  }

  #add(name: string, listen: unknown, { namespace }: ListenOptions, isOnce: boolean): this {
    if (!NAMES.includes(name))
      throw new TypeError(`there is no event ${name}; expected one of ${NAMES.join(', ')}`)
    if (typeof listen !== 'function') throw new TypeError(`${name}: expected a function`)
    const added = { name: name as LifecycleEvent, listen: listen as Listener['listen'], namespace, isOnce }
    return this.#set([...this.#listeners, added])
  }

  #set(listeners: readonly Listener[]): this {
    const wasHeard = this.#listeners.length > 0
    this.#listeners = listeners
    const isHeard = listeners.length > 0
    if (wasHeard !== isHeard) for (const changed of this.#watchers) changed(isHeard)
    return this
  }
}

/** Calls back when somebody listens to one of the hubs, and when nobody does any more. @returns a function that ends this */
export function watchAll(hubs: readonly EventHub[], changed: (isHeard: boolean) => void): () => void {
  const heard = new Set<EventHub>()
  const ends = hubs.map(hub =>
    hub.watch(isHeard => {
      const before = heard.size
      if (isHeard) heard.add(hub)
      else heard.delete(hub)
      if (before === 0 || heard.size === 0) changed(heard.size > 0)
    }),
  )
  return () => {
    for (const end of ends) end()
  }
}

/** The name of the hub that all copies of this package share. Change the name with any incompatible change of `EventHub`. */
const EVENTS = Symbol.for('spoold.events.1')

type Shared = typeof globalThis & { [EVENTS]?: EventHub }

const shared: Shared = globalThis
shared[EVENTS] ??= new EventHub()

/** The events of all applications in this process. In a daemon's worker, the events of the tasks that the worker runs. */
export const events: EventHub = shared[EVENTS]

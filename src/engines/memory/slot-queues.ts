import { Heap } from '../../base/heap.js'
import type { NamedSlots, SlotQueueStats } from '../../base/task/terms.js'
import type { MemorySlots } from './slots.js'
import type { MemoryTask } from './spool.js'

/** How often expired leases are looked for while tasks wait for slots. */
const LOOK_MS = 50

interface SlotQueue {
  slots: NamedSlots
  readonly tasks: Heap<MemoryTask>
}

/** The tasks of a feed that wait for slots, by the name of the slots and in order. */
export class MemorySlotQueues {
  readonly #slots: MemorySlots
  readonly #isMoreUrgent: (a: MemoryTask, b: MemoryTask) => boolean
  readonly #makeReady: (task: MemoryTask) => void
  readonly #byName = new Map<string, SlotQueue>()
  readonly #stopWatching: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(
    slots: MemorySlots,
    isMoreUrgent: (a: MemoryTask, b: MemoryTask) => boolean,
    makeReady: (task: MemoryTask) => void,
  ) {
    this.#slots = slots
    this.#isMoreUrgent = isMoreUrgent
    this.#makeReady = makeReady
    this.#stopWatching = slots.watch(name => this.#next(this.#byName.get(name)))
  }

  get size(): number {
    let size = 0
    for (const { tasks } of this.#byName.values()) size += tasks.size
    return size
  }

  get stats(): SlotQueueStats[] {
    const waiting = [...this.#byName.values()].filter(({ tasks }) => tasks.size > 0)
    return waiting.map(({ slots, tasks }) => ({ ...slots, parked: tasks.size }))
  }

  add(task: MemoryTask, slots: NamedSlots): void {
    const queue = this.#byName.get(slots.name) ?? { slots, tasks: new Heap<MemoryTask>(this.#isMoreUrgent) }
    queue.slots = slots
    queue.tasks.push(task)
    this.#byName.set(slots.name, queue)
    if (this.#slots.free(slots) > 0) this.#next(queue) // a slot was given back since the worker found none
    this.#lookLater()
  }

  releaseAll(): void {
    for (const queue of this.#byName.values()) while (queue.tasks.size > 0) this.#next(queue)
  }

  #next(queue: SlotQueue | undefined): void {
    const task = queue?.tasks.pop()
    if (task !== undefined) this.#makeReady(task)
  }

  #lookLater(): void {
    if (this.size === 0) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      for (const queue of this.#byName.values())
        for (let free = this.#slots.free(queue.slots); free > 0; free--) this.#next(queue)
      this.#lookLater()
    }, LOOK_MS).unref()
  }

  close(): void {
    this.#stopWatching()
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#byName.clear()
  }
}

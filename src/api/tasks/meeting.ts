import type { Call } from '../../runtime/tasks/onion.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'

/** Gathers the calls of a batch as they come out of their middleware, one by one, and stores them together after the last one. */
export class Meeting {
  readonly #storeAll: (calls: readonly Call[]) => Promise<ScheduledTask[]>
  readonly #come = new Map<number, Call>()
  readonly #stored: Promise<ReadonlyMap<number, ScheduledTask>>
  #settle: (error?: unknown) => void = () => {}
  /** The number of calls that are still in their middleware. */
  #missing: number
  /** The first error of all: of a call that its middleware refused, or of storing. */
  error: unknown

  constructor(size: number, storeAll: (calls: readonly Call[]) => Promise<ScheduledTask[]>) {
    this.#missing = size
    this.#storeAll = storeAll
    const all = new Promise<void>((resolve, reject) => {
      this.#settle = error => (error === undefined ? resolve() : reject(error))
    })
    this.#stored = all.then(() => this.#store())
    this.#stored.catch(error => {
      this.error ??= error
    })
  }

  /** Call number `i` has passed its middleware. @returns its task, once all are stored */
  async join(i: number, call: Call): Promise<ScheduledTask> {
    this.#come.set(i, call)
    this.#oneLess()
    const task = (await this.#stored).get(i)
    if (task === undefined) throw new TypeError(`number ${i} was not stored`)
    return task
  }

  /**
   * Follows call number `i` through its middleware, so that a call that never joins (it is refused, or its middleware returns a
   * task of its own) is not waited for.
   */
  async hear(i: number, way: Promise<ScheduledTask>): Promise<ScheduledTask> {
    try {
      return await way
    } catch (error) {
      if (!this.#come.has(i)) this.#settle(error)
      throw error
    } finally {
      if (!this.#come.has(i)) this.#oneLess()
    }
  }

  #oneLess(): void {
    if (--this.#missing === 0) this.#settle()
  }

  async #store(): Promise<ReadonlyMap<number, ScheduledTask>> {
    const places = [...this.#come.keys()].sort((a, b) => a - b)
    const tasks = await this.#storeAll(places.flatMap(i => this.#come.get(i) ?? []))
    return new Map(places.flatMap((i, n) => (tasks[n] === undefined ? [] : [[i, tasks[n]] as const])))
  }
}

import type { Call } from '../../runtime/tasks/onion.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'

/** The calls of a batch that come out of their middleware, one by one, and are stored together once all have. */
export class Meeting {
  readonly #storeAll: (calls: readonly Call[]) => Promise<ScheduledTask[]>
  readonly #come = new Map<number, Call>()
  readonly #stored: Promise<ReadonlyMap<number, ScheduledTask>>
  #settle: (error?: unknown) => void = () => {}
  /** Calls that are on their way. */
  #missing: number
  /** The first that was wrong with any of them. */
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

  /** Number `i` has come. @returns it, once all are stored */
  async join(i: number, call: Call): Promise<ScheduledTask> {
    this.#come.set(i, call)
    this.#oneLess()
    const task = (await this.#stored).get(i)
    if (task === undefined) throw new TypeError(`number ${i} was not stored`)
    return task
  }

  /** A way that ends without having come: refused, or its middleware has a task of its own. */
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

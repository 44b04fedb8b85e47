import type { Emitter } from '../../base/events/emitter.js'
import type { PeriodicTask } from '../../base/task/schedule.js'
import { openEngine } from '../../engines/open-engine.js'
import type { SpoolTarget } from '../../engines/targets.js'
import type { Options } from '../../formats/config/option-table.js'
import { queuesOf } from '../../formats/config/queues.js'
import { DEFAULT_QUEUE } from '../../formats/protocol/named.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import { PeriodicSpool } from '../../runtime/periodic/spool.js'
import { realPathOf } from '../../system/file-stats.js'

/**
 * The periodic tasks of all spools. The processes of a spool declare the tasks that they can run. A task belongs to the spool of
 * its queue, where it is remembered and stored.
 */
export class PeriodicSpools {
  readonly #events: Emitter
  /** The tasks that the processes of each spool declare. */
  readonly #declared = new Map<string, readonly PeriodicTask[]>()
  /** The spools that this daemon runs, by their real paths. */
  #own: readonly SpoolTarget[] = []
  #queues: ReadonlyMap<string, string | undefined> = new Map()
  #opened = new Map<string, PeriodicSpool>()
  readonly #unplaced = new Set<string>()

  constructor(events: Emitter) {
    this.#events = events
  }

  serve(options: Pick<Options, 'spoolerQueue'>, own: readonly SpoolTarget[]): void {
    this.#own = own
    this.#queues = new Map(queuesOf(options.spoolerQueue).map(([name, path]) => [name, spoolOf(path)]))
    this.#unplaced.clear()
    for (const [spool, each] of this.#opened)
      if (!own.some(({ directory, sync }) => directory === spool && sync === each.sync)) {
        this.#opened.delete(spool)
        void each.close()
      }
    this.#settle()
  }

  declared(spool: string, tasks: readonly PeriodicTask[]): void {
    if (tasks.length === 0) this.#declared.delete(spool)
    else this.#declared.set(spool, tasks)
    this.#settle()
  }

  get plan(): Array<{ schedule: PeriodicTask; spool: string; nextAtMs: number | null }> {
    return [...this.#opened].flatMap(([spool, { plan }]) =>
      plan.map(({ task, nextAtMs }) => ({ schedule: task, spool, nextAtMs })),
    )
  }

  /** Stores a run of a task now. @returns its name in the spool @throws Error why nothing was stored */
  async run(spool: string, name: string): Promise<string> {
    const opened = this.#opened.get(spool)
    if (opened === undefined) throw new Error(`this daemon does not run ${spool}`)
    return opened.run(name)
  }

  get isEmpty(): boolean {
    return [...this.#opened.values()].every(({ isEmpty }) => isEmpty)
  }

  async stop(): Promise<void> {
    this.#own = []
    const opened = [...this.#opened.values()]
    this.#opened = new Map()
    await Promise.all(opened.map(spool => spool.close()))
  }

  /** Opens a spool without tasks, too: it may remember tasks that no process declares any more. */
  #settle(): void {
    for (const target of this.#own) {
      const { directory } = target
      const tasks = (this.#declared.get(directory) ?? []).filter(task => this.#homeOf(task) === directory)
      const known = this.#opened.get(directory)
      const spool =
        known ??
        new PeriodicSpool(directory, { engine: openEngine(directory), sync: target.sync }, this.#events)
      this.#opened.set(directory, spool)
      spool.set(tasks)
    }
  }

  /** The spool of the default queue is the first one whose processes declare the task, unless it belongs to another queue. */
  #homeOf({ name, queue }: PeriodicTask): string | undefined {
    const mapped = this.#queues.get(queue)
    if (mapped !== undefined) return mapped
    if (queue === DEFAULT_QUEUE) {
      const others = new Set(this.#queues.values())
      const having = this.#own.filter(({ directory }) =>
        this.#declared.get(directory)?.some(task => task.name === name),
      )
      return (having.find(({ directory }) => !others.has(directory)) ?? having[0])?.directory
    }
    if (!this.#unplaced.has(name)) this.#events.emit('periodic-unplaced', { name, queue })
    this.#unplaced.add(name)
    return undefined
  }
}

/** The name of a spool that this daemon runs. */
function spoolOf(path: string): string | undefined {
  return isRedisAddress(path) ? nameOfRedis(path) : realPathOf(path)
}

import { Alarm, machineNowMs } from '../base/clock.js'
import { crypto } from '../base/crypto.js'
import { messageOf } from '../base/errors.js'
import type { Options } from '../config/option-table.js'
import { queuesOf } from '../config/queues.js'
import type { SpoolTarget } from '../engines/directory/targets.js'
import { openEngine } from '../engines/open-engine.js'
import type { Emitter } from '../events/emitter.js'
import { ARGS_KEY, DEFAULT_QUEUE, ID_KEY, QUEUE_KEY, TASK_KEY } from '../protocol/named.js'
import { encodePacket } from '../protocol/packet.js'
import { PeriodicTasks } from '../schedule/periodic-tasks.js'
import type { ScheduleSnapshot } from '../stats/snapshot.js'
import { bootId } from '../system/boot.js'
import { realPathOf } from '../system/file-stats.js'
import type { PeriodicTask } from '../task/periodic.js'
import { baseName } from '../task/ref.js'

/**
 * The periodic tasks of all spools. The processes of a spool declare those that they can run, and a task belongs to the spool of
 * its queue: that is where it is remembered and stored.
 */
export class PeriodicSpools {
  readonly #events: Emitter
  /** What the processes of each spool declare. */
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
    this.#queues = new Map(queuesOf(options.spoolerQueue).map(([name, path]) => [name, realPathOf(path)]))
    this.#unplaced.clear()
    for (const [spool, each] of this.#opened)
      if (!own.some(({ directory, sync }) => directory === spool && sync === each.target.sync)) {
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

  get plan(): ScheduleSnapshot[] {
    return [...this.#opened.values()].flatMap(({ plan }) => plan)
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

  /** A spool without tasks is opened, too: it may remember some that nobody has any more. */
  #settle(): void {
    for (const target of this.#own) {
      const { directory } = target
      const tasks = (this.#declared.get(directory) ?? []).filter(task => this.#homeOf(task) === directory)
      const known = this.#opened.get(directory)
      const spool = known ?? new PeriodicSpool(target, this.#events)
      this.#opened.set(directory, spool)
      spool.set(tasks)
    }
  }

  /** The first spool whose processes declare the task is that of the default queue, unless it is another queue's. */
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

/** After an engine could not be opened. */
const RETRY_MS = 1000

/** Looks after the periodic tasks of one spool whenever it is time. */
class PeriodicSpool {
  readonly target: SpoolTarget
  readonly #events: Emitter
  readonly #alarm = new Alarm(() => this.#look())
  #declared: readonly PeriodicTask[] = []
  #tasks: PeriodicTasks | undefined
  #looking: Promise<void> | undefined
  #isAsked = false
  #isClosed = false

  constructor(target: SpoolTarget, events: Emitter) {
    this.target = target
    this.#events = events
  }

  set(tasks: readonly PeriodicTask[]): void {
    this.#declared = tasks
    this.#tasks?.set(tasks)
    this.#look()
  }

  get isEmpty(): boolean {
    return this.#declared.length === 0
  }

  get plan(): ScheduleSnapshot[] {
    const { directory: spool } = this.target
    return (this.#tasks?.plan ?? []).map(({ task, nextAtMs }) => ({ schedule: task, spool, nextAtMs }))
  }

  /** Resolves when what it does is done. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#alarm.clear()
    await this.#looking
  }

  #look(): void {
    this.#isAsked = true
    this.#looking ??= this.#run()
  }

  async #run(): Promise<void> {
    this.#alarm.clear()
    let nextMs = RETRY_MS
    try {
      this.#tasks ??= await this.#open()
      while (this.#isAsked && !this.#isClosed) {
        this.#isAsked = false
        nextMs = await this.#tasks.look()
      }
    } catch (error) {
      this.#events.emit('periodic-failed', { spool: this.target.directory, error: messageOf(error) })
    }
    this.#looking = undefined
    if (Number.isFinite(nextMs) && !this.#isClosed) this.#alarm.wakeAt(performance.now() + nextMs)
  }

  async #open(): Promise<PeriodicTasks> {
    const { directory: spool, sync } = this.target
    const events = this.#events
    const engine = openEngine(spool)
    const { periodic } = await engine.upkeep()
    const tasks = new PeriodicTasks({
      states: periodic,
      now: () => ({ epochMs: Date.now(), machineMs: machineNowMs(), boot: bootId() }),
      async store(task) {
        const packet = packetOf(task)
        const { path } = await (await engine.enqueuer(sync)).store({ packet })
        events.emit('request-stored', { path, bytes: packet.length })
        return baseName(path)
      },
      leftOut: ({ name }, stored) => events.emit('periodic-left-out', { spool, name, stored }),
      damaged: ({ name }) => events.emit('periodic-damaged', { spool, name }),
      failed: error => events.emit('periodic-failed', { spool, error }),
    })
    tasks.set(this.#declared)
    return tasks
  }
}

/** A run is a named task like any other. */
function packetOf({ name, queue }: PeriodicTask): Buffer {
  const pairs = [
    [TASK_KEY, name],
    [ARGS_KEY, '[]'],
    [ID_KEY, crypto().randomUUID()],
    ...(queue === DEFAULT_QUEUE ? [] : [[QUEUE_KEY, queue]]),
  ]
  return encodePacket(pairs.map(([key = '', value = '']) => [Buffer.from(key), Buffer.from(value)]))
}

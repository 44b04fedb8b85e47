import { readFileSync } from 'node:fs'
import { Alarm, endOf, machineNowMs } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { crypto } from '../../base/on-demand.js'
import { type PeriodicTask, scheduleHash } from '../../base/task/schedule.js'
import type { Engine } from '../../engines/open-engine.js'
import { ARGS_KEY, DEFAULT_QUEUE, ID_KEY, QUEUE_KEY, TASK_KEY } from '../../formats/protocol/named.js'
import { encodePacket } from '../../formats/protocol/packet.js'
import { PeriodicTasks, type PeriodicTasksOptions } from './tasks.js'
import { entryFrom } from './times.js'

/** The delay, in ms, before an engine that could not be opened is opened again. */
const RETRY_MS = 1000

/** How long a stop waits, in ms, for the work that is going on. It is bounded because the engine may not answer. */
const CLOSE_MS = 500

/** Where periodic tasks are stored. */
interface PeriodicPlace {
  readonly engine: Engine
  /** True if each stored task is on disk before the next one is stored. */
  readonly sync: boolean
}

/** Looks after the periodic tasks of one spool whenever it is time. */
export class PeriodicSpool {
  readonly #spool: string
  readonly #place: PeriodicPlace
  readonly #events: Emitter
  readonly #alarm = new Alarm(() => this.#look())
  #declared: readonly PeriodicTask[] = []
  #tasks: PeriodicTasks | undefined
  #looking: Promise<void> | undefined
  #isAsked = false
  readonly #closed = new AbortController()

  constructor(spool: string, place: PeriodicPlace, events: Emitter) {
    this.#spool = spool
    this.#place = place
    this.#events = events
  }

  set(tasks: readonly PeriodicTask[]): void {
    this.#declared = tasks
    this.#tasks?.set(tasks)
    this.#look()
  }

  get #isClosed(): boolean {
    return this.#closed.signal.aborted
  }

  get sync(): boolean {
    return this.#place.sync
  }

  get isEmpty(): boolean {
    return this.#declared.length === 0
  }

  /** Returns each task and when it is scheduled next, epoch ms; null: not known yet. */
  get plan(): PeriodicTasks['plan'] {
    return this.#tasks?.plan ?? []
  }

  /** Stores a run of one task now. @returns the name of the stored task @throws Error why nothing was stored */
  async run(name: string): Promise<string> {
    while (this.#looking !== undefined) await this.#looking
    const task = this.#declared.find(each => each.name === name)
    if (task === undefined || this.#isClosed)
      throw new Error(`this daemon does not schedule ${name} any more`)
    const stored = this.#options().then(options => storeNow(options, task))
    this.#looking = stored.then(
      () => this.#rest(0),
      () => this.#rest(0),
    )
    return stored
  }

  /** Begins nothing more. Resolves when the work that is going on has ended, or after `CLOSE_MS`. */
  async close(): Promise<void> {
    this.#closed.abort()
    this.#alarm.clear()
    if (this.#looking !== undefined) await endOf(this.#looking, CLOSE_MS)
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
        nextMs = await this.#tasks.look(this.#closed.signal)
      }
    } catch (error) {
      this.#events.emit('periodic-failed', { spool: this.#spool, error: messageOf(error) })
    }
    this.#rest(nextMs)
  }

  #rest(ms: number): void {
    this.#looking = undefined
    if (Number.isFinite(ms) && !this.#isClosed) this.#alarm.wakeAt(performance.now() + ms)
  }

  async #open(): Promise<PeriodicTasks> {
    const tasks = new PeriodicTasks(await this.#options())
    tasks.set(this.#declared)
    return tasks
  }

  async #options(): Promise<PeriodicTasksOptions> {
    const spool = this.#spool
    const { engine, sync } = this.#place
    const events = this.#events
    const { periodic, schedulePauses } = await engine.upkeep()
    return {
      states: periodic,
      now: () => ({ epochMs: periodic.nowMs?.() ?? Date.now(), machineMs: machineNowMs(), boot: bootId() }),
      isPaused: async task => (await schedulePauses.read()).has(scheduleHash(task)),
      async store(task, name) {
        const packet = packetOf(task)
        const { path } = await (await engine.enqueuer(sync)).store({ packet, name })
        events.emit('request-stored', { path, bytes: packet.length })
      },
      leftOut: ({ name }, stored) => events.emit('periodic-left-out', { spool, name, stored }),
      damaged: ({ name }) => events.emit('periodic-damaged', { spool, name }),
      failed: error => events.emit('periodic-failed', { spool, error }),
    }
  }
}

/** Returns the packet of a run, which is a named task like any other. */
function packetOf({ name, queue }: PeriodicTask): Buffer {
  const pairs = [
    [TASK_KEY, name],
    [ARGS_KEY, '[]'],
    [ID_KEY, crypto().randomUUID()],
    ...(queue === DEFAULT_QUEUE ? [] : [[QUEUE_KEY, queue]]),
  ]
  return encodePacket(pairs.map(([key = '', value = '']) => [Buffer.from(key), Buffer.from(value)]))
}

let knownBoot: string | undefined

/** Returns the id of this start of the machine. Where it is unknown, each process has an id of its own. */
function bootId(): string {
  knownBoot ??= readBoot() ?? crypto().randomUUID()
  return knownBoot
}

function readBoot(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return undefined
  }
}

type Options = Pick<PeriodicTasksOptions, 'states' | 'now' | 'store'>

/**
 * Stores a run because a person asks for it, and leaves the next regular time alone. This run counts as the task's last run:
 * unless runs may overlap, no other run is stored before it has ended.
 *
 * @returns the name of the stored task
 * @throws Error why nothing was stored
 */
async function storeNow({ states, now, store }: Options, task: PeriodicTask): Promise<string> {
  const { version = 0, entry } = (await states.read()).get(states.keyOf(task.name)) ?? {}
  const last = entry?.task
  const fate = last === undefined ? 'gone' : await states.fateOf(last)
  if (fate === 'waiting' || (fate === 'begun' && !task.overlap))
    throw new Error(
      `its last run, ${last}, has not ended${fate === 'begun' ? ', and it does not overlap' : ''}`,
    )
  const name = states.newTask()
  // the entry comes first, so that only one of several daemons stores the run
  if (!(await states.advance({ ...(entry ?? entryFrom(task, now())), task: name }, version, true)))
    throw new Error('another daemon has just stored a run of it')
  await store(task, name)
  return name
}

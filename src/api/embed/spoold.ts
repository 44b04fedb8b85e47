import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SpooldError } from '../../base/errors.js'
import { EventHub, type LifecycleEvent, type LifecycleEvents } from '../../runtime/tasks/event-hub.js'
import type { AttachedDestinations } from '../../runtime/tasks/queues.js'
import { hasRegistry, REGISTRY, Registry } from '../../runtime/tasks/registry.js'
import type { LoadedHandler } from '../../runtime/worker/load-module.js'
import { placeOfCallOf } from '../tasks/place.js'
import { notTasks, TaskScheduler } from '../tasks/tasks.js'
import type { EmbeddedDaemon } from './embedded-daemon.js'
import { MEMORY, MemoryQueues } from './memory-queues.js'
import {
  checkOptions,
  checkStartOptions,
  mercyOf,
  type SpooldOptions,
  type StartOptions,
  type StopOptions,
  type TaskSource,
} from './options.js'

/**
 * An application: its tasks, where they go, and, once it is started, what runs them.
 *
 * ```ts
 * const spoold = new Spoold({ spooler: '/var/spool/app', queues: { mail: '/var/spool/mail' }, tasks })
 * await spoold.schedule('send-mail', 'joe@example.com')
 * await spoold.start({ concurrency: 50 })
 * ```
 */
export class Spoold extends TaskScheduler {
  readonly [REGISTRY]: Registry
  readonly #options: SpooldOptions
  readonly #place: string
  readonly #memory: MemoryQueues | undefined
  /** The files of the modules that export tasks. */
  readonly #files: readonly string[]
  /** The loaded modules of tasks; undefined until one of them is needed. */
  #modules: Promise<readonly LoadedHandler[]> | undefined
  #areLoaded: boolean
  /** The registries that were given as `Tasks`, not as modules. */
  readonly #given: readonly Registry[]
  readonly #running = new Set<EmbeddedDaemon>()
  /** Calls of `start` whose daemons are not in `#running` yet. */
  readonly #preparing = new Set<Promise<unknown>>()
  readonly #events = new EventHub()

  /** @throws SpooldError TASK_INVALID if two tasks have the same name, or an option is wrong */
  constructor(options: SpooldOptions) {
    super()
    this.#place = placeOfCallOf(new.target as never)
    checkOptions(options, this.#place)
    const { tasks = [], logger: _, namespace, ...destinations } = options
    this.#options = options
    this.#memory = options.spooler === MEMORY ? new MemoryQueues() : undefined
    this[REGISTRY] = new Registry(
      namespace === undefined ? {} : { namespace },
      undefined,
      this.#destinations(destinations),
    )
    const sources: readonly TaskSource[] = isMany(tasks) ? tasks : [tasks]
    this.#files = sources.flatMap(source => fileOf(source) ?? [])
    this.#areLoaded = this.#files.length === 0
    this.#given = sources.flatMap(source => this.#use(source) ?? [])
  }

  /**
   * Runs the application's tasks until `stop`. Resolves once workers are given tasks or, with `block`, once everything is
   * stopped. Several calls may run different queues, each with its own options.
   *
   * @throws SpooldError TASK_INVALID, START_FAILED, QUEUE_UNKNOWN, SPOOL_UNUSABLE, HANDLER_UNLOADABLE; nothing is left running.
   * With `block` and `stopWhenEmpty` also SPOOL_UNUSABLE if a spool on Redis could not be read
   */
  async start(options: StartOptions = {}): Promise<void> {
    checkStartOptions(options)
    const beginning = this.#begin(options)
    this.#preparing.add(beginning)
    const { started } = await beginning.finally(() => this.#preparing.delete(beginning))
    const daemon = await started
    if (options.block !== true) return
    await keepingAlive(daemon.whenStopped)
    if (daemon.fault !== undefined) throw daemon.fault
  }

  /** Resolves when there is a daemon that can be stopped, even if it has not started yet. */
  async #begin(options: StartOptions): Promise<{ readonly started: Promise<EmbeddedDaemon> }> {
    await this.prepare()
    const [{ startDaemon }, given] = [await import('./start.js'), await this.#handlers()]
    const started = startDaemon(options, {
      ...{ options: this.#options, memory: this.#memory, registry: this[REGISTRY], running: this.#running },
      ...{ events: this.#events, files: this.#files, given },
    })
    return { started }
  }

  /**
   * Takes no more tasks, and lets the running ones end. Resolves when they have ended, or when `mercyMs` (60 s by default) is
   * over. Also stops a start that is still in progress.
   *
   * @throws SpooldError TASK_INVALID if `mercyMs` is invalid
   */
  async stop(options: StopOptions = {}): Promise<void> {
    const mercyMs = mercyOf(options)
    await Promise.allSettled(this.#preparing)
    await Promise.all([...this.#running].map(daemon => daemon.stop(mercyMs)))
  }

  /** Listens to events of this application's tasks and workers. */
  on<Name extends LifecycleEvent>(name: Name, listen: (event: LifecycleEvents[Name]) => unknown): this {
    this.#events.on(name, listen)
    return this
  }

  /** As `on`, for the first event alone. */
  once<Name extends LifecycleEvent>(name: Name, listen: (event: LifecycleEvents[Name]) => unknown): this {
    this.#events.once(name, listen)
    return this
  }

  /** Removes a listener. */
  off<Name extends LifecycleEvent>(name: Name, listen: (event: LifecycleEvents[Name]) => unknown): this {
    this.#events.off(name, listen)
    return this
  }

  /** Resolves when everything that runs now has stopped; at once if nothing runs. */
  get whenStopped(): Promise<void> {
    return Promise.all([...this.#running].map(daemon => daemon.whenStopped)).then(() => {})
  }

  /** Loads the modules of tasks, so that tasks can be found by name. */
  protected override prepare(): Promise<void> | undefined {
    if (this.#areLoaded) return undefined
    this.#modules ??= this.#load()
    return this.#modules.then(() => {})
  }

  async #load(): Promise<readonly LoadedHandler[]> {
    const { loadHandler } = await import('../../runtime/worker/load-module.js')
    const modules = await Promise.all(this.#files.map(file => loadHandler(file)))
    const loaded = new Set(modules.flatMap(({ registries }) => registries))
    for (const each of loaded) if (each.parent !== this[REGISTRY]) this[REGISTRY].use(each, this.#place)
    this.#areLoaded = true
    return modules
  }

  /** Returns the tasks for workers in this process. */
  async #handlers(): Promise<LoadedHandler[]> {
    const given = { handler: undefined, registries: this.#given, delivery: undefined }
    return [given, ...((await this.#modules) ?? [])]
  }

  #destinations(destinations: AttachedDestinations): AttachedDestinations {
    const memory = this.#memory
    if (memory === undefined) return destinations
    return { ...destinations, enqueuerOf: queue => memory.enqueuerOf(queue) }
  }

  /** Attaches the registry of a source that is no module. @returns that registry; undefined for a module */
  #use(source: TaskSource): Registry | undefined {
    if (fileOf(source) !== undefined) return undefined
    if (!hasRegistry(source)) throw notTasks(this.#place, source)
    this[REGISTRY].use(source[REGISTRY], this.#place)
    return source[REGISTRY]
  }
}

/** Returns the file of a module; undefined if the source is not a module. @throws SpooldError TASK_INVALID */
function fileOf(source: unknown): string | undefined {
  if (typeof source === 'string' && !source.startsWith('file:')) return resolve(source)
  if (typeof source !== 'string' && !(source instanceof URL)) return undefined
  try {
    return fileURLToPath(source)
  } catch {
    throw new SpooldError('TASK_INVALID', `tasks: expected the URL of a file, got ${source}`)
  }
}

function isMany(tasks: TaskSource | readonly TaskSource[]): tasks is readonly TaskSource[] {
  return Array.isArray(tasks)
}

const LONGEST_MS = 2 ** 31 - 1

/** Resolves after `end`. Keeps this process alive until then, because what waits for tasks in memory does not. */
async function keepingAlive(end: Promise<void>): Promise<void> {
  const alive = setInterval(() => {}, LONGEST_MS)
  await end
  clearInterval(alive)
}

import { MAX_TIMER_MS } from '../../base/clock.js'
import { SpooldError } from '../../base/errors.js'
import { STDERR } from '../../base/log/output.js'
import { durationMs } from '../../base/task/terms.js'
import type { Destination } from '../../engines/client/target.js'
import { HiddenNotes } from '../../engines/hidden-notes.js'
import { type Engine, openEngine } from '../../engines/open-engine.js'
import { Hide } from '../../formats/protocol/hide.js'
import { DEFAULT_QUEUE } from '../../formats/protocol/named.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import { ForkedPort, openAside } from '../../runtime/supervisor/forked-port.js'
import { InProcessPort, ThreadPort } from '../../runtime/supervisor/in-process-port.js'
import type { WorkerPort } from '../../runtime/supervisor/worker-port.js'
import { type CurrentDaemon, isWorker } from '../../runtime/tasks/daemon.js'
import { attachedOf, destinationOf } from '../../runtime/tasks/destinations.js'
import { events as allEvents, type EventHub, watchAll } from '../../runtime/tasks/event-hub.js'
import { DEFAULT_NAMESPACE, tellerOf } from '../../runtime/tasks/lifecycle.js'
import { unknownQueue } from '../../runtime/tasks/queues.js'
import { type Registry, settingsOf } from '../../runtime/tasks/registry.js'
import type { LoadedHandler } from '../../runtime/worker/load-module.js'
import { Worker } from '../../runtime/worker/worker.js'
import { runningAs } from '../tasks/running-as.js'
import { EmbeddedDaemon } from './embedded-daemon.js'
import { logTo } from './logger.js'
import { type MemoryQueues, spoolOf } from './memory-queues.js'
import type { SpooldOptions, StartOptions } from './options.js'
import { type Place, prepared, type Running } from './plan.js'
import { TellingPort } from './telling-port.js'

/** The application that is started, as `startDaemon` needs it. */
export interface Application {
  readonly options: SpooldOptions
  readonly memory: MemoryQueues | undefined
  readonly registry: Registry
  /** The files of the application's modules. */
  readonly files: readonly string[]
  /** The application's tasks, for workers in this process. */
  readonly given: readonly LoadedHandler[]
  /** The daemons that the application runs now. */
  readonly running: Set<EmbeddedDaemon>
  readonly events: EventHub
}

/**
 * Starts a daemon with these options.
 *
 * @throws SpooldError START_FAILED, QUEUE_UNKNOWN, SPOOL_UNUSABLE, HANDLER_UNLOADABLE; nothing is left running
 */
export async function startDaemon(options: StartOptions, app: Application): Promise<EmbeddedDaemon> {
  checkMode(options, app)
  const places = placesOf(options, app)
  const aside = asideOf(options)
  const daemon = new EmbeddedDaemon(places, app.options, options.stopWhenEmpty !== true, aside)
  app.running.add(daemon)
  const disobey = options.block === true ? daemon.obeySignals() : () => {}
  void daemon.whenStopped.then(() => {
    app.running.delete(daemon)
    disobey()
  })
  await daemon.start(place => runningOf(place, options, app))
  if (options.stopWhenEmpty === true) void daemon.stopWhenEmpty()
  return daemon
}

/** @throws SpooldError START_FAILED if the application's tasks cannot run in this mode, or this is a worker itself */
function checkMode({ mode = 'in-process' }: StartOptions, { memory, registry, files }: Application): void {
  if (isWorker() && memory === undefined)
    throw failed('this process is a worker, and its module of tasks calls start; call start in another file')
  if (mode === 'in-process') return
  if (memory !== undefined)
    throw failed(`mode ${mode}: tasks in memory: can only run in this process; expected mode 'in-process'`)
  const [closure] = files.length === 0 ? registry.all() : []
  if (files.length === 0)
    throw failed(
      `mode ${mode}: functions cannot be sent to another ${mode === 'threads' ? 'thread' : 'process'}; ` +
        `expected a module that exports Tasks (tasks: './tasks.js'), got Tasks${closure === undefined ? '' : ` with ${closure.name}, registered at ${closure.place}`}`,
    )
}

/** Returns the spools to run. @throws SpooldError START_FAILED, QUEUE_UNKNOWN, SPOOL_UNUSABLE */
function placesOf({ queue }: StartOptions, app: Application): Place[] {
  const { memory, running } = app
  const directories = memory === undefined ? directoriesOf(app.options) : undefined
  const known = directories === undefined ? queuesIn(app) : [...directories.keys()]
  const wanted = typeof queue === 'string' ? [queue] : (queue ?? known.filter(isLocal))
  if (wanted.length === 0)
    throw failed('no queue of this application has a directory, so there is nothing to run here')
  const busy = wanted.find(each => [...running].some(({ queues }) => queues.includes(each)))
  if (busy !== undefined)
    throw failed(`the queue ${busy} is already running; stop it first, or start other queues`)
  const bySpool = new Map<string, Place>()
  for (const name of wanted) for (const place of placesOfQueue(name)) bySpool.set(place.spool, place)
  return [...bySpool.values()]

  function isLocal(name: string): boolean {
    return directories === undefined || directories.get(name) !== undefined
  }

  function placesOfQueue(name: string): Place[] {
    if (memory !== undefined) return [{ queue: name, spool: spoolOf(name), engine: memory.engineOf(name) }]
    if (directories?.has(name) !== true) throw unknownQueue(name, known, 'new Spoold({ queues: { … } })')
    const found = directories.get(name)
    if (found === undefined)
      throw failed(
        `the queue ${name} goes to the socket of a daemon, which runs it; expected a queue with a directory`,
      )
    return found.map(directory => {
      const spool = prepared(directory)
      if (app.options.hide !== undefined) new HiddenNotes().serve([spool], app.options.hide)
      return { queue: name, spool, engine: openEngine(spool) }
    })
  }
}

/** Returns where the tasks of each queue go. For the default queue, `queues` takes precedence over `spooler` and `socket`. */
function destinationsOf({ spooler, socket, queues = {} }: SpooldOptions): Map<string, Destination> {
  const found = new Map<string, Destination>()
  if (socket !== undefined) found.set(DEFAULT_QUEUE, { socket })
  else if (spooler !== undefined) found.set(DEFAULT_QUEUE, { spooler })
  for (const [queue, place] of Object.entries(queues)) found.set(queue, destinationOf(place))
  return found
}

/** Returns the directories of each queue; undefined for a queue that goes to the socket of a daemon. */
function directoriesOf(options: SpooldOptions): Map<string, readonly string[] | undefined> {
  const all = [...destinationsOf(options)]
  return new Map(
    all.map(([queue, { spooler }]) => [queue, spooler === undefined ? undefined : [spooler].flat()]),
  )
}

/**
 * Returns the queues of an application in memory, where any queue has a spool: the default one, those that tasks name, and those
 * used so far.
 */
function queuesIn({ registry, memory }: Application): string[] {
  const named = Array.from(registry.all(), entry => settingsOf(entry).queue ?? DEFAULT_QUEUE)
  return [...new Set([DEFAULT_QUEUE, ...named, ...(memory?.names ?? [])])]
}

/** Returns what opens a process for aside work; undefined if no other process is to be started. */
function asideOf({ mode }: StartOptions): (() => WorkerPort) | undefined {
  return mode === 'processes' ? () => openAside(STDERR) : undefined
}

function runningOf(place: Place, options: StartOptions, app: Application): Running {
  const { engine } = place
  const telling = tellingOf(place.queue, app)
  const { mode = 'in-process', workers = 1, concurrency = 1, deadline = 0 } = options
  const deadlineMs = Math.min(durationMs(deadline) ?? 0, MAX_TIMER_MS)
  const { hide = [] } = app.options
  const isListenedTo = app.options.logger !== undefined
  if (mode === 'in-process') {
    const names = app.files.length > 0 ? app.files : ['the tasks of this program']
    const enqueuerOf = (queue: string) => attachedOf(queue, app.registry.destination.attached ?? {})
    return {
      processes: 1,
      concurrency: workers * concurrency, // the workers would share one event loop
      chain: [{ kind: 'given', names }],
      ...{ harakiriMs: 0, isListenedTo, hide, targets: [], queues: [] },
      openPort: () => telling(openInProcess({ engine, given: app.given, deadlineMs, enqueuerOf })),
    }
  }
  const { sync = true, namespace } = app.options
  const directories = [...directoriesOf(app.options)].flatMap(([queue, found]) =>
    // workers get addresses with their passwords
    (found ?? []).map(place => [queue, isRedisAddress(place) ? place : prepared(place)] as const),
  )
  return {
    processes: workers,
    concurrency,
    chain: app.files.map(file => ({ kind: 'javascript', file })),
    ...{ harakiriMs: deadlineMs, isListenedTo, hide },
    targets: directories.map(([, directory]) => ({ directory, sync })),
    queues: directories,
    sockets: [...destinationsOf(app.options)].flatMap(([queue, { socket }]) =>
      socket === undefined ? [] : [[queue, socket] as const],
    ),
    ...(namespace === undefined ? {} : { namespace }),
    sharesProcess: mode === 'threads' && workers > 1,
    openPort: () =>
      telling(mode === 'threads' ? new ThreadPort() : new ForkedPort({ logFd: STDERR, areas: [] })),
    openAside: asideOf(options),
  }
}

/** Returns a function that wraps ports, so that listeners to this application and to all applications hear of its runs. */
function tellingOf(queue: string, { options, events }: Application): (port: WorkerPort) => WorkerPort {
  const { namespace = DEFAULT_NAMESPACE, logger } = options
  const hide = new Hide(options.hide ?? [])
  const hubs = [events, allEvents]
  const complain = (message: string) => {
    if (logger === undefined) process.emitWarning(message, 'SpooldWarning')
    else logTo(options).line('error', message)
  }
  const tell = tellerOf(namespace, hubs, complain)
  const watch = (changed: (isHeard: boolean) => void) => watchAll(hubs, changed)
  let number = 0
  return port => new TellingPort(port, { name: `${queue}-${++number}`, queue, tell, watch, hide })
}

function failed(message: string): SpooldError {
  return new SpooldError('START_FAILED', message)
}

/** What a worker in this process needs besides the options that it shares with workers in other processes. */
interface InProcessContext {
  readonly engine: Engine
  readonly given: readonly LoadedHandler[]
  readonly deadlineMs: number
  readonly enqueuerOf: CurrentDaemon['enqueuerOf']
}

/** Opens a worker that lives in this process and changes nothing about the process. */
function openInProcess({ engine, given, deadlineMs, enqueuerOf }: InProcessContext): WorkerPort {
  let daemon: CurrentDaemon = { enqueuerOf, current: () => undefined }
  return new InProcessPort(
    home =>
      new Worker({
        ...home,
        engine,
        shared: { given, deadlineMs, around: call => runningAs(daemon, call) },
        entered(_options, _signals, own) {
          daemon = { enqueuerOf, current: () => own.current() }
        },
      }),
  )
}

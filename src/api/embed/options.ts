import { MAX_TIMER_MS } from '../../base/clock.js'
import { describe, SpooldError } from '../../base/errors.js'
import { durationMs } from '../../base/task/terms.js'
import { nameFault, queueFault } from '../../formats/protocol/named.js'
import type { Destinations } from '../../runtime/tasks/queues.js'
import type { Tasks } from '../tasks/tasks.js'

/** Receives the lines of the log: `console`, a pino logger, or any object with these three methods. */
export interface Logger {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** The options of an application. */
export interface SpooldOptions extends Destinations {
  /**
   * The application's tasks: `Tasks`, or the path or URL of a module that exports them. A path is relative to the current
   * directory.
   */
  readonly tasks?: TaskSource | readonly TaskSource[]
  /**
   * The application's name. It is in its events, and before the names of its tasks (`shop:send-mail`), so that the application
   * runs no tasks of others in the same spool. Default: `default` in events, and nothing before names.
   */
  readonly namespace?: string
  /**
   * Receives the lines of the log. Default: nothing is logged, and what tasks print goes to standard output and standard error.
   */
  readonly logger?: Logger
  /**
   * The keys whose values are hidden in the log, in events, and in what commands show of the application's spools, as with
   * `spooler-hide` of a daemon. Default: nothing is hidden.
   */
  readonly hide?: readonly string[]
}

/** `Tasks`, or the path or URL of a module that exports them. */
export type TaskSource = Tasks | string | URL

const MODES = ['in-process', 'threads', 'processes'] as const

/** Where tasks run: in this process, or in workers that are threads or processes. */
export type Mode = (typeof MODES)[number]

/** The options of `start`: how an application runs its own tasks. */
export interface StartOptions {
  /** The queues to run. Default: all queues of the application whose spools are directories, on Redis or in memory. */
  readonly queue?: string | readonly string[]
  /**
   * Where tasks run: in this process (the default), or in `workers` threads or processes per queue. Threads and processes load
   * the tasks themselves, so `tasks` has to be a module.
   */
  readonly mode?: Mode
  /** The number of threads or processes per queue. In-process, `concurrency` is multiplied by it. Default: 1. */
  readonly workers?: number
  /** How many tasks a worker runs at a time, if they await something. Default: 1. */
  readonly concurrency?: number
  /**
   * The longest time a run may take: seconds, or text such as `'5m'`. In-process, the task's `signal` fires at the deadline. A
   * thread or process is killed at the deadline, which counts as a crash; the `signal` fires up to a second before. Default: no
   * limit.
   */
  readonly deadline?: number | string
  /**
   * If true, `start` resolves only when everything is stopped: by SIGTERM, SIGINT, `stop` or `stopWhenEmpty`. Default: false, and
   * signals are left to the program.
   */
  readonly block?: boolean
  /**
   * If true, stops as soon as no task is due or running. Tasks that are for later do not count, and periodic tasks are not
   * scheduled. Default: false.
   */
  readonly stopWhenEmpty?: boolean
}

/** The options of `stop`. */
export interface StopOptions {
  /**
   * How long running tasks may take to end, in milliseconds. Their signals fire shortly before. Infinity: as long as they need.
   * Default: 60,000.
   */
  readonly mercyMs?: number
}

const OPTIONS = ['spooler', 'socket', 'sync', 'queues', 'tasks', 'namespace', 'logger', 'hide']
const START_OPTIONS = ['queue', 'mode', 'workers', 'concurrency', 'deadline', 'block', 'stopWhenEmpty']

/** @param place where the application was made, for messages @throws SpooldError TASK_INVALID */
export function checkOptions(options: SpooldOptions, place: string): void {
  refuseUnknown(options, OPTIONS, place)
  const { spooler, socket, queues = {}, namespace, logger, hide = [] } = options
  const fault = namespace === undefined ? undefined : nameFault(namespace)
  if (fault !== undefined) throw invalid(`${place}: namespace must be ${fault}, got ${describe(namespace)}`)
  if (spooler === undefined && socket === undefined && Object.keys(queues).length === 0)
    throw invalid(`${place}: expected spooler, socket or queues, which say where tasks go`)
  for (const [queue, where] of Object.entries(queues)) {
    const fault = queueFault(queue)
    if (fault !== undefined)
      throw invalid(`${place}: a queue's name must be ${fault}, got ${describe(queue)}`)
    if (typeof where !== 'string' || where === '')
      throw invalid(`${place}: queue ${queue}: expected a directory or an address, got ${describe(where)}`)
  }
  for (const level of ['info', 'warn', 'error'] as const)
    if (logger !== undefined && typeof logger?.[level] !== 'function')
      throw invalid(`${place}: logger must have functions info, warn and error, got ${describe(logger)}`)
  if (!Array.isArray(hide) || !hide.every(key => typeof key === 'string'))
    throw invalid(`${place}: hide must be a list of keys, such as ['password'], got ${describe(hide)}`)
}

/** @throws SpooldError TASK_INVALID */
export function checkStartOptions(options: StartOptions): void {
  refuseUnknown(options, START_OPTIONS, 'start')
  const { mode = 'in-process', workers = 1, concurrency = 1, deadline = 0 } = options
  if (!MODES.includes(mode))
    throw invalid(`start: mode must be one of ${MODES.join(', ')}, got ${describe(mode)}`)
  for (const [name, value] of Object.entries({ workers, concurrency }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw invalid(`start: ${name} must be a whole number from 1, got ${describe(value)}`)
  if (durationMs(deadline) === undefined)
    throw invalid(`start: deadline must be seconds, or text such as '5m', got ${describe(deadline)}`)
}

/** Returns milliseconds; undefined for the default. @throws SpooldError TASK_INVALID */
export function mercyOf({ mercyMs }: StopOptions): number | undefined {
  if (mercyMs === undefined) return undefined
  if (typeof mercyMs === 'number' && mercyMs >= 0) return Math.min(mercyMs, MAX_TIMER_MS)
  throw invalid(`stop: mercyMs must be milliseconds, or Infinity, got ${describe(mercyMs)}`)
}

function refuseUnknown(options: object, known: readonly string[], place: string): void {
  const unknown = Object.keys(options).find(name => !known.includes(name))
  if (unknown !== undefined)
    throw invalid(`${place}: there is no option ${unknown}; expected one of ${known.join(', ')}`)
}

function invalid(message: string): SpooldError {
  return new SpooldError('TASK_INVALID', message)
}

import { MAX_TIMER_MS } from '../../base/clock.js'
import { describe, SpooldError } from '../../base/errors.js'
import { parseDuration } from '../../base/time-text.js'
import { nameFault, queueFault } from '../../formats/protocol/named.js'
import type { Destinations } from '../../runtime/tasks/queues.js'
import type { Tasks } from '../tasks/tasks.js'

/** Where the lines of the log go: `console`, pino, or anything with these three. */
export interface Logger {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** What an application says once. */
export interface SpooldOptions extends Destinations {
  /** The tasks that go there: `Tasks`, or the path or URL of a module that exports them. A path is relative to the current directory. */
  readonly tasks?: TaskSource | readonly TaskSource[]
  /**
   * The application's name: in its events, and before the names of its tasks, so that it runs no tasks of others in the same
   * spool. Default: `default` in events, and nothing before names.
   */
  readonly namespace?: string
  /** Default: nothing is logged. */
  readonly logger?: Logger
  /**
   * The values of these keys are in no line of the log, in no event, and in nothing that commands say of its spools; as
   * `spooler-hide` of a daemon. Default: nothing is hidden.
   */
  readonly hide?: readonly string[]
}

/** `Tasks`, or a module that exports them. */
export type TaskSource = Tasks | string | URL

const MODES = ['in-process', 'threads', 'processes'] as const

/** Where tasks run: in this process, or in workers of their own. */
export type Mode = (typeof MODES)[number]

/** How an application runs its own tasks. */
export interface StartOptions {
  /** The queues to run. Default: all of the application whose spools are directories. */
  readonly queue?: string | readonly string[]
  /**
   * Where tasks run: in this process (the default), or in `workers` threads or processes for each queue. Those load the
   * tasks themselves, so `tasks` has to be a module.
   */
  readonly mode?: Mode
  /** Default: 1. */
  readonly workers?: number
  /** How many tasks a worker runs at a time, if they await something. Default: 1. In-process that is multiplied by `workers`. */
  readonly concurrency?: number
  /**
   * How long a run may take: seconds, or text such as `'5m'`. In-process its `signal` fires then; a thread or process is
   * killed then, which counts as a crash, and its signal fires up to a second before. Default: no limit.
   */
  readonly deadline?: number | string
  /** Wait until everything is stopped: by SIGTERM, SIGINT, `stop` or `stopWhenEmpty`. Default: false. */
  readonly block?: boolean
  /** Stop as soon as nothing is due. Tasks of a later time do not count. */
  readonly stopWhenEmpty?: boolean
}

/** How an application stops running tasks. */
export interface StopOptions {
  /** How long running tasks may take to end: their signals fire shortly before. Infinity: as long as they need. Default: 60,000. */
  readonly mercyMs?: number
}

const OPTIONS = ['spooler', 'socket', 'sync', 'queues', 'tasks', 'namespace', 'logger', 'hide']
const START_OPTIONS = ['queue', 'mode', 'workers', 'concurrency', 'deadline', 'block', 'stopWhenEmpty']

/** @param place where it was called, for messages @throws SpooldError TASK_INVALID */
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

export function durationMs(value: number | string): number | undefined {
  const ms = typeof value === 'number' ? value * 1000 : parseDuration(value)
  return ms !== undefined && ms >= 0 && Number.isFinite(ms) ? Math.min(ms, MAX_TIMER_MS) : undefined
}

/** @throws SpooldError TASK_INVALID */
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

import { constants } from 'node:os'
import { inspect, types } from 'node:util'

/**
 * Every error that spoold raises on purpose, by its stable code. docs/errors.md explains each one, and a test keeps the
 * two in sync. Callers may match on `code`, never on the message.
 */
export const ERROR_CATALOGUE = {
  CONFIG_INVALID: 'The configuration has errors; the message lists each with its file and line.',
  SPOOL_UNUSABLE:
    'A spool directory cannot be used; the message says which check failed and the command that fixes it.',
  LOCKS_UNUSABLE: 'The requested kind of lock does not work in this directory.',
  HANDLER_UNLOADABLE: 'A handler file could not be loaded, or exports no function.',
  ALGORITHM_UNLOADABLE: 'The file of a `cheaper-algo` could not be loaded, or exports no function.',
  PIDFILE_HELD: 'Another running spoold holds the pidfile.',
  USER_UNKNOWN: 'The user or group to run as does not exist, or this process may not become it.',
  LOG_UNWRITABLE: 'The log file could not be opened.',
  START_FAILED: 'The daemon could not start; the message says what failed.',
  USAGE: 'The command line is wrong.',
  FILE_UNREADABLE: 'A file named on the command line could not be read.',
  OUTPUT_FAILED: 'The output of a command could not be written; the message says why.',
  SYSTEM_REFUSED:
    'The operating system refused an operation: disk full, permission denied, too many open files, or read-only.',
  REQUEST_INVALID: 'The task is invalid; the message names the key, the limit and the value given.',
  SPOOLER_UNKNOWN: 'The spooler named by the task is not one of the allowed ones.',
  SPOOL_FULL:
    'A task could not be stored, because the file system is full; nothing of it is left in the spool.',
  ENQUEUE_FAILED: 'A task could not be stored; nothing of it is left in the spool.',
  BATCH_INCOMPLETE: 'Some tasks of a batch could not be stored; the error has one result per task.',
  BATCH_USED: 'A batch of named tasks was used a second time.',
  TASK_INVALID: 'A task is defined wrongly: its name, an option, or a name that another task has.',
  TASK_UNKNOWN: 'No task of this name, or with this function, is registered; nothing was stored.',
  ARGUMENTS_INVALID:
    'The arguments of a task are too few, too many, not what JSON can carry, or not what its schema takes.',
  QUEUE_UNKNOWN: 'A queue has no spool; nothing was stored.',
  DESTINATION_MISSING: 'Nothing says where tasks go; the message has the three ways to say it.',
  ADDRESS_INVALID: 'Not a valid socket address.',
  SOCKET_UNUSABLE: 'Could not open a listening socket; the message says why.',
  SOCKET_UNREACHABLE: 'No connection to the daemon; nothing was stored.',
  SOCKET_REFUSED: 'The daemon refused the task; nothing was stored.',
  SOCKET_UNANSWERED: 'The connection was lost before the reply; the task may have been stored.',
  REDIS_UNREACHABLE: 'No connection to Redis; nothing was stored.',
  REDIS_UNANSWERED: 'The connection to Redis was lost before its reply; the task may have been stored.',
  REDIS_REFUSED:
    'Redis refuses tasks or a command now: it is full, read-only or loading, or its ACL forbids it; nothing was stored.',
  REDIS_UNREPLICATED: 'The task is stored, but not enough replicas have it yet.',
  NOT_ON_REDIS: 'A command, an option or a kind of task does not work in a spool on Redis.',
  LIBRARY_MISSING:
    'An optional package is not installed, or has the wrong version; the message has the command.',
  SOCKET_BODYLESS: 'The server does not accept bodies; nothing was sent.',
  PACKET_MALFORMED: 'Not a valid uwsgi spool packet.',
  SIGNAL_INVALID: 'A signal, its handler or its trigger is invalid.',
  SIGNAL_REFUSED: 'The daemon refused a signal; its log says why.',
  SCHEDULE_INVALID: 'A cron expression, or its time zone, is invalid.',
  NOT_IN_A_WORKER: 'A function reserved for handler modules was called by another program.',
  CLAIM_LOST: 'The lock on a running task was lost, or the task was used after it was settled.',
} as const

/** The values of `SpooldError.code`; docs/errors.md explains each. */
export type ErrorCode = keyof typeof ERROR_CATALOGUE

/** The only error class: a stable `code`, a sentence for people, the cause, and details (sizes, keys, paths). */
export class SpooldError extends Error {
  override readonly name = 'SpooldError'
  readonly code: ErrorCode
  readonly details: Readonly<Record<string, unknown>>

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; details?: Record<string, unknown> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.details = options.details ?? {}
  }
}

/**
 * Converts any thrown value to an Error whose name and message are text: handlers throw strings, numbers and undefined too,
 * and errors to which they have assigned the fields of an answer. Never throws.
 */
export function toError(thrown: unknown): Error {
  try {
    if (!isError(thrown))
      return withoutPlace(typeof thrown === 'string' ? thrown : `a handler threw ${contentOf(thrown)}`)
    const { name, message } = thrown
    if (typeof name === 'string' && typeof message === 'string') return thrown
    const readable = new Error(typeof message === 'string' ? message : `its message is ${describe(message)}`)
    return Object.assign(readable, { stack: thrown.stack })
  } catch {
    return new Error('a handler threw what cannot be read')
  }
}

/** True for an Error of any realm: Jest and `vm` have realms of their own. */
export function isError(value: unknown): value is Error {
  return value instanceof Error || types.isNativeError(value)
}

/** Makes an error without a place in its stack: the place would be in our code, and say nothing. */
function withoutPlace(message: string): Error {
  const error = new Error(message)
  error.stack = `Error: ${message}`
  return error
}

const UNREADABLE = 'which cannot be read'

/** Describes a value and, if it is an object, what is in it. */
function contentOf(thrown: unknown): string {
  const what = describe(thrown)
  if (typeof thrown !== 'object' || thrown === null || what.includes(UNREADABLE)) return what
  try {
    const text = inspect(thrown, { depth: 2, breakLength: Number.POSITIVE_INFINITY })
    return `${what}: ${text.length > 500 ? `${text.slice(0, 497)}...` : text}`
  } catch {
    return what
  }
}

/** A short description of any value, for "got …" in messages. Never throws. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}...` : value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' && value !== null ? `an object (${classOf(value)})` : String(value)
}

function classOf(value: object): string {
  try {
    const name = value.constructor?.name ?? 'no prototype'
    // the constructor of a generator has an empty name
    return String(name || Object.prototype.toString.call(value).slice('[object '.length, -1))
  } catch {
    return UNREADABLE
  }
}

/** Returns what a look finds, or `otherwise` if the look throws: what it looks at may be gone by now, or closed to this user. */
export function quietly<T>(look: () => T): T | undefined
export function quietly<T, Otherwise>(look: () => T, otherwise: Otherwise): T | Otherwise
export function quietly(look: () => unknown, otherwise?: unknown): unknown {
  try {
    return look()
  } catch {
    return otherwise
  }
}

/** What Node calls errors that it does not know, such as EDQUOT and ESTALE: in the code of an error, and twice in its message. */
const NAMELESS = /^(?:UNKNOWN|Unknown system error -\d+)$/
const NAMELESS_TWICE = /^(?:UNKNOWN: unknown error|(Unknown system error -\d+): \1)(?=,)/

/** The errno name of a file-system error ("ENOENT"), or undefined for any other value. */
export function errnoOf(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined
  const { code } = thrown
  if (typeof code !== 'string') return undefined
  if (!NAMELESS.test(code) || !('errno' in thrown)) return code
  const number = Math.abs(Number(thrown.errno))
  return Object.entries(constants.errno).find(([, each]) => each === number)?.[0] ?? code
}

/** Returns an error's message in one line: "EACCES: permission denied, open '/x'". */
export function messageOf(thrown: unknown): string {
  const error = toError(thrown)
  if (error.message !== '')
    return error.message.replace(NAMELESS_TWICE, nameless => errnoOf(thrown) ?? nameless)
  // Node throws an AggregateError when a connection failed at several addresses
  const reasons = error instanceof AggregateError ? [...new Set(error.errors.map(messageOf))] : []
  return reasons.join('; ') || (errnoOf(error) ?? error.name)
}

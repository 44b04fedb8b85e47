/**
 * Every error that spoold raises on purpose, by its stable code. docs/errors.md explains each one and a test holds the
 * two together; a caller may match on `code`, never on the message.
 */
export const ERROR_CATALOGUE = {
  CONFIG_INVALID: 'The configuration has errors; the message lists each with its file and line.',
  SPOOL_UNUSABLE:
    'A spool directory cannot be used; the message says which check failed and the command that fixes it.',
  LOCKS_UNUSABLE: 'The lock kind asked for does not work in this directory.',
  HANDLER_UNLOADABLE: 'A handler file could not be loaded, or exports no function.',
  PIDFILE_HELD: 'Another running spoold holds the pidfile.',
  USER_UNKNOWN: 'The user or group to run as does not exist, or this process may not become it.',
  LOG_UNWRITABLE: 'The log file could not be opened.',
  START_FAILED: 'The daemon could not start; the message says what failed.',
  USAGE: 'The command line is wrong.',
  FILE_UNREADABLE: 'A file named on the command line could not be read.',
  OUTPUT_FAILED: 'What a command prints could not be written; the message says why.',
  SYSTEM_REFUSED:
    'The operating system refused what a command needs: no room, no rights, no descriptors, or read-only.',
  REQUEST_INVALID:
    'A task cannot be written as asked; the message names the key, the limit and what was given.',
  SPOOLER_UNKNOWN: 'The spooler that a task names is none of those that are allowed here.',
  SPOOL_FULL: 'A task could not be stored, because there is no room; nothing of it is left in the spool.',
  ENQUEUE_FAILED: 'A task could not be stored; nothing of it is left in the spool.',
  BATCH_INCOMPLETE: 'Some tasks of a batch could not be stored; the error has a result for each.',
  ADDRESS_INVALID: 'An address of a socket is none.',
  SOCKET_UNUSABLE: 'A socket to listen on could not be had; the message says why.',
  SOCKET_UNREACHABLE: 'No connection to the daemon; nothing was stored.',
  SOCKET_REFUSED: 'The daemon refused the task; nothing was stored.',
  SOCKET_UNANSWERED: 'The connection broke before the answer; the task may have been stored.',
  SOCKET_BODYLESS: 'The server at the other end takes no bodies; nothing was sent.',
  PACKET_MALFORMED: 'Bytes that should be a uwsgi spool packet are not one.',
  SIGNAL_INVALID: 'A signal, its handler or what raises it was asked for in a wrong way.',
  SIGNAL_REFUSED: 'The daemon did not take a signal; its log says why.',
  SCHEDULE_INVALID: 'A cron expression, or the time zone of one, is none.',
  NOT_IN_A_WORKER: 'A function that only handler modules may call was called by some other program.',
  CLAIM_LOST: 'The lock on a running task was lost, or the task was used after it was settled.',
} as const

export type ErrorCode = keyof typeof ERROR_CATALOGUE

/** The one error class: a stable `code`, a sentence for people, the cause, and what was measured (sizes, keys, paths). */
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

/** Whatever was thrown, as an Error: handlers throw strings, numbers and undefined too. */
export function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown
  return new Error(typeof thrown === 'string' ? thrown : `a handler threw ${describe(thrown)}`)
}

/** A short, never-throwing picture of any value, for "got …" in messages. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}...` : value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null)
    return `an object (${value.constructor?.name ?? 'no prototype'})`
  return String(value)
}

/** The errno name of a file-system error ("ENOENT"), or undefined for any other value. */
export function errnoOf(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined
  return typeof thrown.code === 'string' ? thrown.code : undefined
}

/** One line: "EACCES: permission denied, open '/x'". */
export function messageOf(thrown: unknown): string {
  const error = toError(thrown)
  if (error.message !== '') return error.message
  // a connection that was tried at several addresses
  const reasons = error instanceof AggregateError ? [...new Set(error.errors.map(messageOf))] : []
  return reasons.join('; ') || (errnoOf(error) ?? error.name)
}

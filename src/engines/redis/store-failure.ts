import { messageOf, SpooldError, toError } from '../../base/errors.js'
import type { Connection } from './connection.js'

/** Matches what Redis answers for reasons of its own, which end: it is full, read-only, loading, or lets nobody in. */
const REFUSED =
  /^(?:ERR Error running script.*-)?(OOM|ERR ACL failure|ERR The user executing the script|READONLY|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|NOPERM|NOAUTH|BUSY|EXECABORT)\b/
/** What the client puts before the answer of a cluster, once it has asked often enough. */
const IN_VAIN = /^Too many Cluster redirections\. Last error: (?:ReplyError: )?/
/** Matches if the connection was about to end, so that nothing was sent. */
const UNSENT = /^Stream isn't writeable/
const LOST = /timed out|timeout|closed|ended|ECONN|EPIPE|max retries per request|^Stream isn't writeable/i
const AWAY: ReadonlySet<string> = new Set([
  'REDIS_UNREACHABLE',
  'REDIS_UNANSWERED',
  'REDIS_REFUSED',
  'REDIS_UNREPLICATED',
])

/**
 * True if Redis, or BullMQ here, cannot read something as a job: its key has another type, its count of starts is no number, or
 * too large, or its fields are not JSON of the form that BullMQ writes. Whoever may write to Redis can store that.
 */
export function isUnreadable(error: unknown): boolean {
  return (
    error instanceof SyntaxError ||
    error instanceof TypeError ||
    /^WRONGTYPE\b|^ERR hash value is not an integer|^ERR increment or decrement would overflow/.test(
      firstOf(error).message,
    )
  )
}

/** Turns the error of an unreadable value into null, as for a missing value. @throws any other error */
export function unlessUnreadable(error: unknown): null {
  if (isUnreadable(error)) return null
  throw error
}

/** True if Redis does nothing now, whatever it is asked. */
export function isRefusal(error: unknown): boolean {
  return REFUSED.test(firstOf(error).message.replace(IN_VAIN, ''))
}

/** True if the connection was ending already, although it looked ready, so that this was not sent. */
export function isUnsent(error: unknown): boolean {
  return UNSENT.test(firstOf(error).message)
}

/** True if the connection has ended: the next one may be had at once, and says why if it is not. */
export function hasEnded(error: unknown): boolean {
  return !(error instanceof SpooldError) && /closed|ended|ECONNRESET|EPIPE/.test(firstOf(error).message)
}

/** True if the task is not to blame: it can be stored later, or elsewhere. */
export function isAway(error: unknown): error is SpooldError {
  return error instanceof SpooldError && AWAY.has(error.code)
}

/** Returns, for people, what Redis, or the client on the way there, says of a command that was not carried out. */
export function whyNot(thrown: unknown): string {
  const { message } = firstOf(thrown)
  if (thrown instanceof SpooldError || !LOST.test(message)) return withHint(messageOf(firstOf(thrown)))
  return 'the connection ended before it answered; it is tried again at least every second (spoold doctor app.ini examines it)'
}

/** True if Redis lets nobody in, or not this user, which does not end by itself. @param why as people are told */
function isLockedOut(why: string): boolean {
  return /\b(NOAUTH|WRONGPASS|NOPERM)\b/.test(why)
}

/** Returns how unlikely a fault is to end by itself: 0, 1 or 2. @param why as people are told */
export function weightOf(why: string): number {
  if (isLockedOut(why)) return 2
  return REFUSED.test(why) && !/^(LOADING|BUSY)\b/.test(why) ? 1 : 0
}

/** Matches if the user of an ACL lacks a right, which in a script Redis does not name. */
const NO_RIGHT = /\bNOPERM\b|ACL failure|The user executing the script/
/** What `ls`, `show`, `status` and the like need: no right of `+@read` lets a user call scripts, or ask for the time in them. */
const RIGHTS =
  'to look at tasks takes ACL SETUSER USER +@read +eval +evalsha +time +info, all else +@all -@dangerous +info'

/**
 * Says where the command is named that a user lacks the right to, because Redis names none that a script calls; and how a cluster
 * is addressed that was taken for a single Redis.
 */
function withHint(message: string): string {
  if (/^(CROSSSLOT|MOVED)\b/.test(message))
    return `${message} (the address of a spool in a cluster begins with redis+cluster: or rediss+cluster:)`
  return NO_RIGHT.test(message)
    ? `${message} (spoold doctor app.ini names what its user may not do)`
    : message
}

const CLIENT = /^(Connection is closed|Command timed out|Socket timeout|Stream isn't writeable)/

/**
 * Returns the error of Redis or its client in words for the person whose command failed; undefined: the error is from neither of
 * them.
 */
export function serverFault(thrown: unknown): SpooldError | undefined {
  const cause = firstOf(thrown)
  const { name, message } = cause
  if (name === 'ReplyError') {
    const hint = NO_RIGHT.test(message) ? RIGHTS : 'spoold doctor app.ini examines it'
    return new SpooldError('REDIS_REFUSED', `Redis refuses: ${message} (${hint})`, { cause })
  }
  if (name !== 'MaxRetriesPerRequestError' && !CLIENT.test(message)) return undefined
  return new SpooldError('REDIS_UNREACHABLE', 'the connection to Redis ended before it answered', { cause })
}

/** Runs an operation. @throws what Redis or its client says, in words for people */
export async function inWords<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    throw serverFault(error) ?? error
  }
}

/** Returns why a task was not stored. @param wasSent true if the task was sent, so that it may be stored */
export function storeFailure(
  { name, fault, isReady }: Connection,
  thrown: unknown,
  wasSent = true,
): SpooldError {
  if (thrown instanceof SpooldError) return thrown
  const cause = firstOf(thrown)
  const { message } = cause
  if (isRefusal(cause))
    return new SpooldError('REDIS_REFUSED', `${name} takes no tasks now: ${withHint(message)}`, { cause })
  if (isReady && !LOST.test(message))
    return new SpooldError('ENQUEUE_FAILED', `${name}: ${withHint(message)}`, { cause })
  if (!wasSent) return new SpooldError('REDIS_UNREACHABLE', fault, { cause })
  return new SpooldError('REDIS_UNANSWERED', `${fault}; the task may have been stored`, { cause })
}

/** Returns why a transaction was given up; any other error as it is. */
function firstOf(thrown: unknown): Error {
  const error = toError(thrown)
  const previous =
    'previousErrors' in error && Array.isArray(error.previousErrors) ? error.previousErrors : []
  const [first] = previous.filter(each => each instanceof Error)
  return first ?? error
}

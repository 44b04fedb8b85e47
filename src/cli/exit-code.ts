import { errnoOf, SpooldError } from '../base/errors.js'
import { EX_IOERR } from './output.js'

/** sysexits.h: what a script may want to tell apart. */
const EX_USAGE = 64
const EX_TEMPFAIL = 75

/** Failures that may be over in a moment. */
const PASSING = new Set([
  'EAGAIN',
  'EBUSY',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'ESTALE',
  'ETIMEDOUT',
])

/**
 * The exit code of a command that failed: 64 it was asked for wrongly, 74 its output could not be
 * written, 75 the same may work later, 1 all else.
 */
export function commandExitCode(error: unknown): number {
  if (!(error instanceof SpooldError)) return 1
  switch (error.code) {
    case 'USAGE':
    case 'REQUEST_INVALID':
    case 'SPOOLER_UNKNOWN':
    case 'ADDRESS_INVALID':
    case 'SIGNAL_INVALID':
      return EX_USAGE
    case 'OUTPUT_FAILED':
      return EX_IOERR
    case 'SPOOL_FULL':
    case 'SIGNAL_REFUSED':
    case 'SOCKET_UNREACHABLE':
    case 'SOCKET_UNANSWERED':
      return EX_TEMPFAIL
    case 'BATCH_INCOMPLETE':
      return commandExitCode(error.cause)
    case 'ENQUEUE_FAILED':
    case 'SYSTEM_REFUSED':
      return PASSING.has(errnoOf(error.cause) ?? '') ? EX_TEMPFAIL : 1
    default:
      return 1
  }
}

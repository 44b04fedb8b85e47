import { errnoOf, SpooldError } from '../../base/errors.js'
import { EX_IOERR } from './output.js'

/** From sysexits.h, so that scripts can distinguish failures. */
export const EX_USAGE = 64
const EX_TEMPFAIL = 75

/** The errors of the system that may pass. */
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
 * Returns the exit code of a failed command: 64 for wrong usage, 74 if its output could not be written, 75 if a retry may
 * succeed, 1 for everything else.
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
    case 'REDIS_UNREACHABLE':
    case 'REDIS_UNANSWERED':
    case 'REDIS_REFUSED':
    case 'REDIS_UNREPLICATED':
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

/** Turns an error of Redis or its client into a SpooldError, because it is no bug of ours; returns any other error unchanged. */
export async function ofServer(thrown: unknown): Promise<unknown> {
  if (thrown instanceof SpooldError) return thrown
  const { serverFault } = await import('../../engines/redis/store-failure.js')
  return serverFault(thrown) ?? thrown
}

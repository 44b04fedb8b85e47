import { describe, SpooldError } from '../../base/errors.js'
import { MAX_SIGNAL } from '../../base/task/schedule.js'
import { parseAddress } from '../../formats/protocol/address.js'
import { SIGNAL_MODIFIER } from '../../formats/protocol/header.js'
import { SocketConnection } from './socket-connection.js'

const TIMEOUT_MS = 4000

/**
 * Raises a signal in a daemon, from any program: `await sendSignal(17, { socket: '/run/app.sock' })`, as `uwsgi --signal` and
 * `uwsgi.signal(17, address)` do. A uWSGI accepts it as well. Resolves when the signal is accepted, which says nothing about its
 * handler. Connecting and the answer may take 4 s each.
 *
 * @param number from 0 to 255
 * @throws SpooldError SIGNAL_INVALID, ADDRESS_INVALID, SOCKET_UNREACHABLE, SOCKET_UNANSWERED, SIGNAL_REFUSED
 */
export async function sendSignal(number: number, { socket }: { readonly socket: string }): Promise<void> {
  if (!Number.isInteger(number) || number < 0 || number > MAX_SIGNAL)
    throw new SpooldError(
      'SIGNAL_INVALID',
      `expected a signal number from 0 to ${MAX_SIGNAL}, got ${describe(number)}`,
    )
  const connection = await SocketConnection.open(parseAddress(socket), {
    connectTimeoutMs: TIMEOUT_MS,
    timeoutMs: TIMEOUT_MS,
    idleMs: TIMEOUT_MS,
  })
  try {
    await connection.request(Buffer.of(SIGNAL_MODIFIER, 0, 0, number))
  } catch (error) {
    throw meant(error, number, socket)
  } finally {
    connection.end()
  }
}

/** Returns the error in the words of signals, because the connection's errors are about tasks. */
function meant(error: unknown, number: number, socket: string): unknown {
  if (!(error instanceof SpooldError)) return error
  const options = { cause: error, details: { address: socket } }
  if (error.code === 'SOCKET_REFUSED')
    return new SpooldError('SIGNAL_REFUSED', `${socket} rejected signal ${number}; its log says why`, options)
  if (error.code === 'SOCKET_UNANSWERED')
    return new SpooldError(
      'SOCKET_UNANSWERED',
      `${socket} did not answer; signal ${number} may have been taken (a uWSGI needs its signal plugin)`,
      options,
    )
  return error
}

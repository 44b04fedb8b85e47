import { SpooldError, toError } from '../base/errors.js'
import type { WriteResult } from '../engines/directory/enqueuer.js'
import type { Request, Stored } from '../task/request.js'
import { openSocketTransport, type SocketTransport } from './socket-client.js'

/** A daemon's socket, as a place where tasks go. The connection closes by itself when it is not used. */
export class SocketDestination {
  readonly directory: string
  readonly #transport: SocketTransport

  /** @throws SpooldError ADDRESS_INVALID */
  constructor(address: string) {
    this.directory = address
    this.#transport = openSocketTransport(address)
  }

  async store(request: Request): Promise<Stored> {
    if (request.id !== undefined) throw notOverSocket('an id', 'id')
    return { path: await this.#transport.enqueue(request), isDuplicate: false }
  }

  storeSync(): Stored {
    throw notOverSocket('to store without waiting', 'socket')
  }

  /** The packets are sent one behind the other, without waiting for the answers. */
  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<WriteResult[]> {
    if (isAllOrNothing) throw notOverSocket('all or nothing', 'allOrNothing')
    return Promise.all(
      requests.map(request =>
        this.store(request).then(
          (stored): WriteResult => ({ stored }),
          (error: unknown): WriteResult => ({ error: toError(error) }),
        ),
      ),
    )
  }
}

function notOverSocket(what: string, key: string): SpooldError {
  return new SpooldError(
    'REQUEST_INVALID',
    `${what} needs the spool directory; over a socket it cannot be had`,
    { details: { key } },
  )
}

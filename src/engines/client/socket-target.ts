import { SpooldError, toError } from '../../base/errors.js'
import type { Request, Stored } from '../../base/task/request.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { openSocketClient, type SocketClient } from './socket-client.js'

/** A daemon's socket as a destination of tasks. The connection closes by itself when it is idle. */
export class SocketDestination implements Enqueuer {
  readonly name: string
  readonly #transport: SocketClient

  /** @throws SpooldError ADDRESS_INVALID */
  constructor(address: string) {
    this.name = address
    this.#transport = openSocketClient(address)
  }

  async store(request: Request): Promise<Stored> {
    if (request.id !== undefined) throw notOverSocket('an id', 'id')
    return { path: await this.#transport.enqueue(request), isDuplicate: false }
  }

  /** The packets are sent one after the other, without waiting for the replies. */
  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<StoreResult[]> {
    if (isAllOrNothing) throw notOverSocket('all or nothing', 'allOrNothing')
    return Promise.all(
      requests.map(request =>
        this.store(request).then(
          (stored): StoreResult => ({ stored }),
          (error: unknown): StoreResult => ({ error: toError(error) }),
        ),
      ),
    )
  }
}

export function notOverSocket(what: string, key: string): SpooldError {
  return new SpooldError(
    'REQUEST_INVALID',
    `${what} needs a spool directory; it is not available over a socket`,
    { details: { key } },
  )
}

import type { Request } from '../../base/task/request.js'
import type { WireRequest } from '../../formats/protocol/request-vars.js'
import type { ByteBudget } from './byte-budget.js'

/** uWSGI's replies (plugins/spooler, plugins/ping, plugins/signal). A signal is accepted even without a handler. */
export const STORED = Buffer.of(255, 0, 0, 1)
export const REFUSED = Buffer.of(255, 0, 0, 0)
export const PONG = Buffer.of(100, 0, 0, 1)

export interface StoreActions {
  readonly budget: ByteBudget
  /** Stores a request if that is possible without waiting. @returns whether it did. @throws SpooldError if it is refused */
  storeAtOnce(request: Request, spooler: Buffer | undefined): boolean
  /**
   * @param bodyBytes the size of the request's body
   * @throws SpooldError if it is refused
   */
  store(request: Request, spooler: Buffer | undefined, bodyBytes: number): Promise<void>
  refused(peer: string, error: unknown): void
}

/** Stores the requests of a connection, and determines the replies. */
export class Answers {
  readonly #actions: StoreActions
  readonly #peer: { readonly name: string }

  constructor(actions: StoreActions, peer: { readonly name: string }) {
    this.#actions = actions
    this.#peer = peer
  }

  /** The reply to a request without a body; not a promise if the request can be stored without waiting. */
  to(wire: WireRequest): Buffer | Promise<Buffer> {
    try {
      if (this.#actions.storeAtOnce(wire.request, wire.spooler)) return STORED
    } catch (error) {
      return this.refusal(error)
    }
    return this.#inTurn(wire)
  }

  /** The reply to a request with a body. */
  async toBodied({ spooler, bodyBytes }: WireRequest, request: Request): Promise<Buffer> {
    try {
      await this.#actions.store(request, spooler, bodyBytes)
      return STORED
    } catch (error) {
      return this.refusal(error)
    }
  }

  refusal(error: unknown): Buffer {
    this.#actions.refused(this.#peer.name, error)
    return REFUSED
  }

  async #inTurn(wire: WireRequest): Promise<Buffer> {
    const { packet } = wire.request
    await this.#actions.budget.take(packet.length)
    try {
      return await this.toBodied(wire, wire.request)
    } finally {
      this.#actions.budget.give(packet.length)
    }
  }
}

import type { WireRequest } from '../protocol/request-vars.js'
import type { Request } from '../task/request.js'
import type { ByteBudget } from './byte-budget.js'

/** uWSGI's answers (plugins/spooler, plugins/ping, plugins/signal). A signal without handler is taken all the same. */
export const STORED = Buffer.of(255, 0, 0, 1)
export const REFUSED = Buffer.of(255, 0, 0, 0)
export const PONG = Buffer.of(100, 0, 0, 1)

export interface StoreActions {
  readonly budget: ByteBudget
  /** Stores what needs no waiting. @returns whether it did. @throws SpooldError why there is no task */
  storeAtOnce(request: Request, spooler: Buffer | undefined): boolean
  /**
   * @param bodyBytes how long the request's body is
   * @throws SpooldError why there is no task
   */
  store(request: Request, spooler: Buffer | undefined, bodyBytes: number): Promise<void>
  refused(peer: string, error: unknown): void
}

/** Stores what a connection asks for, and says what that is answered. */
export class Answers {
  readonly #actions: StoreActions
  readonly #peer: { readonly name: string }

  constructor(actions: StoreActions, peer: { readonly name: string }) {
    this.#actions = actions
    this.#peer = peer
  }

  /** The answer to a request without body: at once, where storing it needs no waiting. */
  to(wire: WireRequest): Buffer | Promise<Buffer> {
    try {
      if (this.#actions.storeAtOnce(wire.request, wire.spooler)) return STORED
    } catch (error) {
      return this.refusal(error)
    }
    return this.#inTurn(wire)
  }

  /** The answer to one whose body comes with the request. */
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

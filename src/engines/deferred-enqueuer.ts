import type { Request, Stored } from '../base/task/request.js'
import type { Enqueuer, StoreResult } from './enqueuer.js'

/** An enqueuer that is opened for its first task, because most programs that may store tasks never do. */
export class DeferredEnqueuer implements Enqueuer {
  readonly name: string
  readonly #open: () => Promise<Enqueuer>
  #opening: Promise<Enqueuer> | undefined
  #opened: Enqueuer | undefined

  /** @param name the name of the enqueuer that `open` returns */
  constructor(name: string, open: () => Promise<Enqueuer>) {
    this.name = name
    this.#open = open
  }

  async store(request: Request): Promise<Stored> {
    return (this.#opened ?? (await this.#enqueuer())).store(request)
  }

  async storeAll(requests: readonly Request[], isAllOrNothing?: boolean): Promise<readonly StoreResult[]> {
    return (this.#opened ?? (await this.#enqueuer())).storeAll(requests, isAllOrNothing)
  }

  async #enqueuer(): Promise<Enqueuer> {
    this.#opening ??= this.#open()
    this.#opened = await this.#opening
    return this.#opened
  }
}

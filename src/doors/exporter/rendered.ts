import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'

/** A snapshot as bytes. Each is rendered once, however many read it: a crowd shares one text. */
export class Rendered {
  readonly #snapshot: () => Promise<DaemonSnapshot>
  readonly #render: (snapshot: DaemonSnapshot) => string
  #last: { readonly of: DaemonSnapshot; readonly body: Buffer } | undefined

  constructor(snapshot: () => Promise<DaemonSnapshot>, render: (snapshot: DaemonSnapshot) => string) {
    this.#snapshot = snapshot
    this.#render = render
  }

  /** @throws when the daemon does not answer */
  async get(): Promise<Buffer> {
    const snapshot = await this.#snapshot()
    if (this.#last?.of !== snapshot) this.#last = { of: snapshot, body: Buffer.from(this.#render(snapshot)) }
    return this.#last.body
  }
}

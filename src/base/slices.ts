/** How long synchronous work may keep the event loop from everything else. */
const SLICE_MS = 4

/** Cuts long synchronous work into slices, between which the event loop has its turn. */
export class Slices {
  #since = performance.now()

  /** To be awaited now and then, where there is something to await. */
  rest(): Promise<void> | undefined {
    return performance.now() - this.#since < SLICE_MS ? undefined : this.#next()
  }

  async #next(): Promise<void> {
    await new Promise(resolve => setImmediate(resolve))
    this.#since = performance.now()
  }
}

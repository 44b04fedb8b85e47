/** How long synchronous work may block the event loop. */
const SLICE_MS = 4

/** Cuts long synchronous work into slices; between them the event loop runs. */
export class Slices {
  #since = performance.now()

  /** Call it regularly, and await the result if there is one. */
  rest(): Promise<void> | undefined {
    return performance.now() - this.#since < SLICE_MS ? undefined : this.#next()
  }

  async #next(): Promise<void> {
    await new Promise(resolve => setImmediate(resolve))
    this.#since = performance.now()
  }
}

import type { Writable } from 'node:stream'

/** The most operations that go out in one write, so that Redis works on them while this process makes the next ones. */
const TOGETHER = 4

/**
 * Bundles what is written to a stream in one turn of the event loop into few writes, because a write costs more than most
 * commands.
 */
export class FewWrites {
  #stream: Writable | undefined
  /** How many operations the next write has. */
  #count = 0

  /** Call it before an operation writes. @param stream the same one until the end of this turn, or that of a new connection */
  begin(stream: Writable | undefined): void {
    if (stream === undefined) return
    if (stream !== this.#stream) this.#collect(stream)
    else if (this.#count === TOGETHER) {
      this.#count = 0
      stream.uncork()
      stream.cork()
    }
    this.#count++
  }

  #collect(stream: Writable): void {
    this.#stream = stream
    this.#count = 0
    stream.cork()
    // after everything else that happens at the end of this turn
    process.nextTick(() =>
      process.nextTick(() => {
        if (this.#stream === stream) this.#stream = undefined
        stream.uncork()
      }),
    )
  }
}

import type { Writable } from 'node:stream'

/** Redis works on so many operations while this process makes the next ones. */
const TOGETHER = 4

/** What is written to a stream in one turn of the event loop goes out in few writes, each of which costs more than most commands. */
export class FewWrites {
  #stream: Writable | undefined
  /** How many operations the next write has. */
  #count = 0

  /** Call it before an operation writes. @param stream the same until the end of this turn, or a new connection's */
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
    // after what others do at the end of this turn
    process.nextTick(() =>
      process.nextTick(() => {
        if (this.#stream === stream) this.#stream = undefined
        stream.uncork()
      }),
    )
  }
}

import type { Writable } from 'node:stream'

/** What is written to a stream in one turn of the event loop goes out in one write, which costs more than most commands. */
export class OneWrite {
  #stream: Writable | undefined

  /** Call it before writing. @param stream the same until the end of this turn, or a new connection's */
  begin(stream: Writable | undefined): void {
    if (stream === undefined || stream === this.#stream) return
    this.#stream = stream
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

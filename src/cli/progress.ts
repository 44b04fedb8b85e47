import type { WriteStream } from 'node:tty'

const REDRAW_MS = 200
const WIDTH = 30

/** A line on standard error that shows how far a long input is, when a person watches. */
export class Progress {
  readonly #stream: WriteStream | undefined
  readonly #totalBytes: number | undefined
  #drawnAt = performance.now()

  /** @param totalBytes undefined when nobody knows */
  constructor(stream: WriteStream, isWanted: boolean, totalBytes: number | undefined) {
    this.#stream = isWanted && stream.isTTY ? stream : undefined
    this.#totalBytes = totalBytes
  }

  show(tasks: number, bytes: number): void {
    if (this.#stream === undefined || performance.now() - this.#drawnAt < REDRAW_MS) return
    this.#drawnAt = performance.now()
    const share = this.#totalBytes ? Math.min(1, bytes / this.#totalBytes) : undefined
    const bar =
      share === undefined ? '' : `[${'#'.repeat(share * WIDTH).padEnd(WIDTH)}] ${Math.floor(share * 100)} % `
    this.#stream.write(`\r\x1b[K${bar}${tasks} tasks`)
  }

  /** Leaves the line as if nothing had been there. */
  end(): void {
    this.#stream?.write('\r\x1b[K')
  }
}

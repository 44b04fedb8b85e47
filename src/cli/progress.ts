import { isatty } from 'node:tty'
import { output } from './output.js'

const REDRAW_MS = 200
const WIDTH = 30

/** A line on standard error that shows how far a long input is, when a person watches. */
export class Progress {
  readonly #isShown: boolean
  readonly #totalBytes: number | undefined
  #drawnAt = performance.now()

  /** @param totalBytes undefined when nobody knows */
  constructor(isWanted: boolean, totalBytes: number | undefined) {
    this.#isShown = isWanted && isatty(2)
    this.#totalBytes = totalBytes
  }

  show(tasks: number, bytes: number): void {
    if (!this.#isShown || performance.now() - this.#drawnAt < REDRAW_MS) return
    this.#drawnAt = performance.now()
    const share = this.#totalBytes ? Math.min(1, bytes / this.#totalBytes) : undefined
    const bar =
      share === undefined ? '' : `[${'#'.repeat(share * WIDTH).padEnd(WIDTH)}] ${Math.floor(share * 100)} % `
    output.writeError(`\r\x1b[K${bar}${tasks} tasks`)
  }

  /** Leaves the line as if nothing had been there. */
  end(): void {
    if (this.#isShown) output.writeError('\r\x1b[K')
  }
}

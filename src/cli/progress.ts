import type { CommandContext } from './context.js'

const REDRAW_MS = 200
const WIDTH = 30

/** A line on standard error that shows how far a long input is, when a person watches. */
export class Progress {
  readonly #output: CommandContext['output']
  readonly #isShown: boolean
  readonly #totalBytes: number | undefined
  #drawnAt = performance.now()

  /** @param totalBytes undefined when nobody knows */
  constructor({ output, isWatched }: CommandContext, isWanted: boolean, totalBytes: number | undefined) {
    this.#output = output
    this.#isShown = isWanted && isWatched
    this.#totalBytes = totalBytes
  }

  show(tasks: number, bytes: number): void {
    if (!this.#isShown || performance.now() - this.#drawnAt < REDRAW_MS) return
    this.#drawnAt = performance.now()
    const share = this.#totalBytes ? Math.min(1, bytes / this.#totalBytes) : undefined
    const bar =
      share === undefined ? '' : `[${'#'.repeat(share * WIDTH).padEnd(WIDTH)}] ${Math.floor(share * 100)} % `
    this.#output.writeError(`\r\x1b[K${bar}${tasks} tasks`)
  }

  /** Leaves the line as if nothing had been there. */
  end(): void {
    if (this.#isShown) this.#output.writeError('\r\x1b[K')
  }
}

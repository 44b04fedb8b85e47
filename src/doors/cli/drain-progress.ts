import type { Output } from './output.js'
import { Progress } from './progress.js'

/** While lines of the log run past on the same terminal, they show enough. */
const SILENCE_MS = 500

/** The progress of a `--drain`, in a line below the log. */
export class DrainProgress {
  readonly #output: Pick<Output, 'status' | 'isWatched' | 'clearStatus'>
  readonly #now: () => number
  #progress: Progress | undefined
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(output: Pick<Output, 'status' | 'isWatched' | 'clearStatus'>, now = () => performance.now()) {
    this.#output = output
    this.#now = now
  }

  /** A line is about to be logged to the same terminal. */
  logged(): void {
    this.#output.clearStatus()
    this.#loggedAt = this.#now()
  }

  /** @param left how many due tasks have not ended */
  show(done: number, left: number): void {
    this.#progress ??= new Progress(this.#output, 'tasks', true, this.#now)
    if (this.#now() - this.#loggedAt < SILENCE_MS) return
    this.#progress.show(done, left === 0 ? undefined : done / (done + left))
  }
}

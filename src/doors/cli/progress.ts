import { counted } from '../../base/counted.js'
import type { Output } from './output.js'
import { shortDuration } from './render.js'

/** Work that takes less time shows no progress. */
const SHOWN_AFTER_MS = 2000
/** The least time between two lines of progress, so that a slow terminal does not slow the work down. */
const REDRAW_MS = 200

/** The progress of a command that takes long, on a terminal: how much is done, how fast, and how long the rest takes. */
export class Progress {
  /** True if the progress is shown. Otherwise nothing has to be counted for it. */
  readonly isShown: boolean
  readonly #output: Pick<Output, 'status'>
  readonly #unit: string
  readonly #now: () => number
  readonly #beganAt: number
  #drawnAt: number
  #expected = 0
  #done = 0

  /**
   * @param unit what is counted, in the singular
   * @param isWanted false with --quiet
   */
  constructor(
    output: Pick<Output, 'status' | 'isWatched'>,
    unit: string,
    isWanted = true,
    now = () => performance.now(),
  ) {
    this.isShown = isWanted && output.isWatched
    this.#output = output
    this.#unit = unit
    this.#now = now
    this.#beganAt = now()
    this.#drawnAt = this.#beganAt + SHOWN_AFTER_MS - REDRAW_MS
  }

  /** Announces more steps. Without a call, it is unknown how much is left. */
  expect(count: number): void {
    this.#expected += count
  }

  step(): void {
    if (this.isShown) this.show(++this.#done, this.#expected === 0 ? undefined : this.#done / this.#expected)
  }

  /** @param share how much of the whole is done, from 0 to 1; undefined if unknown */
  show(done: number, share?: number): void {
    const now = this.#now()
    if (!this.isShown || now - this.#drawnAt < REDRAW_MS) return
    this.#drawnAt = now
    const tookMs = now - this.#beganAt
    const parts = [counted(done, this.#unit), `${perSecond(done, tookMs)} per second`]
    if (share !== undefined && share > 0)
      parts.push(`${Math.floor(Math.min(1, share) * 100)} %`, rest(tookMs, share))
    this.#output.status(parts.join(', '))
  }
}

function perSecond(done: number, ms: number): string {
  const rate = (done * 1000) / ms
  return rate < 10 ? rate.toFixed(1) : String(Math.round(rate))
}

function rest(tookMs: number, share: number): string {
  return `${shortDuration(tookMs * Math.max(0, 1 / share - 1))} left`
}

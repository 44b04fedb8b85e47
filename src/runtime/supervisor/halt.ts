import {
  isSamePair,
  isWholePaused,
  NO_PAUSES,
  type PausedPair,
  type Pauses,
  pausedPairs,
} from '../../base/task/pause.js'
import type { Report } from '../../base/task/report.js'
import type { PoolContext } from './pool-options.js'
import type { WorkerProcess } from './worker-process.js'

interface HaltContext extends PoolContext {
  /** Takes back from the workers what they have not started. */
  takeBack(): void
}

/**
 * Keeps the workers of a spool from starting anything (a pause of the spool, or a quiet daemon), or from starting the
 * tasks that have a paused pair. What runs is left alone.
 *
 * While a whole spool is paused, nothing is given out, and what workers were given and have not started is taken back. A worker
 * whose handler blocks it reads that request before it starts anything else. Only a worker that has read a task knows that it has a
 * paused pair: the worker parks the task until any pause of a pair ends.
 */
export class Halt {
  readonly #pool: HaltContext
  #pauses: Pauses = NO_PAUSES
  #isQuiet = false

  constructor(pool: HaltContext) {
    this.#pool = pool
  }

  /** True if nothing may start. */
  get isOn(): boolean {
    return this.#isQuiet || this.isPaused
  }

  /** True if the whole spool is paused. */
  get isPaused(): boolean {
    return isWholePaused(this.#pauses)
  }

  setQuiet(isQuiet: boolean): void {
    this.#change(() => {
      this.#isQuiet = isQuiet
    })
  }

  setPauses(pauses: Pauses): void {
    const { spool, events, feed } = this.#pool
    const [before, now] = [pausedPairs(this.#pauses), pausedPairs(pauses)]
    const isOver = pauses.pauses.length === 0 && pauses.fault === undefined
    this.#change(() => {
      this.#pauses = pauses
      if (isOver) events.emit('pauses-ended', { spool })
      if (before.length + now.length > 0) this.#tellAll()
    })
    if (now.some(pair => !includes(before, pair))) this.#pool.takeBack()
    if (!isOver) events.emit('pauses-changed', { spool, pauses }) // last, because a listener may rely on it that the workers were told
    if (before.some(pair => !includes(now, pair))) feed.changed('paused')
  }

  /** Call it when a worker is ready, before it is given anything. */
  joined(worker: WorkerProcess): void {
    const pairs = pausedPairs(this.#pauses)
    if (pairs.length > 0) worker.tellPaused(pairs)
  }

  /** Tells the feed if a worker parked tasks for a pause that has ended meanwhile, without the worker's knowing. */
  reported(reports: readonly Report[]): void {
    const isOver = ({ pair }: Report) => pair !== undefined && !includes(pausedPairs(this.#pauses), pair)
    if (reports.some(isOver)) this.#pool.feed.changed('paused')
  }

  #change(change: () => void): void {
    const wasOn = this.isOn
    change()
    if (this.isOn && !wasOn) this.#pool.takeBack()
    if (!this.isOn && wasOn) this.#pool.dispatch()
  }

  #tellAll(): void {
    const pairs = pausedPairs(this.#pauses)
    for (const worker of this.#pool.allWorkers) if (worker.state === 'ready') worker.tellPaused(pairs)
  }
}

function includes(pairs: readonly PausedPair[], pair: PausedPair): boolean {
  return pairs.some(each => isSamePair(each, pair))
}

import type { Emitter } from '../../base/events/emitter.js'
import { Histogram } from '../../base/task/histogram.js'
import type { Feed } from '../../engines/feed.js'

/** How much work there was between two decisions. */
interface LoadNews {
  readonly arrived: number
  readonly finished: number
  readonly runs: Histogram
  readonly waits: Histogram
}

interface LoadContext {
  readonly spool: string
  readonly feed: Feed
  readonly events: Emitter
  /** What runs alone, which is not the pool's; signals that wait; and how many that have crashed may run now. */
  beside(): { readonly alone: number; readonly signals: number; readonly crashed: number }
}

/** What there is to do in a pool, and what has come and gone. */
export class Load {
  readonly #context: LoadContext
  #ended = 0
  #endedBefore = 0
  #claimableBefore = 0
  #runs = new Histogram()
  #waits = new Histogram()
  #stopListening: (() => void) | undefined

  constructor(context: LoadContext) {
    this.#context = context
  }

  /** Tasks that could run now, and were given to no worker. */
  get backlog(): number {
    return this.#context.feed.state.ready + this.#context.beside().crashed
  }

  /** Tasks that workers have. */
  get running(): number {
    return this.#context.feed.state.busy - this.#context.beside().alone
  }

  /** Signals that wait or run. */
  get signals(): number {
    return this.#context.beside().signals
  }

  /** Tasks and signals that wait or run. */
  get total(): number {
    return this.backlog + this.running + this.signals
  }

  /** Whether run times are measured, which costs a little per task. */
  measure(isWanted: boolean): void {
    const { spool, events } = this.#context
    if (isWanted === (this.#stopListening !== undefined)) return
    this.#stopListening?.()
    this.#stopListening = isWanted
      ? events.on('run-times', times => {
          if (times.spool !== spool) return
          this.#runs.merge(times.ran)
          this.#waits.merge(times.waited)
        })
      : undefined
  }

  /** Tasks have ended. */
  ended(count: number): void {
    this.#ended += count
  }

  /** What there was since the last call. @param isUnknown nobody knows yet how much of it is due: the next call tells */
  takeNews(isUnknown: boolean): LoadNews {
    if (isUnknown) return { arrived: 0, finished: 0, runs: new Histogram(), waits: new Histogram() }
    const finished = this.#ended - this.#endedBefore
    const claimable = this.backlog + this.running
    const arrived = Math.max(0, claimable - this.#claimableBefore + finished)
    const news = { arrived, finished, runs: this.#runs, waits: this.#waits }
    this.#endedBefore = this.#ended
    this.#claimableBefore = claimable
    this.#runs = new Histogram()
    this.#waits = new Histogram()
    return news
  }
}

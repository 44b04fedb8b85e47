import type { Ref } from '../../../base/task/ref.js'
import type { Glance } from '../glance.js'
import { JustGiven } from './just-given.js'
import type { Patience } from './patience.js'
import type { ReadyRefs } from './ready-refs.js'

/** So many refs in a row have to be at rest until no more are looked at. */
const LOOKS = 64
/** For so long at most are refs looked at before any is given: workers wait meanwhile. */
const LOOK_MS = 5
/** So often one that somebody else has begun waits without a worker's look: 62 ms together. */
const MOST_WAITS = 5
/** What others take within this time may be passed over: it is how far the order of several daemons is not exact. */
const SPREAD_MS = 1000
const MOST_SPREAD = 1000

/** What rivals and the index do with each other's refs. */
interface Places {
  readonly ready: ReadyRefs
  glance(ref: Ref): Glance
  gone(ref: Ref): void
  /** @returns until when it waits, epoch ms */
  begun(ref: Ref): number
}

/**
 * Whether others, too, run tasks of this directory: then it costs less to look at a file than to send a worker there in vain, and less
 * still to begin elsewhere than they do. While nobody does, nothing is looked at.
 */
export class Rivals {
  readonly #patience: Patience
  readonly #places: Places
  readonly #justGiven = new JustGiven()
  #looks = 0
  /** Until then some wait that no worker has looked at. */
  #untilMs = 0
  /** How many went that no worker of ours was given, since `#countedAt`, on the clock of `performance.now()`; and in as long before. */
  #taken = 0
  #takenBefore = 0
  #countedAt = 0

  constructor(patience: Patience, places: Places) {
    this.#patience = patience
    this.#places = places
  }

  /** A worker found a task gone, or locked by somebody else. */
  met(): void {
    this.#looks = LOOKS
  }

  get areLikely(): boolean {
    return this.#looks > 0
  }

  /** Among how many that come next a daemon chooses: as many as others take within a second, as far as it has seen. */
  get spread(): number {
    if (this.#taken + this.#takenBefore === 0) return 0
    this.#count(0)
    return Math.min(MOST_SPREAD, Math.max(this.#taken, this.#takenBefore))
  }

  #count(taken: number): void {
    const now = performance.now()
    if (now >= this.#countedAt + SPREAD_MS) {
      this.#takenBefore = now < this.#countedAt + 2 * SPREAD_MS ? this.#taken : 0
      this.#taken = 0
      this.#countedAt = now
    }
    this.#taken += taken
  }

  /** A worker gets it. */
  given(ref: Ref): void {
    this.#justGiven.add(ref)
  }

  /** The file was created, renamed, written or removed. @returns whether it is one of those that come next, and has its place */
  changed(ref: Ref, renamed: boolean): boolean {
    const { ready, glance } = this.#places
    if (!ready.isAhead(ref)) return false
    if (!renamed || glance(ref) !== 'gone') ready.postpone(ref)
    else {
      ready.forget(ref)
      this.#took(ref)
    }
    return true
  }

  /** A worker got it, and it is gone: it ran, of which the event tells late, or somebody has removed it since. @returns whether it is */
  isOver(ref: Ref): boolean {
    const isOver = this.#justGiven.has(ref) && this.#places.glance(ref) === 'gone'
    if (isOver) this.#places.gone(ref)
    return isOver
  }

  #took(ref: Ref): void {
    if (!this.#justGiven.has(ref)) this.#count(1)
    this.#places.gone(ref)
  }

  /**
   * They have run it, or run it. Whether the process of one that stays begun has died, only a worker can find out.
   *
   * @param sinceMs when the first one was looked at; epoch ms
   */
  haveTaken(ref: Ref, sinceMs: number): boolean {
    if (Date.now() >= sinceMs + LOOK_MS) return false
    const { glance, begun } = this.#places
    const found = glance(ref)
    const isTaken = found === 'gone' || (found === 'begun' && this.#patience.timesOf(ref) < MOST_WAITS)
    this.#looks = isTaken ? LOOKS : this.#looks - 1
    if (found === 'gone') this.#took(ref)
    else if (isTaken) this.#untilMs = Math.max(this.#untilMs, begun(ref))
    return isTaken
  }

  /** Of what they have begun, some waits; their process may have died. */
  get haveSome(): boolean {
    return this.#untilMs > 0
  }

  /** What waits until now is ready. */
  promoted(nowMs: number): void {
    if (this.#untilMs <= nowMs) this.#untilMs = 0
  }
}

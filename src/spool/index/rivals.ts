import type { Ref } from '../../task/ref.js'
import type { Glance } from '../glance.js'
import type { Patience } from './patience.js'

/** So many refs in a row have to be at rest until no more are looked at. */
const LOOKS = 64
/** For so long at most are refs looked at before any is given: workers wait meanwhile. */
const LOOK_MS = 5
/** So often one that somebody else has begun waits without a worker's look: 62 ms together. */
const MOST_WAITS = 5

/** Is told of those that are taken. */
interface Taken {
  gone(ref: Ref): void
  /** @returns until when it waits, epoch ms */
  begun(ref: Ref): number
}

/**
 * Whether others, too, run tasks of this directory: then it costs less to look at a file than to send a worker there in vain. While
 * nobody does, nothing is looked at.
 */
export class Rivals {
  readonly #glance: (ref: Ref) => Glance
  readonly #patience: Patience
  readonly #taken: Taken
  #looks = 0
  /** Until then some wait that no worker has looked at. */
  #untilMs = 0

  constructor(glance: (ref: Ref) => Glance, patience: Patience, taken: Taken) {
    this.#glance = glance
    this.#patience = patience
    this.#taken = taken
  }

  /** A worker found a task gone, or locked by somebody else. */
  met(): void {
    this.#looks = LOOKS
  }

  get areLikely(): boolean {
    return this.#looks > 0
  }

  /**
   * They have run it, or run it. Whether the process of one that stays begun has died, only a worker can find out.
   *
   * @param sinceMs when the first one was looked at; epoch ms
   */
  haveTaken(ref: Ref, sinceMs: number): boolean {
    if (Date.now() >= sinceMs + LOOK_MS) return false
    const found = this.#glance(ref)
    const isTaken = found === 'gone' || (found === 'begun' && this.#patience.timesOf(ref) < MOST_WAITS)
    this.#looks = isTaken ? LOOKS : this.#looks - 1
    if (found === 'gone') this.#taken.gone(ref)
    else if (isTaken) this.#untilMs = Math.max(this.#untilMs, this.#taken.begun(ref))
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

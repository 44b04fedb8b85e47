import { Queue } from '../base/queue.js'
import type { Claim, Engine } from '../engines/engine.js'
import type { Report } from '../task/report.js'
import { type Assignment, SLICE_MS } from './task-runner.js'

/** So many tasks go to a host at once: a message and a change of process are cheap when they are shared. */
const BATCH_TASKS = 64
/** Large bodies are not held twice by many. */
const BATCH_BYTES = 1024 * 1024

export interface Claimed {
  readonly claim: Claim
  readonly number: number
  /** The master knows that it runs. */
  isTold: boolean
}

/**
 * Claims tasks ahead of the host that will run them.
 *
 * That is allowed as long as the mark of a start says no more than that somebody has read the file. A task whose mark
 * says that it runs is claimed when the host is idle, and goes alone: whoever dies then, it was running.
 */
export class ClaimAhead {
  readonly #engine: Engine
  readonly #queue = new Queue<Assignment>()
  readonly #refuse: (number: number, report: Report) => void
  /** The last claim was of the kind that goes alone, so the next is likely to be. */
  #isWary = false
  /** Claimed, and waiting until the host is idle. */
  #loner: Claimed | undefined

  /** @param refuse what cannot be claimed */
  constructor(engine: Engine, refuse: (number: number, report: Report) => void) {
    this.#engine = engine
    this.#refuse = refuse
  }

  get isEmpty(): boolean {
    return this.#queue.size === 0 && this.#loner === undefined
  }

  /** Nothing may be claimed before the host is idle. */
  get waitsForIdle(): boolean {
    return this.#isWary
  }

  push(assignment: Assignment): void {
    this.#queue.push(assignment)
  }

  /** What can go to the host together, at most `room`. */
  next(room: number, isHostIdle: boolean): Claimed[] {
    const batch: Claimed[] = []
    const since = performance.now()
    let bytes = 0
    while (batch.length < Math.min(BATCH_TASKS, room) && bytes < BATCH_BYTES) {
      const claimed = this.takeLoner() ?? this.#claim()
      if (claimed === undefined) break
      const { isMarked, bodyBytes } = claimed.claim
      this.#isWary = isMarked
      if (isMarked && (batch.length > 0 || !isHostIdle)) {
        this.#loner = claimed
        break
      }
      batch.push(claimed)
      bytes += bodyBytes
      if (isMarked || performance.now() - since > SLICE_MS) break
    }
    return batch
  }

  /** Gives up what is not claimed. */
  *drop(): Generator<Assignment> {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop()) yield next
  }

  /** What is claimed and was not sent. */
  takeLoner(): Claimed | undefined {
    const loner = this.#loner
    this.#loner = undefined
    return loner
  }

  #claim(): Claimed | undefined {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop()) {
      const claim = this.#engine.claim(next.ref, next.lastRun)
      if (!('kind' in claim)) return { claim, number: next.number, isTold: false }
      this.#refuse(next.number, claim)
    }
    return undefined
  }
}

import type { ReportKind } from '../../../base/task/report.js'

/** What a worker was sent to in vain, because somebody else had it. */
const VAIN_KINDS: readonly ReportKind[] = ['gone', 'locked']
const PERIOD_MS = 1000
/** So many in vain may be anybody's doing, who removes a few tasks. */
const FEW = 8
/** More of them are in vain than one in so many. */
const SHARE = 4
/** How far apart two daemons may be in the same order: one finds few of those that the other has taken. */
const SPREAD = 1000

/**
 * Whether others, too, run tasks of this directory. In the same order, all would try each task at once, and all but one in vain; so
 * while they do, each takes those that come next in an order of its own.
 */
export class Rivals {
  /** Reports, and those in vain, since `#since` on the clock of `performance.now()`; and in the period before. */
  #all = 0
  #vain = 0
  #allBefore = 0
  #vainBefore = 0
  #since = 0

  /** @param isOurs one of our own workers ran it, or may have begun it: nobody else need be there */
  reported(kind: ReportKind, isOurs: boolean): void {
    this.#turn()
    this.#all++
    if (VAIN_KINDS.includes(kind) && !isOurs) this.#vain++
  }

  get areLikely(): boolean {
    if (this.#vain + this.#vainBefore === 0) return false
    this.#turn()
    const vain = this.#vain + this.#vainBefore
    return vain > FEW && vain * SHARE > this.#all + this.#allBefore
  }

  /** Among how many that come next a daemon chooses. */
  get spread(): number {
    return this.areLikely ? SPREAD : 1
  }

  #turn(): void {
    const now = performance.now()
    if (now < this.#since + PERIOD_MS) return
    const isNext = now < this.#since + 2 * PERIOD_MS
    this.#allBefore = isNext ? this.#all : 0
    this.#vainBefore = isNext ? this.#vain : 0
    this.#all = 0
    this.#vain = 0
    this.#since = now
  }
}

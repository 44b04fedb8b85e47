import type { Emitter } from '../../base/events/emitter.js'
import { displayName, type Ref } from '../../base/task/ref.js'
import type { Looker, Report } from '../../base/task/report.js'
import { Recent } from '../spool/index/recent.js'
import { doHere } from './aside-work.js'

/** A task that is locked for this long, and that no worker of ours is running, is reported. */
const LONG_MS = 10_000
/** Finding the holder of a lock searches all of /proc, so it is done no more often than this. */
const LOOK_EVERY_MS = 5000
/**
 * The minimum number of refs that are remembered: more than daemons that race one another find locked in a second, which is how
 * often a waiting ref is tried.
 */
const REMEMBERED = 20_000

/** Reports tasks that another process keeps locked for long. Usually that is a process that a program left behind, or a uWSGI. */
export class LongLocks {
  readonly #spool: string
  readonly #events: Emitter
  /** When each ref was first found locked; infinite once that has been reported. */
  readonly #since = new Recent<number>(REMEMBERED)
  #lookedAt = Number.NEGATIVE_INFINITY
  #looker: Looker | undefined

  /** @param spool its real path */
  constructor(spool: string, events: Emitter) {
    this.#spool = spool
    this.#events = events
  }

  lookBy(looker: Looker): void {
    this.#looker = looker
  }

  reported({ ref, kind }: Report): void {
    if (kind !== 'locked') return this.#since.delete(ref)
    const now = performance.now()
    const since = this.#since.get(ref) ?? now
    const isLong = now >= since + LONG_MS && now >= this.#lookedAt + LOOK_EVERY_MS
    this.#since.set(ref, isLong ? Number.POSITIVE_INFINITY : since)
    if (!isLong) return
    this.#lookedAt = now
    void this.#tell(ref, now - since)
  }

  async #tell(ref: Ref, forMs: number): Promise<void> {
    const holder = await (this.#looker?.holder(ref) ?? doHere('holder', this.#spool, ref))
    this.#events.emit('spool-task-locked', { spool: this.#spool, name: displayName(ref), forMs, ...holder })
  }
}

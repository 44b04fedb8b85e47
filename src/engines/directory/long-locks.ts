import type { Emitter } from '../../base/events/emitter.js'
import { displayName, type Ref } from '../../base/task/ref.js'
import type { Looker, Report } from '../../base/task/report.js'
import { doHere } from './aside-work.js'

/** A task that is locked for this long, and that no worker of ours is running, is reported. */
const LONG_MS = 10_000
/** Finding the holder of a lock searches all of /proc, so it is done no more often than this. */
const LOOK_EVERY_MS = 5000
/**
 * A ref that has not been found locked for this long is forgotten: a waiting ref is tried about once a second, so this one
 * has run, or no longer waits.
 */
const FORGOTTEN_AFTER_MS = 10_000
const MOST_REFS = 1000

interface Locked {
  /** When the ref was first found locked; infinite once that has been reported. */
  readonly since: number
  readonly lastSeen: number
}

/** Reports tasks that another process keeps locked for long. Usually that is a process that a program left behind, or a uWSGI. */
export class LongLocks {
  readonly #spool: string
  readonly #events: Emitter
  /** In the order in which the refs were last found locked. */
  readonly #locked = new Map<Ref, Locked>()
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
    if (kind !== 'locked') {
      if (this.#locked.size > 0) this.#locked.delete(ref)
      return
    }
    const now = performance.now()
    const since = this.#locked.get(ref)?.since ?? now
    this.#locked.delete(ref)
    if (this.#locked.size >= MOST_REFS) this.#forgetOldest(now)
    if (this.#locked.size >= MOST_REFS) return
    const isLong = now >= since + LONG_MS && now >= this.#lookedAt + LOOK_EVERY_MS
    this.#locked.set(ref, { since: isLong ? Number.POSITIVE_INFINITY : since, lastSeen: now })
    if (!isLong) return
    this.#lookedAt = now
    void this.#tell(ref, now - since)
  }

  /**
   * Makes room by forgetting refs that were not found locked lately. A task that ran elsewhere may never be reported again,
   * and without room no further lock would be.
   */
  #forgetOldest(now: number): void {
    for (const [ref, { lastSeen }] of this.#locked) {
      if (now < lastSeen + FORGOTTEN_AFTER_MS) return
      this.#locked.delete(ref)
    }
  }

  async #tell(ref: Ref, forMs: number): Promise<void> {
    const holder = await (this.#looker?.holder(ref) ?? doHere('holder', this.#spool, ref))
    this.#events.emit('spool-task-locked', { spool: this.#spool, name: displayName(ref), forMs, ...holder })
  }
}

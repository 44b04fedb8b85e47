import { stat } from 'node:fs/promises'
import type { Emitter } from '../../base/events/emitter.js'
import { displayName, type Ref, toFsPath } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import { holderOf } from '../../system/files/lock-table.js'
import { commandOf } from '../spool/neighbours.js'

/** A task that is locked for this long, and that no worker of ours is running, is reported. */
const LONG_MS = 10_000
/** Finding the holder of a lock searches all of /proc, so it is done no more often than this. */
const LOOK_EVERY_MS = 5000
const MOST_REFS = 1000

/** Reports tasks that another process keeps locked for long: usually one that a program left behind, or a uWSGI. */
export class LongLocks {
  readonly #spool: string
  readonly #events: Emitter
  /** When each task was first found locked; infinite once it has been reported. */
  readonly #since = new Map<Ref, number>()
  #lookedAt = Number.NEGATIVE_INFINITY

  /** @param spool a byte string */
  constructor(spool: string, events: Emitter) {
    this.#spool = spool
    this.#events = events
  }

  reported({ ref, kind }: Report): void {
    if (kind !== 'locked') {
      if (this.#since.size > 0) this.#since.delete(ref)
      return
    }
    const now = performance.now()
    const since = this.#since.get(ref)
    if (since === undefined && this.#since.size < MOST_REFS) this.#since.set(ref, now)
    if (since === undefined || now < since + LONG_MS || now < this.#lookedAt + LOOK_EVERY_MS) return
    this.#lookedAt = now
    this.#since.set(ref, Number.POSITIVE_INFINITY)
    void this.#tell(ref, now - since)
  }

  async #tell(ref: Ref, forMs: number): Promise<void> {
    const stats = await stat(toFsPath(`${this.#spool}/${ref}`)).catch(() => undefined)
    const pid = stats === undefined ? undefined : await holderOf(stats)
    const holder = pid === undefined ? {} : { pid, command: commandOf(pid) }
    this.#events.emit('spool-task-locked', { spool: this.#spool, name: displayName(ref), forMs, ...holder })
  }
}

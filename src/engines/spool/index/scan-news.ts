import { messageOf } from '../../../base/errors.js'
import type { Emitter } from '../../../base/events/emitter.js'
import { displayName, toByteString } from '../../../base/task/ref.js'
import { meetAtOnce } from '../../../system/files/entries.js'
import { directoryOf } from '../../../system/files/stamps.js'
import { hasUwsgiPrefix } from '../names.js'

/** The maximum number of directories reported because they cannot be listed, or are not entered. */
const MOST_REPORTED = 1000
/** Names of a directory that is none of ours. */
const MOST_LOOKED_AT = 100

/** Reports what scans find, each thing once. */
export class ScanNews {
  readonly #spool: string
  readonly #events: Emitter
  readonly #reported = new Set<string>()
  #isMissing = false

  constructor(spool: string, events: Emitter) {
    this.#spool = spool
    this.#events = events
  }

  /** The spool itself could not be listed. */
  missing(error: unknown): void {
    if (!this.#isMissing) this.#events.emit('spool-missing', { spool: this.#spool, error: messageOf(error) })
    this.#isMissing = true
  }

  /** A directory was listed, or is gone; the spool itself as far as there is room for its names. */
  listed(prefix: string): void {
    if (prefix === '' && this.#isMissing) {
      this.#isMissing = false
      this.#events.emit('spool-back', { spool: this.#spool })
    } else if (this.#reported.size > 0 && this.#reported.delete(`spool-list-failed${prefix}`))
      this.#events.emit('spool-list-back', { spool: this.#spool, prefix: displayName(prefix) })
  }

  priority(
    name: 'spool-unvisited' | 'spool-list-failed' | 'spool-astray',
    prefix: string,
    error?: unknown,
  ): void {
    if (!this.#isNews(name + prefix)) return
    this.#reported.add(name + prefix)
    this.#events.emit(name, { spool: this.#spool, prefix: displayName(prefix), error: messageOf(error) })
  }

  /** A directory that may be anybody's: it is news if tasks are in it, among its first names. */
  foreign(prefix: string): void {
    if (!this.#isNews(`spool-astray${prefix}`)) return
    let looked = 0
    let holdsTask = false
    try {
      meetAtOnce(directoryOf(toByteString(this.#spool), prefix), name => {
        holdsTask = hasUwsgiPrefix(name)
        return !holdsTask && ++looked < MOST_LOOKED_AT
      })
    } catch {} // it is gone, or closed to us
    if (holdsTask) this.priority('spool-astray', prefix)
  }

  #isNews(what: string): boolean {
    return !this.#reported.has(what) && this.#reported.size <= MOST_REPORTED
  }
}

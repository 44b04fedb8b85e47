import { messageOf } from '../../../base/errors.js'
import type { Emitter } from '../../../base/events/emitter.js'
import { displayName } from '../../../base/task/ref.js'

/** The maximum number of directories reported because they cannot be listed, or are not entered. */
const MOST_REPORTED = 1000

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

  listed(): void {
    if (this.#isMissing) this.#events.emit('spool-back', { spool: this.#spool })
    this.#isMissing = false
  }

  priority(name: 'spool-unvisited' | 'spool-list-failed', prefix: string, error?: unknown): void {
    if (this.#reported.has(name + prefix) || this.#reported.size > MOST_REPORTED) return
    this.#reported.add(name + prefix)
    this.#events.emit(name, { spool: this.#spool, prefix: displayName(prefix), error: messageOf(error) })
  }
}

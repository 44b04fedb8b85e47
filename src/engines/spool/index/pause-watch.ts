import { lstat } from 'node:fs/promises'
import { errnoOf } from '../../../base/errors.js'
import { describePauses, lastingPauses, NO_PAUSES, type Pauses } from '../../../base/task/pause.js'
import { toFsPath } from '../../../base/task/ref.js'
import { isSame, type Stamp, stampOf, UNKNOWN } from '../../../system/files/stamps.js'
import { pausesPath, readPauses } from '../pauses.js'

/**
 * A pause counts within a second. A `stat` costs 50 µs; a watch on `.spoold` would report every record of a failed
 * task, and may be refused.
 */
const LOOK_MS = 500
/** Of what is not there. */
const NONE: Stamp = { inode: 0, mtimeMs: 0, ctimeMs: 0, bytes: 0 }

/**
 * Follows `.spoold/paused`. A pause with an end is over when the clock first says so, and does not come back if the
 * clock is set back later.
 */
export class PauseWatch {
  readonly #spool: string
  readonly #changed: (pauses: Pauses) => void
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #seen = UNKNOWN
  #content = JSON.stringify(NO_PAUSES)
  #pauses: Pauses = NO_PAUSES
  #reported = describePauses(NO_PAUSES)

  /** @param spool its real path, a byte string @param changed called with what is paused from now on */
  constructor(spool: string, changed: (pauses: Pauses) => void) {
    this.#spool = spool
    this.#changed = changed
  }

  /** Resolves after the first look. */
  async start(): Promise<void> {
    await this.#look()
    this.#lookLater()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #lookLater(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#look().then(() => this.#lookLater()), LOOK_MS)
  }

  async #look(): Promise<void> {
    const seen = await this.#stamp()
    if (this.#isClosed) return
    if (!isSame(seen, this.#seen)) this.#read()
    this.#seen = seen
    const { pauses, fault } = this.#pauses
    this.#pauses = { ...(fault === undefined ? {} : { fault }), pauses: lastingPauses(pauses, Date.now()) }
    const now = describePauses(this.#pauses)
    if (now === this.#reported) return
    this.#reported = now
    this.#changed(this.#pauses)
  }

  #read(): void {
    const pauses = readPauses(this.#spool)
    const content = JSON.stringify(pauses)
    if (content !== this.#content) this.#pauses = pauses // else those that are over stay over
    this.#content = content
  }

  async #stamp(): Promise<Stamp> {
    try {
      return stampOf(await lstat(toFsPath(pausesPath(this.#spool))))
    } catch (error) {
      return errnoOf(error) === 'ENOENT' ? NONE : UNKNOWN
    }
  }
}

import type { ClaimNotice } from '../../base/task/claim-notice.js'

type Notices = ReadonlyArray<readonly [number: number, notice: ClaimNotice]>

/** Announces in one message what is claimed in one moment, before any of it begins. */
export class ClaimNotices {
  readonly #announce: (notices: Notices) => void
  #waiting: Array<Notices[number]> = []

  constructor(announce: (notices: Notices) => void) {
    this.#announce = announce
  }

  /** An engine takes more than one microtask to store that a run begins. */
  add(notices: Notices): void {
    if (this.#waiting.length === 0) queueMicrotask(() => this.flush())
    this.#waiting.push(...notices)
  }

  /** Call it before a run, unless something was awaited since. */
  flush(): void {
    if (this.#waiting.length === 0) return
    const waiting = this.#waiting
    this.#waiting = []
    this.#announce(waiting)
  }
}

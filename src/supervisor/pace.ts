import { isHandled, type Report } from '../task/report.js'

/** How long a task takes, of late. */
export class Pace {
  #ms: number | undefined

  /** Undefined until a task has run. */
  get ms(): number | undefined {
    return this.#ms
  }

  /** What was refused says nothing. @param busyMs how long all of them took */
  note(busyMs: number, reports: Iterable<Pick<Report, 'kind'>>): void {
    let ran = 0
    for (const { kind } of reports) if (isHandled(kind) || kind === 'ignore') ran++
    if (ran === 0) return
    const ms = busyMs / ran
    this.#ms = this.#ms === undefined ? ms : (this.#ms + ms) / 2
  }
}

import { isHandled, type Report } from '../../base/task/report.js'

/** How long tasks have taken: of late, and all that were reported. */
export class Pace {
  #ms: number | undefined
  #ran = 0
  #busyMs = 0

  /** How many runs there were. */
  get ran(): number {
    return this.#ran
  }

  /** How long all of them took. */
  get busyMs(): number {
    return this.#busyMs
  }

  /** Undefined until a task has run. */
  get ms(): number | undefined {
    return this.#ms
  }

  /**
   * @param busyMs how long all of them took together
   * @param ran how many tasks ran; those that were refused say nothing about the pace
   * @param parked how many were opened and parked: there may be many in a row, which are worth a batch
   */
  note(busyMs: number, ran: number, parked = 0): void {
    this.#ran += ran
    this.#busyMs += busyMs
    if (ran + parked === 0) return
    const ms = busyMs / (ran + parked)
    this.#ms = this.#ms === undefined ? ms : (this.#ms + ms) / 2
  }
}

/** How many of these reports are of tasks that ran. */
export function ranOf(reports: readonly Pick<Report, 'kind'>[]): number {
  let ran = 0
  for (const { kind } of reports) if (isHandled(kind) || kind === 'ignore') ran++
  return ran
}

export function parkedOf(reports: readonly Pick<Report, 'kind'>[]): number {
  let parked = 0
  for (const { kind } of reports) if (kind === 'parked') parked++
  return parked
}

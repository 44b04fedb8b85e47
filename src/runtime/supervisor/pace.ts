import { isHandled, type Report } from '../../base/task/report.js'

/** How long tasks have taken: of late, and all that were reported. */
export class Pace {
  #ms: number | undefined
  /** While it only finds tasks to be for later: how long it takes to find that out. */
  #laterMs: number | undefined
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

  /** Undefined until a task has run, or was put aside. */
  get ms(): number | undefined {
    return this.#laterMs ?? this.#ms
  }

  /**
   * @param busyMs how long all of them took together
   * @param ran how many tasks ran; those that were refused say nothing about the pace
   * @param parked how many were opened and parked: there may be many in a row, which are worth a batch
   * @param later how many were found to be for later: there may be many in a row, but those that run may be slow
   */
  note(busyMs: number, ran: number, parked = 0, later = 0): void {
    this.#ran += ran
    this.#busyMs += busyMs
    const told = ran + parked
    if (told + later === 0) return
    this.#laterMs = told === 0 ? busyMs / later : undefined
    if (told === 0) return
    const ms = busyMs / told
    this.#ms = this.#ms === undefined ? ms : (this.#ms + ms) / 2
  }
}

/** How many of these reports are of tasks that ran. */
export function ranOf(reports: readonly Pick<Report, 'kind'>[]): number {
  let ran = 0
  for (const { kind } of reports) if (isHandled(kind) || kind === 'ignore') ran++
  return ran
}

export function countOf(kind: Report['kind'], reports: readonly Pick<Report, 'kind'>[]): number {
  let count = 0
  for (const report of reports) if (report.kind === kind) count++
  return count
}

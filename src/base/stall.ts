/** Notices what makes no progress. It is looked at from time to time, so the work itself pays next to nothing. */
export class Stall {
  #sign: number | undefined
  #since = 0

  /**
   * @param sign any number that changes with progress; undefined: there is nothing to do now
   * @param nowMs on the clock of `performance.now()`
   * @returns for how long the sign has been the same, in milliseconds
   */
  look(sign: number | undefined, nowMs = performance.now()): number {
    if (sign === undefined || sign !== this.#sign) this.#since = nowMs
    this.#sign = sign
    return nowMs - this.#since
  }
}

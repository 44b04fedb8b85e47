import type { PreparedSpool } from './prepared-spools.js'

/** The spools with `spooler-quiet`. */
export class QuietSpools {
  /** With a slash behind each. */
  #paths: readonly string[] = []

  set(spools: readonly PreparedSpool[]): void {
    this.#paths = spools.filter(({ options }) => options.spoolerQuiet).map(({ spool }) => `${spool}/`)
  }

  /** @param path of a spool, or of a file in it */
  has(path: string): boolean {
    return this.#paths.some(each => `${path}/`.startsWith(each))
  }
}

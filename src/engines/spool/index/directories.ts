import { Slices } from '../../../base/each.js'
import { directoryOf, isSame, type Stamp, type TakeStamp, UNKNOWN } from '../../../system/files/stamps.js'
import type { Listed } from '../scan.js'

/** Directories of a spool by their prefixes: '' for the spool itself, `5/` for a priority. */
export type Listing = ReadonlyMap<string, Listed>

/** The parent's prefix: `5/` for `5/3/`. */
function parentOf(prefix: string): string {
  return prefix.slice(0, prefix.lastIndexOf('/', prefix.length - 2) + 1)
}

/**
 * The directories of a spool and their stamps when they were last listed. As long as a directory's stamp is unchanged, a
 * `stat` replaces listing it again.
 */
export class Directories {
  readonly #spool: string
  #known: Map<string, Listed> = new Map()
  #isDoubtful = false
  /** The directories that the last scan, or the one in progress, listed completely or found gone. */
  readonly #listed = new Set<string>()
  /** The directories whose names that scan met. */
  readonly #named = new Set<string>()

  constructor(spool: string) {
    this.#spool = spool
  }

  get listing(): Listing {
    return this.#known
  }

  /** Makes the next scan list everything, because the stamps may have missed something. */
  doubt(): void {
    this.#isDoubtful = true
  }

  forget(): void {
    this.#known = new Map()
    this.#isDoubtful = false
  }

  /**
   * Returns the directories that may have changed since they were listed. Forgets a directory whose inode is another one, or
   * gone: its name may now be a link that leads outside, so its parent is listed again.
   *
   * @returns undefined if nothing is known for certain
   */
  async changed(take: TakeStamp): Promise<ReadonlySet<string> | undefined> {
    if (this.#isDoubtful) return undefined
    const changed = new Set<string>()
    const gone = new Set<string>()
    const slices = new Slices()
    for (const [prefix, { stamp }] of this.#known) {
      const parent = parentOf(prefix)
      const taken = take(directoryOf(this.#spool, prefix))
      const now = taken instanceof Promise ? await taken : taken
      if (gone.has(parent) || now.inode !== stamp.inode) {
        gone.add(prefix)
        if (!gone.has(parent)) changed.add(parent)
      } else if (!isSame(now, stamp)) changed.add(prefix)
      const rest = slices.rest()
      if (rest !== undefined) await rest
    }
    if (gone.has('')) this.forget()
    for (const prefix of gone) this.#known.delete(prefix)
    return this.#known.size === 0 ? undefined : changed
  }

  /** Prepares for a scan. @param again the directories that the scan lists; undefined means all of them */
  beginScan(again: ReadonlySet<string> | undefined): void {
    if (again === undefined) this.forget()
    this.#listed.clear()
    this.#named.clear()
  }

  /** Takes note that the scan met the name of a directory. @returns true if the scan is to enter it */
  enters(prefix: string): boolean {
    this.#named.add(prefix)
    return !this.#known.has(prefix)
  }

  /** Takes note that the scan begins to list a directory. */
  begun(prefix: string, stamp: Stamp): void {
    this.#known.set(prefix, { stamp, entries: Number.POSITIVE_INFINITY })
  }

  listed(prefix: string, stamp: Stamp, entries: number): void {
    this.#known.set(prefix, { stamp, entries })
    this.#listed.add(prefix)
  }

  /**
   * Takes note that a directory could not be listed, and leaves a stamp that equals nothing, so that the next pass tries again.
   */
  failed(prefix: string): void {
    const { stamp } = this.#known.get(prefix) ?? { stamp: UNKNOWN }
    this.#known.set(prefix, { stamp: { ...stamp, mtimeMs: Number.NaN }, entries: 0 })
  }

  /** Forgets directories that the scan no longer found. */
  endScan(): void {
    for (const prefix of this.#known.keys()) {
      if (prefix === '') continue
      const parent = parentOf(prefix)
      const isNamed = this.#known.has(parent) && (!this.#listed.has(parent) || this.#named.has(prefix))
      if (!isNamed) this.#known.delete(prefix)
    }
  }

  /** True if the scan skipped a known directory, so that its tasks are still valid. */
  isAsBefore(prefix: string): boolean {
    return this.#known.has(prefix) && !this.#listed.has(prefix)
  }

  /** True if the scan met all that is in a directory, or found that it is gone. */
  isListed(prefix: string): boolean {
    return this.#listed.has(prefix)
  }
}

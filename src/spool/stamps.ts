import { stat } from 'node:fs/promises'
import { toFsPath } from '../task/ref.js'

/** FAT counts in steps of 2 s: an mtime younger than this does not prove that nothing came after it. */
const COARSEST_MTIME_MS = 2000

/** What tells one state of a directory from another. */
export interface Stamp {
  readonly inode: number
  /** NaN, which equals nothing, when the mtime proves nothing. */
  readonly mtimeMs: number
}

const NONE: Stamp = { inode: 0, mtimeMs: Number.NaN }

/**
 * Remembers how the directories of a spool looked before they were listed: while no name was made, renamed or removed
 * in any of them, another listing would tell nothing new. One `stat` a directory instead of a listing of a million names.
 */
export class Stamps {
  readonly #spool: string
  #stamps = new Map<string, Stamp>()

  constructor(spool: string) {
    this.#spool = spool
  }

  /** To be called before the directory is listed. */
  async take(prefix: string): Promise<Stamp> {
    try {
      const { ino, mtimeMs } = await stat(toFsPath(`${this.#spool}/${prefix}`))
      return { inode: ino, mtimeMs: mtimeMs < Date.now() - COARSEST_MTIME_MS ? mtimeMs : Number.NaN }
    } catch {
      return NONE
    }
  }

  /** The stamps of one complete scan replace those of the last. */
  keep(stamps: Map<string, Stamp>): void {
    this.#stamps = stamps
  }

  async isUnchanged(): Promise<boolean> {
    if (this.#stamps.size === 0) return false
    for (const [prefix, before] of this.#stamps) {
      const now = await this.take(prefix)
      if (now.inode !== before.inode || now.mtimeMs !== before.mtimeMs) return false
    }
    return true
  }
}

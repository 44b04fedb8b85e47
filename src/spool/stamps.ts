import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Slices } from '../base/slices.js'
import { toFsPath } from '../task/ref.js'

/** FAT counts in steps of 2 s: an mtime younger than this does not prove that nothing came after it. */
const COARSEST_MTIME_MS = 2000

/** What tells one state of a directory from another. */
export interface Stamp {
  readonly inode: number
  /** NaN, which equals nothing, when the mtime proves nothing. */
  readonly mtimeMs: number
  /** Bytes of the directory itself: a hint how many names it holds. */
  readonly bytes: number
}

export const UNKNOWN: Stamp = { inode: 0, mtimeMs: Number.NaN, bytes: Number.POSITIVE_INFINITY }

/** Directories of a spool by their prefixes: '' for the spool itself, `5/` for a priority. */
export type Stamped = ReadonlyMap<string, { readonly stamp: Stamp }>

/** The path of a directory of a spool. */
export function directoryOf(spool: string, prefix: string): string {
  return prefix === '' ? spool : `${spool}/${prefix.slice(0, -1)}`
}

/** Takes the stamp of a directory; to be called before the directory is listed. */
export type TakeStamp = (path: string) => Stamp | Promise<Stamp>

interface Stats {
  readonly ino: number
  readonly mtimeMs: number
  readonly size: number
}

function stampOf({ ino, mtimeMs, size }: Stats): Stamp {
  const isOld = mtimeMs < Date.now() - COARSEST_MTIME_MS
  return { inode: ino, mtimeMs: isOld ? mtimeMs : Number.NaN, bytes: size }
}

/** Of a local directory: 3 µs, where a promise takes 30. */
export function takeStampSync(path: string): Stamp {
  try {
    return stampOf(statSync(toFsPath(path)))
  } catch {
    return UNKNOWN
  }
}

export async function takeStampAsync(path: string): Promise<Stamp> {
  try {
    return stampOf(await stat(toFsPath(path)))
  } catch {
    return UNKNOWN
  }
}

export function isSame(one: Stamp, other: Stamp): boolean {
  return one.inode === other.inode && one.mtimeMs === other.mtimeMs
}

export function stampTaker(isLocal: boolean): TakeStamp {
  return isLocal ? takeStampSync : takeStampAsync
}

/**
 * Remembers how the directories of a spool looked before they were listed: while no name was made, renamed or removed
 * in any of them, another listing would tell nothing new. One `stat` a directory instead of a listing of a million names.
 */
export class Stamps {
  readonly #spool: string
  #stamped: Stamped = new Map()

  constructor(spool: string) {
    this.#spool = spool
  }

  /** The stamps of one complete scan replace those of the last. */
  keep(stamped: Stamped): void {
    this.#stamped = stamped
  }

  async isUnchanged(take: TakeStamp): Promise<boolean> {
    if (this.#stamped.size === 0) return false
    const slices = new Slices()
    for (const [prefix, { stamp }] of this.#stamped) {
      const taken = take(directoryOf(this.#spool, prefix))
      if (!isSame(stamp, taken instanceof Promise ? await taken : taken)) return false
      const rest = slices.rest()
      if (rest !== undefined) await rest
    }
    return true
  }
}

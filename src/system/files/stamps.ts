import { type Stats, statSync } from 'node:fs'
import { opendir, stat, statfs } from 'node:fs/promises'
import { quietly } from '../../base/errors.js'
import { COARSEST_TIME_MS } from '../../base/own-clock.js'
import { toFsPath } from '../../base/task/ref.js'

/** Distinguishes one state of a directory from another. */
export interface Stamp {
  readonly inode: number
  /** NaN, which equals nothing, if the times are too recent to prove that nothing changed. */
  readonly mtimeMs: number
  /** The ctime: rsync, tar and cp can restore an mtime, but nothing can set this one. */
  readonly ctimeMs: number
  /** The size of the directory itself: hints at how many names it holds. */
  readonly bytes: number
}

export const UNKNOWN: Stamp = {
  inode: 0,
  mtimeMs: Number.NaN,
  ctimeMs: Number.NaN,
  bytes: Number.POSITIVE_INFINITY,
}

/** The path of a directory in a spool, from its prefix: '' for the spool itself, `5/` for a priority. */
export function directoryOf(spool: string, prefix: string): string {
  return prefix === '' ? spool : `${spool}/${prefix.slice(0, -1)}`
}

/** Takes the stamp of a directory. Call it before listing the directory. */
export type TakeStamp = (path: string) => Stamp | Promise<Stamp>

/**
 * Returns the stamp of a directory. Take it before you list the directory: a recent time does not prove that nothing arrived
 * after it.
 */
function stampOf({ ino, mtimeMs, ctimeMs, size }: Stats): Stamp {
  const isOld = Math.max(mtimeMs, ctimeMs) < Date.now() - COARSEST_TIME_MS
  return { inode: ino, mtimeMs: isOld ? mtimeMs : Number.NaN, ctimeMs, bytes: size }
}

/** The stamp of a local directory: 3 µs instead of 30 µs with a promise. */
export function takeStampSync(path: string): Stamp {
  return quietly(() => stampOf(statSync(toFsPath(path))), UNKNOWN)
}

/**
 * The stamp of a directory that other hosts change: over NFS, stat answers from memory for up to a minute, unless an open
 * has asked the server.
 */
export async function takeStampAsync(path: string): Promise<Stamp> {
  try {
    const directory = await opendir(toFsPath(path))
    try {
      return stampOf(await stat(toFsPath(path)))
    } finally {
      await directory.close()
    }
  } catch {
    return UNKNOWN
  }
}

export function isSame(one: Stamp, other: Stamp): boolean {
  const { inode, mtimeMs, ctimeMs } = one
  return inode === other.inode && mtimeMs === other.mtimeMs && ctimeMs === other.ctimeMs
}

export function stampTaker(isLocal: boolean): TakeStamp {
  return isLocal ? takeStampSync : takeStampAsync
}

/**
 * File systems that another host or a user process can change without raising an event here, and that may be slow to
 * answer: NFS, SMB, SMB2, FUSE, 9p, Ceph, Lustre, AFS, GPFS, VirtualBox (statfs f_type).
 */
const REMOTE = new Set([
  0x6969, 0x517b, 0xfe534d42, 0x65735546, 0x01021997, 0x00c36400, 0x0bd00bd0, 0x5346414f, 0x47504653,
  0x786f4256,
])

/** Returns true if the directory is on a disk or in the memory of this machine, so that every change raises an event. */
export async function isLocal(path: string): Promise<boolean> {
  return !REMOTE.has((await statfs(toFsPath(path))).type)
}

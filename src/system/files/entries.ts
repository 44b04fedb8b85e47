import { constants, type Dirent, readdirSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { Slices } from '../../base/each.js'
import { errnoOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { ENTRY_DIRECTORY, ENTRY_FILE, eachEntry } from '../calls.js'
import { systemCalls } from '../libc.js'
import { named, openSync } from './anchored-path.js'
import type { Stamp } from './stamps.js'

/** Entries per read: few enough not to block the event loop, enough for a million names per second. */
const ENTRIES_PER_READ = 1024
/** A directory of at most this size holds at most a thousand names, and is listed within a millisecond. */
const SMALL_BYTES = 16 * 1024
const NAMES = { encoding: 'latin1' as BufferEncoding } as const

function open(path: string): ReturnType<typeof opendir> {
  return opendir(toFsPath(path), { ...NAMES, bufferSize: ENTRIES_PER_READ })
}

export function isSmall({ bytes }: Stamp): boolean {
  return bytes <= SMALL_BYTES
}

/** Lists a small directory synchronously, because a promise would cost more than the listing. */
export function listAtOnce(path: string): Dirent[] {
  return readdirSync(toFsPath(path), { ...NAMES, withFileTypes: true })
}

/** Streams the entries of a directory, with names as byte strings; none if the directory does not exist. */
export async function* listEntries(path: string) {
  try {
    yield* await open(path)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

/** Called for each entry. @param kind ENTRY_FILE, ENTRY_DIRECTORY, UNTOLD, or another one @returns false to leave the rest */
type Meet = (name: string, kind: number) => boolean

/** The kind of an entry that is neither a file nor a directory. */
const OTHER = 255

function kindOf(entry: Dirent): number {
  if (entry.isFile()) return ENTRY_FILE
  return entry.isDirectory() ? ENTRY_DIRECTORY : OTHER
}

/** Bytes per read: at most two thousand names, which are met within 2 ms. */
const SLICE_BYTES = 64 * 1024
const LISTED = constants.O_RDONLY | constants.O_DIRECTORY

/** Compares entries by the bytes of their names: a name is a byte string. */
function byName([a]: [string, number], [b]: [string, number]): number {
  return a < b ? -1 : 1
}

/**
 * Meets the entries of a small directory of a local file system in the order of their names, synchronously: people look at
 * such lists, and `readdir` sorts them, too.
 *
 * @returns false if `meet` did
 * @throws the error of `opendir`
 */
export function meetAtOnce(path: string, meet: Meet): boolean {
  const calls = systemCalls()
  if (!calls.isLibc) return listAtOnce(path).every(entry => meet(entry.name, kindOf(entry)))
  const fd = openSync(path, LISTED)
  try {
    const slice = Buffer.allocUnsafe(SLICE_BYTES)
    const entries: [name: string, kind: number][] = []
    for (let bytes = calls.getdents(fd, slice); bytes > 0; bytes = calls.getdents(fd, slice))
      eachEntry(slice, bytes, (...entry) => entries.push(entry) > 0)
    return entries.sort(byName).every(entry => meet(...entry))
  } finally {
    calls.close(fd)
  }
}

/** The same for directories with millions of entries, which come in no order. */
export function meetAll(path: string, isLocal: boolean, meet: Meet): Promise<boolean> {
  return isLocal && systemCalls().isLibc ? meetBySlices(path, meet) : meetByNode(path, meet)
}

/** A read that takes longer comes from a disk, and not from memory. */
const QUICK_MS = 2

/**
 * Reads in a thread, so that a stalling disk holds up nobody else. After a quick read, the next one is made here, because
 * changing threads costs as much as reading from memory. After a read that was not quick, the next one is made in a thread
 * again.
 */
async function meetBySlices(path: string, meet: Meet): Promise<boolean> {
  const calls = systemCalls()
  const fd = openSync(path, LISTED)
  const slice = Buffer.allocUnsafeSlow(SLICE_BYTES)
  const slices = new Slices()
  try {
    for (let isQuick = false; ; ) {
      const since = performance.now()
      const bytes = isQuick ? calls.getdents(fd, slice) : await calls.getdentsAside(fd, slice)
      isQuick = performance.now() - since < QUICK_MS
      if (bytes === 0) return true
      if (!eachEntry(slice, bytes, meet)) return false
      await slices.rest()
    }
  } finally {
    calls.close(fd)
  }
}

/** Reads with Node, whose `opendir` opens and reads in a thread, too: a file system of another host may be slow to answer. */
async function meetByNode(path: string, meet: Meet): Promise<boolean> {
  for await (const entry of await open(path)) if (!meet(entry.name, kindOf(entry))) return false
  return true
}

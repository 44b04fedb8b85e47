import { type Dirent, readdirSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { errnoOf } from '../base/errors.js'
import { toFsPath } from '../task/ref.js'
import { named } from './anchored-path.js'
import { type Stamp, takeStampSync } from './stamps.js'

/** Entries per read: few enough not to block the event loop, enough to read a million names in a second. */
const ENTRIES_PER_READ = 1024
/** A directory up to this size holds at most a thousand names, and is listed in a millisecond. */
const SMALL_BYTES = 16 * 1024
const NAMES = { encoding: 'latin1' as BufferEncoding } as const

function open(path: string): ReturnType<typeof opendir> {
  return opendir(toFsPath(path), { ...NAMES, bufferSize: ENTRIES_PER_READ })
}

export function isSmall({ bytes }: Stamp): boolean {
  return bytes <= SMALL_BYTES
}

/** Synchronous: for a small directory, the promise would cost more than the listing. */
export function listAtOnce(path: string): Dirent[] {
  return readdirSync(toFsPath(path), { ...NAMES, withFileTypes: true })
}

/**
 * The entries of a directory as they are read, names as byte strings; none when there is no such directory.
 *
 * @param isWanted what else there is does not even cost a promise
 */
export async function* listEntries(path: string, isWanted?: (entry: Dirent) => boolean) {
  try {
    for await (const entry of await open(path)) if (isWanted?.(entry) !== false) yield entry
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

/** The same where no network and no other process is asked: a small directory is listed at once. */
export async function* listLocalEntries(path: string, isWanted?: (entry: Dirent) => boolean) {
  if (!isSmall(takeStampSync(path))) return yield* listEntries(path, isWanted)
  try {
    for (const entry of listAtOnce(path)) if (isWanted?.(entry) !== false) yield entry
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

/**
 * The same for directories of millions, as arrays: a promise per entry costs twice as much as the rest of the listing.
 *
 * @param isLocal what one read has buffered is taken without asking whether there is more of it, and at the end of the
 * directory the kernel is asked once without waiting for a thread; where that may take long, each entry is waited for
 * @throws the error of `opendir`
 */
export async function* entryBatches(path: string, isLocal: boolean): AsyncGenerator<readonly Dirent[]> {
  const directory = await open(path)
  try {
    for (let first = await directory.read(); first !== null; first = await directory.read()) {
      const batch = [first]
      while (batch.length < ENTRIES_PER_READ) {
        const next = isLocal ? directory.readSync() : await directory.read()
        if (next === null) break
        batch.push(next)
      }
      yield batch
    }
  } finally {
    await directory.close()
  }
}

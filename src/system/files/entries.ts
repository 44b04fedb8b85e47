import { type Dirent, readdirSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { errnoOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { named } from './anchored-path.js'
import { type Stamp, takeStampSync } from './stamps.js'

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

/** Synchronous: for a small directory, a promise would cost more than the listing. */
export function listAtOnce(path: string): Dirent[] {
  return readdirSync(toFsPath(path), { ...NAMES, withFileTypes: true })
}

/**
 * Streams the entries of a directory, with names as byte strings; none if the directory does not exist.
 *
 * @param isWanted filters before the promise per entry, so that unwanted entries cost almost nothing
 */
export async function* listEntries(path: string, isWanted?: (entry: Dirent) => boolean) {
  try {
    for await (const entry of await open(path)) if (isWanted?.(entry) !== false) yield entry
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

/** The same for a local file system: a small directory is listed synchronously. */
export async function* listLocalEntries(path: string, isWanted?: (entry: Dirent) => boolean) {
  if (!isSmall(takeStampSync(path))) return yield* listEntries(path, isWanted)
  try {
    for (const entry of listAtOnce(path)) if (isWanted?.(entry) !== false) yield entry
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

/**
 * The same in batches, for directories with millions of entries: a promise per entry costs twice as much as the rest of
 * the listing.
 *
 * @param isLocal the file system answers fast: the buffered rest of a batch is read synchronously, which makes a blocking
 * system call only at the end of the directory. Otherwise each entry is read asynchronously.
 * @throws the error of `opendir`
 */
export async function* entryBatches(path: string, isLocal: boolean): AsyncGenerator<readonly Dirent[]> {
  const directory = await open(path)
  try {
    for (let first = await directory.read(); first !== null; ) {
      const batch = [first]
      while (batch.length < ENTRIES_PER_READ) {
        const next = isLocal ? directory.readSync() : await directory.read()
        if (next === null) break
        batch.push(next)
      }
      const next = directory.read() // a thread of the pool reads it while these are looked at
      next.catch(() => {}) // where it is awaited, it is thrown again; who leaves earlier does not care
      yield batch
      first = await next
    }
  } finally {
    await directory.close()
  }
}

import { opendir } from 'node:fs/promises'
import { errnoOf } from '../base/errors.js'
import { toFsPath } from '../task/ref.js'
import { named } from './anchored.js'

const ENTRIES_A_READ = 2048

/** The entries of a directory as they are read, names as byte strings; none when there is no such directory. */
export async function* listEntries(path: string) {
  try {
    yield* await opendir(toFsPath(path), {
      encoding: 'latin1' as BufferEncoding,
      bufferSize: ENTRIES_A_READ,
    })
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

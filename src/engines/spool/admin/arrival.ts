import { closeSync, constants } from 'node:fs'
import { errnoOf, SpooldError } from '../../../base/errors.js'
import { baseName, displayName, type Ref, toFsPath } from '../../../base/task/ref.js'
import { openSync, unlinkSync } from '../../../system/files/anchored-path.js'
import { createTaskName, isPriorityDirectory, isTaskName } from '../names.js'
import { type FileDirectory, holdDirectoryOf } from '../priority-directory.js'
import { isNoRoom } from '../store/write.js'
import type { OpenSpool } from './change.js'

/** A name reserved in a spool: an empty, locked file, which no daemon runs, and which a rename replaces. */
interface Arrival {
  readonly ref: Ref
  /** Its directory, a byte string; valid until `end`. */
  readonly directory: string
  /** Its path; valid until `end`. */
  readonly fsPath: string | Buffer
  /** Removes the empty file if no task has arrived, and releases the lock in any case. */
  end(hasArrived: boolean): void
}

const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL
const NAMES = { ordered: true, strictNames: false }

/**
 * Reserves a name for a task that is brought into a spool: its own or, if that is taken, a new one of uWSGI's form. After
 * a kill the empty file remains; it is never run, and is buried as incomplete after the grace period.
 */
export function makeArrival({ spool, locker }: OpenSpool, wanted: Ref): Arrival {
  const prefix = directoryOf(wanted)
  const directory = makePriorityDirectories(spool, prefix)
  try {
    const name = baseName(wanted)
    const isFit = name !== '' && isTaskName(name, NAMES)
    const made = (isFit ? tryCreate(directory.path, name) : undefined) ?? create(directory.path)
    const { name: arrived, fd } = made
    const [ref, fsPath] = [prefix + arrived, toFsPath(`${directory.path}/${arrived}`)]
    const isLocked = fd !== undefined && locker.tryLock(fd, ref)
    return {
      ref,
      directory: directory.path,
      fsPath,
      end(hasArrived) {
        if (!hasArrived && fd !== undefined) unlinkSync(fsPath)
        if (isLocked) locker.unlock(ref)
        if (fd !== undefined) closeSync(fd)
        directory.release()
      },
    }
  } catch (error) {
    directory.release()
    throw error
  }
}

interface Made {
  readonly name: string
  /** undefined: no space for an empty file; the name is unique anyway. */
  readonly fd: number | undefined
}

function create(directory: string): Made {
  for (;;) {
    const made = tryCreate(directory, createTaskName())
    if (made !== undefined) return made
  }
}

function tryCreate(directory: string, name: string): Made | undefined {
  try {
    return { name, fd: openSync(toFsPath(`${directory}/${name}`), NEW_FILE, 0o600) }
  } catch (error) {
    if (isNoRoom(error)) return { name: createTaskName(), fd: undefined }
    if (errnoOf(error) !== 'EEXIST') throw error
    return undefined
  }
}

/** The priority of a path, with a trailing slash; '' if it has none, or if its directory is not a priority. */
function directoryOf(ref: Ref): string {
  const names = ref.split('/').slice(0, -1)
  return names.every(isPriorityDirectory) ? names.map(name => `${name}/`).join('') : ''
}

/** Creates missing priority directories. */
function makePriorityDirectories(spool: string, prefix: string): FileDirectory {
  try {
    return holdDirectoryOf(spool, `${prefix}task`, { mayMake: true })
  } catch (error) {
    if (errnoOf(error) !== 'ENOTDIR') throw error
    throw new SpooldError(
      'SPOOL_UNUSABLE',
      `${displayName(`${spool}/${prefix}`)} is a file or a link, not a directory; remove it`,
    )
  }
}

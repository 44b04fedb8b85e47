import { closeSync, constants, lstatSync, mkdirSync, openSync, unlinkSync } from 'node:fs'
import { errnoOf, SpooldError } from '../base/errors.js'
import { baseName, displayName, type Ref, toFsPath } from '../task/ref.js'
import type { OpenSpool } from './change.js'
import { createTaskName, isPriorityDirectory, isTaskName } from './file-name.js'

/** A name in a spool that is ours: an empty file, locked, which is no task for anybody, and which one rename replaces. */
export interface Arrival {
  readonly ref: Ref
  /** Gives the place up when nothing came, and the lock in any case. */
  end(hasCome: boolean): void
}

const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL
const NAMES = { ordered: true, strictNames: false }

/**
 * Makes room for a task that comes into a spool: under its own name, or under a fresh one of uWSGI's form when that is
 * taken. A kill leaves the empty file; it is never run, and buried as incomplete after its grace.
 */
export function makeArrival({ spool, locker }: OpenSpool, wanted: Ref): Arrival {
  const prefix = directoryOf(wanted)
  makeWay(spool, prefix)
  const name = baseName(wanted)
  const isFit = name !== '' && isTaskName(name, NAMES)
  const opened = (isFit ? tryCreate(spool, prefix + name) : undefined) ?? create(spool, prefix)
  const { ref, fd } = opened
  const isLocked = locker.tryLock(fd, ref)
  return {
    ref,
    end(hasCome) {
      if (!hasCome) unlinkSync(toFsPath(`${spool}/${ref}`))
      if (isLocked) locker.unlock(ref)
      closeSync(fd)
    },
  }
}

function create(spool: string, prefix: string): { ref: Ref; fd: number } {
  for (;;) {
    const created = tryCreate(spool, prefix + createTaskName())
    if (created !== undefined) return created
  }
}

function tryCreate(spool: string, ref: Ref): { ref: Ref; fd: number } | undefined {
  try {
    return { ref, fd: openSync(toFsPath(`${spool}/${ref}`), NEW_FILE, 0o600) }
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    return undefined
  }
}

/** The priority that a path lies in, with a slash behind it; '' for what is none, or leads elsewhere. */
function directoryOf(ref: Ref): string {
  const names = ref.split('/').slice(0, -1)
  return names.every(isPriorityDirectory) ? names.map(name => `${name}/`).join('') : ''
}

/** Makes priority directories as uWSGI does: 0777 less the umask. */
function makeWay(spool: string, prefix: string): void {
  const names = prefix.split('/').slice(0, -1)
  for (const [i] of names.entries()) {
    const path = `${spool}/${names.slice(0, i + 1).join('/')}`
    try {
      mkdirSync(toFsPath(path))
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error
    }
    if (!lstatSync(toFsPath(path)).isDirectory())
      throw new SpooldError('SPOOL_UNUSABLE', `${displayName(path)} is no directory; remove it`)
  }
}

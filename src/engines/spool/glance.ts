import { closeSync, constants } from 'node:fs'
import { baseName, type Ref, toFsPath } from '../../base/task/ref.js'
import { lstatSync, openSync } from '../../system/files/anchored-path.js'
import { holdDirectoryOf } from './priority-directory.js'
import { readState, STARTED } from './state-byte.js'

/** What a look at the file of a task tells, without a claim. `begun`: its run goes on, or its process has died. */
export type Glance = 'gone' | 'begun' | 'at rest'

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Of what cannot be looked at, a worker says why. @param spool its real path, a byte string */
export function glance(spool: string, ref: Ref): Glance {
  try {
    if (lstatSync(toFsPath(`${spool}/${ref}`)) === undefined) return 'gone' // an open would have to throw, at ten times the price
    return hasBegun(spool, ref) ? 'begun' : 'at rest'
  } catch {
    return 'at rest'
  }
}

function hasBegun(spool: string, ref: Ref): boolean {
  const directory = holdDirectoryOf(spool, ref)
  try {
    const fd = openSync(toFsPath(`${directory.path}/${baseName(ref)}`), READ)
    try {
      return (readState(fd) & STARTED) !== 0
    } finally {
      closeSync(fd)
    }
  } finally {
    directory.release()
  }
}

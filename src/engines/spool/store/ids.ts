import { errnoOf, SpooldError } from '../../../base/errors.js'
import { crypto } from '../../../base/on-demand.js'
import { baseName, type Ref, toFsPath } from '../../../base/task/ref.js'
import { nameOf, readlinkSync, renameSync, symlinkSync } from '../../../system/files/anchored-path.js'
import { UWSGI_PREFIX } from '../names.js'
import { inDirectoryOf } from '../priority-directory.js'
import { makeStateRoom, stateRoom } from '../state-directory.js'
import { hiddenRef } from './draft.js'

/**
 * Ids that callers gave: `.spoold/ids/<sha-256 of the id>`, a symbolic link whose text is the task's ref. A link is made
 * in one step, whole, and only where there is none: so of all who bring the same id one wins, without a lock.
 *
 * Its states: the link is there and so is the hidden file: the task was promised and is whole, but its writer has not
 * come to rename it (yet, or ever), and whoever finds it so does it for him. No hidden file: the task is, or was, there.
 */
/** What may stand in a link: a name of ours, at most one priority above it. */
const REF = new RegExp(`^(?:[0-9]{1,255}/)?${UWSGI_PREFIX}[^/]+$`)

export function idsDirectory(spool: string): string {
  return stateRoom(spool, 'ids')
}

/** The path of its link. */
export function idLink(spool: string, id: string): string {
  return `${idsDirectory(spool)}/${crypto().createHash('sha256').update(id).digest('hex')}`
}

/** @returns the task that has this id; undefined when none has */
export function findId(spool: string, id: string): Ref | undefined {
  return readId(idLink(spool, id))
}

/** @returns the task that has the id now: `ref`, or another one that was quicker */
export function takeId(spool: string, id: string, ref: Ref): Ref {
  makeStateRoom(spool, 'ids', '')
  const link = idLink(spool, id)
  for (;;)
    try {
      symlinkSync(toFsPath(ref), link)
      return ref
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error
      const other = readId(link)
      if (other !== undefined) return other // else it was swept this very moment
    }
}

/** Publishes a promised task, unless that was done before. @returns whether it was done now */
export function publishPromised(spool: string, ref: Ref): boolean {
  try {
    inDirectoryOf(spool, ref, directory =>
      renameSync(
        toFsPath(`${directory}/${hiddenRef(baseName(ref))}`),
        toFsPath(`${directory}/${baseName(ref)}`),
      ),
    )
    return true
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') throw error
    return false
  }
}

/** @param link the path of a link in `.spoold/ids` */
export function readId(link: string): Ref | undefined {
  let ref: Ref
  try {
    ref = readlinkSync(toFsPath(link))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
    if (errnoOf(error) !== 'EINVAL') throw error
    ref = '' // no link
  }
  if (REF.test(ref)) return ref
  throw new SpooldError(
    'ENQUEUE_FAILED',
    `${nameOf(link)} is no id of ours (it says ${JSON.stringify(ref)}); remove it`,
    { details: { path: nameOf(link) } },
  )
}

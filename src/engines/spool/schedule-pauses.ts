import { errnoOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { lstatSync, symlinkSync, unlinkSync } from '../../system/files/anchored-path.js'
import { syncDirectory } from '../../system/files/disk-sync.js'
import { listAtOnce } from '../../system/files/entries.js'
import { hasStateRoom, makeStateRoom, reopenState, stateRoom } from './state-directory.js'

/**
 * The schedules of a spool that people have paused: `.spoold/periodic/<hash>.paused`, a symbolic link, which is made in one step and
 * takes no block of the disk. Its time says since when; its text says nothing.
 */
const LINK = /^([0-9a-f]{64})\.paused$/
/** A daemon has 1024 schedules and some periodic tasks; the directory is listed each second. */
const MOST = 4096

/** @param spool its real path, a byte string @returns since when, epoch ms, by `scheduleHash` */
export function readSchedulePauses(spool: string): Map<string, number> {
  if (!hasStateRoom(spool, 'periodic')) return new Map()
  const room = stateRoom(spool, 'periodic')
  return new Map(
    listAtOnce(room).flatMap(({ name }) => {
      const hash = LINK.exec(name)?.[1]
      return hash === undefined
        ? []
        : [[hash, Math.round(lstatSync(toFsPath(`${room}/${name}`))?.mtimeMs ?? 0)]]
    }),
  )
}

/** On disk when this resolves. @throws Error when there are too many, or the error of the file system */
export async function pauseSchedule(spool: string, hash: string): Promise<void> {
  if (readSchedulePauses(spool).size >= MOST) throw new Error(`${MOST} schedules are paused already`)
  try {
    const room = makeStateRoom(spool, 'periodic', '')
    try {
      symlinkSync('paused', toFsPath(`${room}/${hash}.paused`))
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error
    }
    await syncDirectory(room)
  } catch (error) {
    reopenState(spool)
    throw error
  }
}

/** @returns false if it was not paused */
export async function resumeSchedule(spool: string, hash: string): Promise<boolean> {
  if (!hasStateRoom(spool, 'periodic')) return false
  const room = stateRoom(spool, 'periodic')
  try {
    unlinkSync(toFsPath(`${room}/${hash}.paused`))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    reopenState(spool)
    throw error
  }
  await syncDirectory(room)
  return true
}

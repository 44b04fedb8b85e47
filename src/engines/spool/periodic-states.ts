import { closeSync, constants } from 'node:fs'
import { errnoOf } from '../../base/errors.js'
import { crypto } from '../../base/on-demand.js'
import { type Ref, toByteString, toFsPath } from '../../base/task/ref.js'
import { isPeriodicEntry, type PeriodicEntry, type PeriodicState } from '../../base/task/schedule.js'
import { lstatSync, openSync, readlinkSync, symlinkSync } from '../../system/files/anchored-path.js'
import { syncDirectory } from '../../system/files/disk-sync.js'
import { listAtOnce } from '../../system/files/entries.js'
import { packetState } from './spool-file.js'
import { STARTED } from './state-byte.js'
import { hasStateRoom, makeStateRoom, removeIfThere, reopenState, stateRoom } from './state-directory.js'

/**
 * What a spool remembers of periodic tasks: `.spoold/periodic/<sha-256 of the name>.<version>`, a symbolic link whose text is the
 * entry as JSON. A link is made in one step, whole, and only where there is none: so of all daemons that find a task due
 * one makes the next version and stores the task, without a lock, and whatever clock or file system they have.
 */
const LINK = /^([0-9a-f]{64})\.([1-9][0-9]{0,14})$/

interface Link {
  readonly file: string
  readonly key: string
  readonly version: number
}

/** @param spool its real path, a byte string @returns the latest entries, by `periodicKey` */
export function readPeriodic(spool: string): Map<string, PeriodicState> {
  const room = stateRoom(spool, 'periodic')
  const latest = new Map<string, Link>()
  for (const link of linksIn(spool))
    if ((latest.get(link.key)?.version ?? 0) < link.version) latest.set(link.key, link)
  try {
    return new Map(
      [...latest].map(([key, { file, version }]) => [
        key,
        { version, entry: readEntry(`${room}/${file}`, key) },
      ]),
    )
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
    return readPeriodic(spool) // one was replaced since it was listed
  }
}

export function periodicKey(name: string): string {
  return crypto().createHash('sha256').update(name).digest('hex')
}

/**
 * Replaces the entry of this version; 0: there is none.
 *
 * @param sync on disk when it resolves
 * @returns false if somebody else was faster
 */
export async function advancePeriodic(
  spool: string,
  entry: PeriodicEntry,
  from: number,
  sync: boolean,
): Promise<boolean> {
  return changing(spool, async () => {
    const room = makeStateRoom(spool, 'periodic', '')
    if (!replace(spool, room, entry, from)) return false
    if (sync) await syncDirectory(room)
    return true
  })
}

function replace(spool: string, room: string, entry: PeriodicEntry, from: number): boolean {
  const key = periodicKey(entry.name)
  const path = `${room}/${key}.${from + 1}`
  if (!makeLink(toByteString(JSON.stringify(entry)), path)) return false
  const others = linksIn(spool).filter(link => link.key === key && link.version !== from + 1)
  if (others.some(({ version }) => version > from)) {
    removeIfThere(path) // we were suspended since we read, and made a version that had come and gone
    return false
  }
  for (const { file } of others)
    try {
      removeIfThere(`${room}/${file}`)
    } catch {} // not ours; it is never read again
  return true
}

/** Removes all that is known under this key, unless it is newer than this version. */
export function forgetPeriodic(spool: string, key: string, version: number): void {
  const room = stateRoom(spool, 'periodic')
  for (const link of linksIn(spool))
    if (link.key === key && link.version <= version) removeIfThere(`${room}/${link.file}`)
}

/** @returns `waiting` also between two runs, and for a file that cannot be read */
export function fateOfRun(spool: string, ref: Ref): 'gone' | 'waiting' | 'begun' {
  let fd: number
  try {
    fd = openSync(toFsPath(`${spool}/${ref}`), constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    return errnoOf(error) === 'ENOENT' ? 'gone' : 'waiting'
  }
  try {
    return ((packetState(fd) ?? 0) & STARTED) === 0 ? 'waiting' : 'begun'
  } finally {
    closeSync(fd)
  }
}

function linksIn(spool: string): Link[] {
  if (!hasStateRoom(spool, 'periodic')) return []
  return listAtOnce(stateRoom(spool, 'periodic')).flatMap(({ name }) => {
    const [, key, version] = LINK.exec(name) ?? []
    return key === undefined ? [] : [{ file: name, key, version: Number(version) }]
  })
}

/** @returns undefined if it is none that spoold writes */
function readEntry(path: string, key: string): PeriodicEntry | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(readlinkSync(toFsPath(path)), 'latin1').toString())
    return isPeriodicEntry(value) && periodicKey(value.name) === key ? value : undefined
  } catch (error) {
    if (errnoOf(error) === undefined || errnoOf(error) === 'EINVAL') return undefined // no JSON, or no link
    throw error
  }
}

/**
 * The schedules of a spool that people have paused: `.spoold/periodic/<hash>.paused`, a symbolic link, which is made in one step and
 * takes no block of the disk. Its time says since when; its text says nothing.
 */
const PAUSED = /^([0-9a-f]{64})\.paused$/
/** A daemon has 1024 schedules and some periodic tasks; the directory is listed each second. */
const MOST_PAUSED = 4096

/** @param spool its real path, a byte string @returns since when, epoch ms, by `scheduleHash` */
export function readSchedulePauses(spool: string): Map<string, number> {
  if (!hasStateRoom(spool, 'periodic')) return new Map()
  const room = stateRoom(spool, 'periodic')
  return new Map(
    listAtOnce(room).flatMap(({ name }) => {
      const hash = PAUSED.exec(name)?.[1]
      return hash === undefined
        ? []
        : [[hash, Math.round(lstatSync(toFsPath(`${room}/${name}`))?.mtimeMs ?? 0)]]
    }),
  )
}

/** On disk when this resolves. @throws Error when there are too many, or the error of the file system */
export async function pauseSchedule(spool: string, hash: string): Promise<void> {
  if (readSchedulePauses(spool).size >= MOST_PAUSED)
    throw new Error(`${MOST_PAUSED} schedules are paused already`)
  return changing(spool, () => {
    const room = makeStateRoom(spool, 'periodic', '')
    makeLink('paused', `${room}/${hash}.paused`)
    return syncDirectory(room)
  })
}

/** @returns false if it was not paused */
export async function resumeSchedule(spool: string, hash: string): Promise<boolean> {
  if (!hasStateRoom(spool, 'periodic')) return false
  return changing(spool, async () => {
    const room = stateRoom(spool, 'periodic')
    if (!removeIfThere(`${room}/${hash}.paused`)) return false
    await syncDirectory(room)
    return true
  })
}

/** After a refusal `.spoold` is opened again: it may have been that of a mount which is gone. */
async function changing<T>(spool: string, change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    reopenState(spool)
    throw error
  }
}

function makeLink(text: string, path: string): boolean {
  try {
    symlinkSync(toFsPath(text), toFsPath(path))
    return true
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    return false
  }
}

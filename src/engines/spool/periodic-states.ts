import { closeSync, constants } from 'node:fs'
import { errnoOf, quietly } from '../../base/errors.js'
import { crypto } from '../../base/on-demand.js'
import { displayName, toByteString, toFsPath } from '../../base/task/ref.js'
import {
  isPeriodicEntry,
  type PeriodicEntry,
  type PeriodicState,
  type PeriodicStates,
  type SchedulePauses,
} from '../../base/task/schedule.js'
import { lstatSync, openSafely, readlinkSync, symlinkSync } from '../../system/files/anchored-path.js'
import { syncDirectory } from '../../system/files/disk-sync.js'
import { listAtOnce } from '../../system/files/entries.js'
import { createTaskName } from './names.js'
import { packetState } from './spool-file.js'
import { STARTED } from './state-byte.js'
import { hasStateRoom, makeStateRoom, removeIfThere, reopenState, stateRoom } from './state-directory.js'

/**
 * What a spool remembers of periodic tasks: `.spoold/periodic/<sha-256 of the name>.<version>`, a symbolic link whose text is
 * the entry as JSON. A link is made whole, in one step, and only where there is none. So of all daemons that find a task due,
 * one makes the next version and stores the task, without a lock, and whatever clock or file system they have.
 */
const LINK = /^([0-9a-f]{64})\.([1-9][0-9]{0,14})$/

interface Link {
  readonly file: string
  readonly key: string
  readonly version: number
}

/** @param spool its real path, a byte string */
export function periodicStates(spool: string): PeriodicStates {
  return {
    read: () => readPeriodic(spool),
    keyOf,
    newTask: () => displayName(createTaskName()),
    advance: (entry, from, isLasting) =>
      changing(spool, async () => {
        const room = makeStateRoom(spool, 'periodic', '')
        if (!replace(spool, room, entry, from)) return false
        if (isLasting) await syncDirectory(room)
        return true
      }),
    forget(key, version) {
      const room = stateRoom(spool, 'periodic')
      for (const link of linksIn(spool))
        if (link.key === key && link.version <= version) removeIfThere(`${room}/${link.file}`)
    },
    fateOf: task => fateOf(`${spool}/${toByteString(task)}`),
  }
}

/** @param spool its real path, a byte string @returns the latest entries, by key */
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
    return readPeriodic(spool) // a link was replaced since it was listed
  }
}

function keyOf(name: string): string {
  return crypto().createHash('sha256').update(name).digest('hex')
}

function replace(spool: string, room: string, entry: PeriodicEntry, from: number): boolean {
  const key = keyOf(entry.name)
  const path = `${room}/${key}.${from + 1}`
  if (!makeLink(toByteString(JSON.stringify(entry)), path)) return false
  const others = linksIn(spool).filter(link => link.key === key && link.version !== from + 1)
  if (others.some(({ version }) => version > from)) {
    // this process was suspended after it had read, and made a version that had come and gone
    removeIfThere(path)
    return false
  }
  // a link that is not ours may stay: it is never read again
  for (const { file } of others) quietly(() => removeIfThere(`${room}/${file}`))
  return true
}

/** Returns what has become of a task: `waiting` also between two runs, and for a file that cannot be read. */
function fateOf(path: string): 'gone' | 'waiting' | 'begun' {
  let fd: number
  try {
    fd = openSafely(path, constants.O_RDONLY)
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

/** @returns undefined if the link is not one that spoold writes */
function readEntry(path: string, key: string): PeriodicEntry | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(readlinkSync(toFsPath(path)), 'latin1').toString())
    return isPeriodicEntry(value) && keyOf(value.name) === key ? value : undefined
  } catch (error) {
    if (errnoOf(error) === undefined || errnoOf(error) === 'EINVAL') return undefined // no JSON, or no link
    throw error
  }
}

/**
 * The schedules of a spool that people have paused: `.spoold/periodic/<hash>.paused`, a symbolic link, which is made in one
 * step and takes no block of the disk. The link's mtime says since when; its text says nothing.
 */
const PAUSED = /^([0-9a-f]{64})\.paused$/
/**
 * The maximum number of paused schedules, because the directory is listed each second. A daemon has at most 1024 schedules, and
 * some periodic tasks.
 */
const MOST_PAUSED = 4096

/** @param spool its real path, a byte string */
export function schedulePauses(spool: string): SchedulePauses {
  const read = () => readPauses(spool)
  return {
    read,
    async pause(hash) {
      if (read().size >= MOST_PAUSED) throw new Error(`${MOST_PAUSED} schedules are paused already`)
      return changing(spool, () => {
        const room = makeStateRoom(spool, 'periodic', '')
        makeLink('paused', `${room}/${hash}.paused`)
        return syncDirectory(room)
      })
    },
    async resume(hash) {
      if (!hasStateRoom(spool, 'periodic')) return false
      return changing(spool, async () => {
        const room = stateRoom(spool, 'periodic')
        if (!removeIfThere(`${room}/${hash}.paused`)) return false
        await syncDirectory(room)
        return true
      })
    },
  }
}

function readPauses(spool: string): Map<string, number> {
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

/** Makes a change. After a refusal, `.spoold` is opened again: the open one may be that of a mount which is gone. */
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

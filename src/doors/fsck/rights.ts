import { lstatSync, type Stats } from 'node:fs'
import { errnoOf, messageOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { baseName, displayName, toFsPath } from '../../base/task/ref.js'
import { unwritable } from '../../engines/spool/admin/task-view.js'
import { isLeased } from '../../engines/spool/locker.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import type { Owner } from '../../engines/spool/permissions.js'
import { inDirectoryOf } from '../../engines/spool/priority-directory.js'
import { renameSync } from '../../system/files/anchored-path.js'
import { type ExaminedSpool, entriesIn, filesIn, isOurDirectory, statsOf, tasksIn } from './examined-spool.js'
import { type Finding, OVER, REPAIRED, type Repair } from './finding.js'
import { Handle } from './handle.js'

const ROOMS = ['records', 'dead', 'ids', 'locks', 'slots', 'periodic']

/** Finds what is not a directory in the place of `.spoold` or one of its subdirectories. The repair moves it aside. */
export async function* checkStateDirectories(examined: ExaminedSpool): AsyncGenerator<Finding> {
  for (const path of [STATE_DIRECTORY, ...ROOMS.map(room => `${STATE_DIRECTORY}/${room}`)]) {
    const stats = statsOf(examined, path)
    if (stats === undefined || stats.isDirectory()) continue
    const aside = freeName(examined, path)
    yield {
      kind: 'state-directory',
      path,
      meaning: `it is ${stats.isSymbolicLink() ? 'a symbolic link' : 'not a directory'}, so it is not entered: records, dead letters and ids are not found`,
      fix: `mv -T ${wordOf(examined, path)} ${wordOf(examined, aside)}`,
      repair() {
        if (statsOf(examined, path)?.isDirectory() !== false) return OVER
        inDirectoryOf(examined.spool, path, directory =>
          renameSync(toFsPath(`${directory}/${baseName(path)}`), toFsPath(`${directory}/${baseName(aside)}`)),
        )
        return { kind: 'repaired', detail: `it is ${displayName(aside)} now` }
      },
    }
    if (path === STATE_DIRECTORY) return
  }
}

function freeName(examined: ExaminedSpool, path: string): string {
  for (let n = 1; ; n++) {
    const name = n === 1 ? `${path}.old` : `${path}.old.${n}`
    if (statsOf(examined, name) === undefined) return name
  }
}

/** Finds what the spool's user cannot open although it has to. */
export async function* checkRights(examined: ExaminedSpool): AsyncGenerator<Finding> {
  const owner = lstatSync(toFsPath(`${examined.spool}/.`)).uid
  if (owner !== 0 && owner !== examined.user.uid && process.geteuid?.() === 0)
    return yield {
      kind: 'rights',
      path: '',
      meaning: `it belongs to uid ${owner}, in whose directory root gives nothing to uid ${examined.user.uid}`,
      fix: `set uid = ${owner}, or name a spool of uid ${examined.user.uid}`,
    }
  const own = unwritableEntry(examined, '')
  if (own !== undefined) return yield own
  const state = statsOf(examined, STATE_DIRECTORY)
  if (state?.isDirectory()) yield* checkEntry(examined, STATE_DIRECTORY, isPrivate) // otherwise it is put aside
  for (const room of ROOMS)
    if (isOurDirectory(examined, room)) {
      yield* checkEntry(examined, `${STATE_DIRECTORY}/${room}`, isOpenDirectory)
      for await (const name of entriesOf(examined, room))
        yield* checkEntry(examined, `${STATE_DIRECTORY}/${room}/${name}`, isUsable)
    }
  for await (const ref of tasksIn(examined)) {
    yield* checkEntry(examined, ref, isUsable)
    const never = unwritableEntry(examined, ref)
    if (never !== undefined) yield never
  }
}

/** Finds an entry that nobody can write to, so that no task there starts or ends, whoever runs the daemon. */
function unwritableEntry(examined: ExaminedSpool, path: string): Finding | undefined {
  const place = `${examined.spool}/${path}`
  const why = unwritable(place)
  if (why === undefined) return undefined
  return {
    kind: 'rights',
    path,
    meaning: `nobody can write to it, so no run can be settled: ${why}`,
    fix: `chattr -i ${wordOf(examined, path === '' ? '.' : path)}, or mount its file system with rw`,
    isStill: () => unwritable(place) !== undefined,
  }
}

/** Yields the files of a directory, and the priority directories among them. */
async function* entriesOf(examined: ExaminedSpool, room: string): AsyncGenerator<string> {
  if (room === 'locks') return // a lease is created again when it is taken over
  for await (const entry of entriesIn(examined, `${STATE_DIRECTORY}/${room}`))
    if (entry.isDirectory()) yield entry.name
  yield* filesIn(examined, room)
}

type Rule = (stats: Stats, user: Owner) => boolean

const isPrivate: Rule = (stats, user) => isOwned(stats, user) && (stats.mode & 0o777) === 0o700
const isOpenDirectory: Rule = (stats, user) => isOwned(stats, user) && (stats.mode & 0o700) === 0o700
const isOwned = ({ uid }: Stats, user: Owner) => user.uid === 0 || uid === user.uid

/** True if the user may use a file. The permission bits apply as in the kernel; a common group is the spool's. */
function isUsable(stats: Stats, user: Owner): boolean {
  const needed = stats.isDirectory() ? 7 : 6
  const shift = stats.uid === user.uid ? 6 : stats.gid === user.gid ? 3 : 0
  return user.uid === 0 || ((stats.mode >> shift) & needed) === needed
}

async function* checkEntry(examined: ExaminedSpool, path: string, isRight: Rule): AsyncGenerator<Finding> {
  const { user } = examined
  const stats = statsOf(examined, path)
  const isWrong = (now = statsOf(examined, path)) =>
    now !== undefined && (now.isFile() || now.isDirectory()) && !isRight(now, user)
  if (stats === undefined || !isWrong(stats)) return
  const mode = stats.isDirectory() ? 0o700 : 0o600 | (stats.mode & 0o7777)
  const isChown = user.uid !== 0 && stats.uid !== user.uid
  yield {
    kind: 'rights',
    path,
    meaning: `owner ${stats.uid}:${stats.gid}, mode ${(stats.mode & 0o7777).toString(8).padStart(4, '0')}: ${meaningOf(path, stats, user)}`,
    // a command with the file's name could be led elsewhere by whoever may rename files in the spool
    fix: `set ${isChown ? `owner ${user.uid}:${user.gid}, ` : ''}mode ${mode.toString(8).padStart(4, '0')}: --repair does${isChown ? ', as root' : ''}`,
    isStill: () => isWrong(),
    repair: () => changeRights(examined, path, { isWrong, mode, owner: isChown ? user : null }),
  }
}

function meaningOf(path: string, stats: Stats, { uid }: Owner): string {
  if (path === STATE_DIRECTORY) return `it has to belong to uid ${uid}, with mode 0700`
  if (stats.isDirectory()) return `uid ${uid} cannot keep anything there`
  return path.startsWith(STATE_DIRECTORY)
    ? `uid ${uid} cannot read it`
    : `uid ${uid} cannot run it, so it waits forever`
}

interface Change {
  readonly isWrong: (stats: Stats) => boolean
  readonly mode: number
  readonly owner: Owner | null
}

function changeRights({ spool }: ExaminedSpool, path: string, { isWrong, mode, owner }: Change): Repair {
  let handle: Handle | undefined
  try {
    handle = new Handle(spool, path)
    const stats = handle.stats()
    if (!isWrong(stats) || isLeased(spool, path)) return OVER
    if (stats.isFile() && stats.nlink > 1)
      return { kind: 'left', detail: `it has ${stats.nlink} names, and the others may be outside the spool` }
    if (owner !== null && stats.isFile() && !handle.looksLikeOurs())
      return { kind: 'left', detail: 'it is not a spool packet: look at it before you change its owner' }
    if (owner !== null && stats.uid === 0 && !isOnlyOurs(spool, path, handle, stats))
      return { kind: 'left', detail: 'it belongs to root, and is not only what spoold keeps there' }
    if (owner !== null) handle.chown(owner)
    handle.chmod(mode)
    return REPAIRED
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return OVER
    return { kind: 'left', detail: messageOf(error) }
  } finally {
    handle?.close()
  }
}

const STATE_NAMES =
  /^(?:records|dead|locks|ids|slots|periodic|(?:format|paused|hide|audit|probe|\.?control)(?:[-.].*)?)$/
/** A directory of root's with more names than this is for people to look at. */
const MOST_NAMES = 1000

/**
 * True if the file or directory has only what spoold keeps there. The owner of the spool may have moved it there, in order to be
 * given it.
 */
function isOnlyOurs(spool: string, path: string, handle: Handle, stats: Stats): boolean {
  if (!stats.isDirectory()) return handle.isOurs()
  const names = handle.names()
  if (path === STATE_DIRECTORY) return names.every(name => STATE_NAMES.test(name))
  if (names.length > MOST_NAMES) return false
  return names.every(name => {
    const entry = new Handle(spool, `${path}/${name}`)
    try {
      const found = entry.stats()
      return found.uid !== 0 || found.isSymbolicLink() || isOnlyOurs(spool, `${path}/${name}`, entry, found)
    } finally {
      entry.close()
    }
  })
}

function wordOf({ shown }: ExaminedSpool, path: string): string {
  return shellWord(toFsPath(`${shown}/${path}`))
}

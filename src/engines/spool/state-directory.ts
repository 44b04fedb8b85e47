import { errnoOf, quietly, SpooldError } from '../../base/errors.js'
import { crypto } from '../../base/on-demand.js'
import { displayName, type Ref, toFsPath } from '../../base/task/ref.js'
import {
  chmodSync,
  createFileSync,
  type Directory,
  holdDirectory,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statusOf,
  unlinkSync,
} from '../../system/files/anchored-path.js'
import { STATE_DIRECTORY } from './names.js'
import { foreignState, me } from './permissions.js'

export type StateRoom = 'records' | 'dead' | 'locks' | 'ids' | 'slots' | 'periodic'

interface State {
  readonly directory: Directory
  isUsed: boolean
}

/** Open `.spoold` directories by spool, cached for uses in quick succession, such as a series of failures. */
const states = new Map<string, State>()
let mostStates = Number.POSITIVE_INFINITY
/** Directories that are released one interval later, because operations that have begun may still use their paths. */
let retired: Directory[] = []
const IDLE_MS = 1000
let clock: NodeJS.Timeout | undefined

/** Closes directories that were idle for an interval: an open one would keep its file system from being unmounted. */
function tidy(): void {
  for (const directory of retired) directory.release()
  retired = []
  for (const [spool, state] of states) {
    if (!state.isUsed) retire(spool, state)
    state.isUsed = false
  }
  if (states.size + retired.length > 0) return
  clearInterval(clock)
  clock = undefined
}

function retire(spool: string, { directory }: State): void {
  states.delete(spool)
  retired.push(directory)
}

function keep(spool: string, directory: Directory): void {
  const [first] = states
  if (first !== undefined && states.size >= mostStates) {
    states.delete(first[0])
    first[1].directory.release()
  }
  states.set(spool, { directory, isUsed: true })
  clock ??= setInterval(tidy, IDLE_MS).unref()
}

/**
 * Returns the path of `.spoold`, a byte string. It is anchored, because users who may write to the spool could replace the
 * directory. It must be a real directory, and belong to us or to the owner of the spool that we are looking at.
 *
 * @returns undefined if there is none
 * @throws SpooldError SPOOL_UNUSABLE for anything else of that name
 */
export function findState(spool: string): string | undefined {
  const path = `${spool}/${STATE_DIRECTORY}`
  const status = statusOf(toFsPath(path))
  const known = states.get(spool)
  if (known !== undefined && status?.isSame(known.directory.status) === true) {
    known.isUsed = true
    return known.directory.path
  }
  if (status === undefined) return undefined
  const directory = hold(path)
  try {
    checkOwner(spool, directory)
  } catch (error) {
    directory.release()
    throw error
  }
  if (known !== undefined) retire(spool, known)
  keep(spool, directory)
  return directory.path
}

/**
 * Makes this process hold the `.spoold` of at most so many spools open: one more closes that of the first. For a command, which
 * goes from spool to spool; more than so many must not be in use at the same time.
 */
export function holdStates(most: number): void {
  mostStates = most
}

/**
 * Makes the next use reopen `.spoold`. Call it after a refused write: the open directory belongs to the mount in which it
 * was opened, which may have been read-only, or may be gone.
 */
export function reopenState(spool: string): void {
  const known = states.get(spool)
  if (known !== undefined) retire(spool, known)
}

function hold(path: string): Directory {
  try {
    return holdDirectory(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOTDIR' || errnoOf(error) === 'ELOOP') throw notDirectory(path)
    throw error
  }
}

function checkOwner(spool: string, { status: { uid: owner } }: Directory): void {
  // `/.` because the path of a descriptor is a link
  if (owner === me().uid || owner === lstatSync(toFsPath(`${spool}/.`))?.uid) return
  throw foreignState(displayName(spool), owner, me())
}

/** Creates `.spoold` if it is missing, and removes other users' access. @returns its path, see `findState` */
export function makeState(spool: string): string {
  for (;;) {
    const path = findState(spool)
    if (path === undefined) makeDirectory(`${spool}/${STATE_DIRECTORY}`, 0o700)
    else {
      const status = states.get(spool)?.directory.status
      if (status !== undefined && (status.mode & 0o77) !== 0 && status.uid === me().uid)
        chmodSync(toFsPath(path), 0o700)
      return path
    }
  }
}

/** Returns the path of a directory in `.spoold`, a byte string. If `.spoold` is missing, the path does not exist. */
export function stateRoom(spool: string, room: StateRoom): string {
  return `${findState(spool) ?? `${spool}/${STATE_DIRECTORY}`}/${room}`
}

/**
 * Creates a directory in `.spoold`, and the subdirectories that `ref` needs (its priority), each 0700.
 *
 * @throws SpooldError SPOOL_UNUSABLE if one of them is not a directory, such as a symlink that leads out of the spool
 */
export function makeStateRoom(spool: string, room: StateRoom, ref: string): string {
  const top = `${makeState(spool)}/${room}`
  makeOwn(spool, top, room)
  for (let cut = ref.indexOf('/'); cut >= 0; cut = ref.indexOf('/', cut + 1))
    makeOwn(spool, `${top}/${ref.slice(0, cut)}`, `${room}/${ref.slice(0, cut)}`)
  return top
}

function makeOwn(spool: string, path: string, name: string): void {
  makeDirectory(path, 0o700)
  const stats = lstatSync(toFsPath(path))
  if (stats?.isDirectory() !== true) throw notDirectory(`${spool}/${STATE_DIRECTORY}/${name}`)
}

/**
 * Creates a directory, unless it is there because another process was faster.
 *
 * @param path a byte string
 * @param mode by default 0777 minus the umask
 */
export function makeDirectory(path: string, mode?: number): void {
  try {
    mkdirSync(toFsPath(path), mode)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  }
}

function notDirectory(path: string): SpooldError {
  return new SpooldError('SPOOL_UNUSABLE', `${displayName(path)} is not a directory; remove it`)
}

/** True if the directory is there, in a `.spoold` of ours. Anything else of that name is ignored. */
export function hasStateRoom(spool: string, room: StateRoom): boolean {
  try {
    const state = findState(spool)
    return state !== undefined && lstatSync(toFsPath(`${state}/${room}`))?.isDirectory() === true
  } catch (error) {
    if (errnoOf(error) === 'SPOOL_UNUSABLE') return false
    throw error
  }
}

/** Returns what a JSON file of ours says; undefined if there is none, or if it is no JSON. @param path a byte string */
export function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(toFsPath(path)))
  } catch (error) {
    if (errnoOf(error) === undefined || errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** @param path a byte string @returns false if there was none */
export function removeIfThere(path: string): boolean {
  try {
    unlinkSync(toFsPath(path))
    return true
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
    return false
  }
}

/** Writes a file atomically; the last writer wins. @param flush sync the content to disk before the rename */
export function writeWhole(path: string, text: string, { flush }: { flush: boolean }): void {
  const unfinished = toFsPath(`${path}.${crypto().randomBytes(4).toString('hex')}.tmp`)
  try {
    createFileSync(unfinished, text, flush)
    renameSync(unfinished, toFsPath(path))
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') quietly(() => unlinkSync(unfinished)) // it may not be there
    throw error
  }
}

/**
 * The JSON of a task with a longer path is named by a hash: file names are limited to 255 bytes, and ours are longer than the
 * task's.
 */
const NAME_BYTES = 200

/** Returns the path of a task's JSON below `.spoold/records` or `.spoold/dead`, a byte string. */
export function jsonNameOf(ref: Ref): string {
  return `${isNamedInFull(ref) ? ref : crypto().createHash('sha1').update(ref, 'latin1').digest('hex')}.json`
}

/** True if the name of the JSON names its task; otherwise the JSON itself has to. */
export function isNamedInFull(ref: Ref): boolean {
  return ref.length <= NAME_BYTES
}

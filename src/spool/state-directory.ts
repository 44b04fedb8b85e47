import type { BigIntStats } from 'node:fs'
import { crypto } from '../base/crypto.js'
import { errnoOf, SpooldError } from '../base/errors.js'
import {
  chmodSync,
  createFileSync,
  type Directory,
  holdDirectory,
  lstatExactlySync,
  lstatSync,
  mkdirSync,
  renameSync,
  unlinkSync,
} from '../files/anchored-path.js'
import { displayName, toFsPath } from '../task/ref.js'
import { STATE_DIRECTORY } from './names.js'
import { foreignState, me } from './permissions.js'

type StateRoom = 'records' | 'dead' | 'locks' | 'ids'

interface State {
  readonly directory: Directory
  isUsed: boolean
}

/** By spool. Kept between two uses that follow each other soon, as one failure follows another. */
const states = new Map<string, State>()
/** A path may still be in use for a moment by what was begun with it. */
let retired: Directory[] = []
const IDLE_MS = 1000
let clock: NodeJS.Timeout | undefined

/** What was not used since the last time is closed the next time: it must not keep a file system from being unmounted. */
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
  states.set(spool, { directory, isUsed: true })
  clock ??= setInterval(tidy, IDLE_MS).unref()
}

/**
 * The path of `.spoold`, a byte string, anchored: who may write to the spool may exchange the name. Taken is only a real
 * directory that belongs to us, or to the owner of the spool, whose tasks somebody else looks at.
 *
 * @returns undefined when there is none
 * @throws SpooldError SPOOL_UNUSABLE for what else has its name
 */
export function findState(spool: string): string | undefined {
  const path = `${spool}/${STATE_DIRECTORY}`
  const stats = lstatExactlySync(toFsPath(path))
  const known = states.get(spool)
  if (known !== undefined && isSame(stats, known.directory.stats)) {
    known.isUsed = true
    return known.directory.path
  }
  if (stats === undefined) return undefined
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
 * Opens `.spoold` anew the next time. An open directory stays in the mount in which it was opened, which may have been
 * read-only, and be gone: whoever was refused tries it by its name again.
 */
export function reopenState(spool: string): void {
  const known = states.get(spool)
  if (known !== undefined) retire(spool, known)
}

function isSame(a: BigIntStats | undefined, b: BigIntStats): boolean {
  return a?.ino === b.ino && a.dev === b.dev
}

function hold(path: string): Directory {
  try {
    return holdDirectory(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOTDIR' || errnoOf(error) === 'ELOOP') throw notDirectory(path)
    throw error
  }
}

function checkOwner(spool: string, { stats: { uid } }: Directory): void {
  const owner = Number(uid)
  if (owner === me().uid || owner === lstatSync(toFsPath(spool))?.uid) return
  throw foreignState(displayName(spool), owner, me())
}

/** Makes `.spoold` where it is missing, and closes it to all others. @returns its path, see `findState` */
export function makeState(spool: string): string {
  for (;;) {
    const path = findState(spool)
    if (path === undefined) makeDirectory(`${spool}/${STATE_DIRECTORY}`)
    else {
      const stats = states.get(spool)?.directory.stats
      if (stats !== undefined && (stats.mode & 0o77n) !== 0n && Number(stats.uid) === me().uid)
        chmodSync(toFsPath(path), 0o700)
      return path
    }
  }
}

/** The path of one of our rooms in a spool, a byte string; of one that is not there when `.spoold` is not. */
export function stateRoom(spool: string, room: StateRoom): string {
  return `${findState(spool) ?? `${spool}/${STATE_DIRECTORY}`}/${room}`
}

/**
 * Makes a room, and in it the directories that `ref` needs (its priority), each 0700.
 *
 * @throws SpooldError SPOOL_UNUSABLE when one of them is something else, such as a link that leads out of the spool
 */
export function makeStateRoom(spool: string, room: StateRoom, ref: string): string {
  const top = `${makeState(spool)}/${room}`
  makeOwn(spool, top, room)
  for (let cut = ref.indexOf('/'); cut >= 0; cut = ref.indexOf('/', cut + 1))
    makeOwn(spool, `${top}/${ref.slice(0, cut)}`, `${room}/${ref.slice(0, cut)}`)
  return top
}

function makeOwn(spool: string, path: string, name: string): void {
  makeDirectory(path)
  const stats = lstatSync(toFsPath(path))
  if (stats?.isDirectory() !== true) throw notDirectory(`${spool}/${STATE_DIRECTORY}/${name}`)
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(toFsPath(path), 0o700)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  }
}

function notDirectory(path: string): SpooldError {
  return new SpooldError('SPOOL_UNUSABLE', `${displayName(path)} is not a directory; remove it`)
}

/** Is the room there, and ours? Whatever else has its name is passed by. */
export function hasStateRoom(spool: string, room: StateRoom): boolean {
  const state = hasState(spool)
  return state !== undefined && lstatSync(toFsPath(`${state}/${room}`))?.isDirectory() === true
}

function hasState(spool: string): string | undefined {
  try {
    return findState(spool)
  } catch (error) {
    if (errnoOf(error) === 'SPOOL_UNUSABLE') return undefined
    throw error
  }
}

/** Writes a file whole or not at all; whoever wrote it last wins. `flush`: it is on disk before it has its name. */
export function writeWhole(path: string, text: string, { flush }: { flush: boolean }): void {
  const unfinished = toFsPath(`${path}.${crypto().randomBytes(4).toString('hex')}.tmp`)
  try {
    createFileSync(unfinished, text, flush)
    renameSync(unfinished, toFsPath(path))
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') removeQuietly(unfinished)
    throw error
  }
}

function removeQuietly(path: string | Buffer): void {
  try {
    unlinkSync(path)
  } catch {} // it was not made, or its directory is gone
}

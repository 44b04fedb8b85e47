import { lstatSync, mkdirSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { errnoOf, SpooldError } from '../base/errors.js'
import { displayName, toFsPath } from '../task/ref.js'
import { STATE_DIRECTORY } from './file-name.js'

export type StateRoom = 'records' | 'dead' | 'locks'

/** The path of one of our rooms in a spool, a byte string. */
export function stateRoom(spool: string, room: StateRoom): string {
  return `${spool}/${STATE_DIRECTORY}/${room}`
}

/**
 * Makes a room, and in it the directories that `ref` needs (its priority), each 0700.
 *
 * @throws SpooldError SPOOL_UNUSABLE when one of them is something else, such as a link that leads out of the spool
 */
export function makeStateRoom(spool: string, room: StateRoom, ref: string): void {
  const paths = [`${spool}/${STATE_DIRECTORY}`, stateRoom(spool, room)]
  for (let cut = ref.indexOf('/'); cut >= 0; cut = ref.indexOf('/', cut + 1))
    paths.push(`${stateRoom(spool, room)}/${ref.slice(0, cut)}`)
  for (const path of paths) {
    try {
      mkdirSync(toFsPath(path), 0o700)
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error
    }
    if (!lstatSync(toFsPath(path)).isDirectory())
      throw new SpooldError('SPOOL_UNUSABLE', `${displayName(path)} is no directory; remove it`)
  }
}

/** Is the room there, and ours? Whatever else has its name is passed by. */
export function hasStateRoom(spool: string, room: StateRoom): boolean {
  return [`${spool}/${STATE_DIRECTORY}`, stateRoom(spool, room)].every(
    path => lstatSync(toFsPath(path), { throwIfNoEntry: false })?.isDirectory() === true,
  )
}

/** Writes a file whole or not at all; whoever wrote it last wins. `flush`: it is on disk before it has its name. */
export function writeWhole(path: string, text: string, { flush }: { flush: boolean }): void {
  const unfinished = toFsPath(`${path}.${process.pid}.tmp`)
  try {
    writeFileSync(unfinished, text, { mode: 0o600, flush })
    renameSync(unfinished, toFsPath(path))
  } catch (error) {
    try {
      unlinkSync(unfinished)
    } catch {} // it was not made, or its directory is gone
    throw error
  }
}

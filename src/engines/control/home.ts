import {
  closeSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { crypto } from '../../base/on-demand.js'
import { tryHold } from '../../system/libc.js'
import { STATE_DIRECTORY } from '../spool/names.js'
import { CONTROL_LOCK } from './names.js'

/**
 * Returns the directory of this machine for the control socket of a spool that is no directory, but on Redis. The spool's daemons
 * tell in Redis where it is.
 *
 * @param spool its name
 */
export function controlHomeOf(spool: string): string {
  return join(ownDirectory(), nameOf(spool))
}

function nameOf(spool: string): string {
  return crypto().createHash('sha256').update(spool).digest('hex').slice(0, 16)
}

let own: { readonly uid: number; readonly path: string } | undefined

/**
 * Returns this user's directory. If the usual name is taken by another user, it is one with a random name: Redis tells it in any
 * case.
 */
function ownDirectory(): string {
  const usual = usualDirectory()
  if (isOwn(usual)) return usual
  if (own?.uid !== uid()) own = { uid: uid(), path: mkdtempSync(`${usual}.`) }
  return own.path
}

/** Returns the usual path, below the first of these directories that there is. The last one has directories of many users. */
function usualDirectory(): string {
  const { RUNTIME_DIRECTORY = '', XDG_RUNTIME_DIR = '' } = process.env
  const [ofService = ''] = RUNTIME_DIRECTORY.split(':')
  const isOurs =
    XDG_RUNTIME_DIR !== '' && lstatSync(XDG_RUNTIME_DIR, { throwIfNoEntry: false })?.uid === uid()
  const parent = ofService || (isOurs ? XDG_RUNTIME_DIR : '') || tmpdir()
  return join(parent, `spoold-${uid()}`)
}

/** True if the directory is closed to all others, or does not exist yet. */
function isOwn(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  return stats === undefined || isClosedTo(stats, uid())
}

/** True if nobody but this user can enter the directory. */
function isClosedTo(stats: Stats, user: number): boolean {
  return stats.isDirectory() && stats.uid === user && (stats.mode & 0o77) === 0
}

/** Makes the directory, closed to all others. @throws Error if it cannot be made, or another user was faster */
export function makeControlHome(spool: string): string {
  const home = controlHomeOf(spool)
  mkdirSync(dirname(home), { recursive: true, mode: 0o700 })
  if (!isOwn(dirname(home)))
    throw new Error(`${dirname(home)} is not a directory that only uid ${uid()} may use`)
  mkdirSync(home, { recursive: true, mode: 0o700 })
  return home
}

/**
 * Removes the directory, unless another daemon of the spool has its socket there, or is about to. A daemon that starts at this
 * moment makes it again.
 */
export async function removeControlHome(home: string): Promise<void> {
  const state = join(home, STATE_DIRECTORY)
  const lock = join(state, CONTROL_LOCK)
  let fd: number | undefined
  try {
    fd = openSync(lock, 'r+')
    if (!(await tryHold(fd)) || readdirSync(state).some(name => name !== CONTROL_LOCK)) return
    unlinkSync(lock)
    rmdirSync(state)
    rmdirSync(home)
    if (dirname(home) === own?.path) {
      rmdirSync(own.path)
      own = undefined
    }
  } catch {
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** Users whose daemons are asked besides those of this process's own user: root, and those of configurations. */
const believed = new Set([0])

/** Trusts daemons of this user, because a configuration names the user: they are asked, and obeyed. */
export function believeDaemonsOf(user: number): void {
  believed.add(user)
}

/**
 * True if daemons may be asked at a directory that Redis names. Anybody can write to Redis, so the directory has to be one that a
 * daemon makes for this spool, and belong to this user, to root, or to the user that a configuration names.
 */
export function isControlHome(home: string, spool: string): boolean {
  const above = dirname(home)
  const user = Number(/^spoold-(\d+)(?:\.\w+)?$/.exec(basename(above))?.[1])
  if (basename(home) !== nameOf(spool) || !(believed.has(user) || user === uid())) return false
  return [above, home].every(path => {
    const stats = lstatSync(path, { throwIfNoEntry: false })
    return stats !== undefined && isClosedTo(stats, user)
  })
}

function uid(): number {
  return process.geteuid?.() ?? 0
}

import { createHash } from 'node:crypto'
import { closeSync, lstatSync, mkdirSync, openSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CONTROL_LOCK } from '../../engines/control/names.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { tryHold } from '../../system/libc.js'

/**
 * A directory of this machine for the control socket of a spool that has none: one on Redis. Its daemons tell in Redis where it is.
 *
 * @param spool its name
 */
export function controlHomeOf(spool: string): string {
  return join(ownDirectory(), createHash('sha256').update(spool).digest('hex').slice(0, 16))
}

/** Below the first of these that there is; the last one has directories of many users. */
function ownDirectory(): string {
  const { RUNTIME_DIRECTORY = '', XDG_RUNTIME_DIR = '' } = process.env
  const [ofService = ''] = RUNTIME_DIRECTORY.split(':')
  const isOwn = XDG_RUNTIME_DIR !== '' && lstatSync(XDG_RUNTIME_DIR, { throwIfNoEntry: false })?.uid === uid()
  const parent = ofService || (isOwn ? XDG_RUNTIME_DIR : '') || tmpdir()
  return join(parent, `spoold-${uid()}`)
}

/**
 * Makes it, closed to all others.
 *
 * @throws Error if somebody else has made it
 */
export function makeControlHome(spool: string): string {
  const own = ownDirectory()
  mkdirSync(own, { recursive: true, mode: 0o700 })
  const stats = lstatSync(own)
  if (!stats.isDirectory() || stats.uid !== uid() || (stats.mode & 0o77) !== 0)
    throw new Error(`${own} is not a directory that only uid ${uid()} may use`)
  const home = controlHomeOf(spool)
  mkdirSync(home, { recursive: true, mode: 0o700 })
  return home
}

/** Unless another daemon of the spool has its socket there, or is about to: one that starts in this moment makes it again. */
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
  } catch {
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function uid(): number {
  return process.geteuid?.() ?? 0
}

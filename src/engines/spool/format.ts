import { toByteString, toFsPath } from '../../base/task/ref.js'
import { readFileSync } from '../../system/files/anchored-path.js'
import type { LockKind } from './locker.js'
import { findState, makeState, writeWhole } from './state-directory.js'

/** The version of spoold's files in a spool. 1: spoold 0.1.0, which wrote no number; 2: see docs/spool-format.md. */
const FORMAT = 2
const LOCKS = /^locks (ofd|lockfile)$/

/**
 * Adds our format version to those already used in the spool, one per line, in `.spoold/format`, and says how its tasks are
 * claimed now. It is meant for people, for future versions, and for a process that cannot take record locks. A failed write
 * does not prevent tasks from running.
 *
 * @param spool its real path
 */
export function noteFormat(spool: string, locks: LockKind): void {
  try {
    const path = `${makeState(toByteString(spool))}/format`
    const seen = read(path)
    const others = seen.filter(line => !LOCKS.test(line) && line !== String(FORMAT))
    const noted = [...others, String(FORMAT), `locks ${locks}`]
    if (noted.every(line => seen.includes(line)) && noted.length === seen.length) return
    writeWhole(path, `${noted.join('\n')}\n`, { flush: false })
  } catch {}
}

/** How the last daemon claimed tasks of the spool; undefined: that is not known. */
export function notedLocks(spool: string): LockKind | undefined {
  const state = findState(toByteString(spool))
  const [, locks] =
    (state === undefined ? [] : read(`${state}/format`)).map(line => LOCKS.exec(line)).find(Boolean) ?? []
  return locks === 'ofd' || locks === 'lockfile' ? locks : undefined
}

function read(path: string): string[] {
  try {
    return readFileSync(toFsPath(path)).split('\n').filter(Boolean)
  } catch {
    return []
  }
}

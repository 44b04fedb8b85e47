import { accessSync, chmodSync, chownSync, constants, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../base/errors.js'
import { STATE_DIRECTORY } from './file-name.js'

/** Who is going to use the directory, when that is somebody else than the process that makes it. */
export interface Owner {
  readonly uid: number
  readonly gid: number
}

/**
 * Makes the spool directory when it is missing (0750, one level, as uWSGI) and gives it to `owner`: uWSGI leaves a
 * directory that it made as root to root, and its spoolers then cannot use it.
 *
 * @returns the real path: the spool's identity, by which a directory named twice is one spool.
 * @throws SpooldError SPOOL_UNUSABLE that says which check failed and the command that mends it.
 */
export function prepareSpool(path: string, owner: Owner | null): string {
  const absolute = resolve(path)
  if (makeDirectory(absolute, 0o750, owner)) chmodSync(absolute, 0o750)
  const real = realpathSync(absolute)
  if (!statSync(real).isDirectory())
    throw unusable(
      absolute,
      'it is not a directory',
      `mv ${absolute} ${absolute}.old && mkdir -m 0750 ${absolute}`,
    )
  return real
}

/** Our own directory inside the spool, 0700. */
export function prepareStateDirectory(spool: string, owner: Owner | null): void {
  makeDirectory(join(spool, STATE_DIRECTORY), 0o700, owner)
}

/** @returns whether it was made now */
function makeDirectory(path: string, mode: number, owner: Owner | null): boolean {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    if (errnoOf(error) === 'ENOENT')
      throw unusable(path, `its parent ${dirname(path)} does not exist`, installCommand(path, owner), error)
    throw unusable(path, `it cannot be made (${messageOf(error)})`, installCommand(path, owner), error)
  }
  if (owner !== null) chownSync(path, owner.uid, owner.gid)
  return true
}

/**
 * Checks, as the user that will do it, that tasks can be read, written and removed here.
 *
 * @throws SpooldError SPOOL_UNUSABLE
 */
export function checkSpool(spool: string): void {
  const checks = [
    [constants.R_OK, 'listed'],
    [constants.W_OK, 'written to'],
    [constants.X_OK, 'entered'],
  ] as const
  for (const [mode, verb] of checks)
    try {
      accessSync(spool, mode)
    } catch (error) {
      const { uid, gid, mode: bits } = statSync(spool)
      const me = process.geteuid?.() ?? 0
      const state = `owner ${uid}:${gid}, mode ${(bits & 0o7777).toString(8).padStart(4, '0')}`
      const mend = `chown ${me}:${process.getegid?.() ?? 0} ${spool} && chmod 0750 ${spool}`
      throw unusable(spool, `it cannot be ${verb} by uid ${me} (${state})`, mend, error)
    }
}

function installCommand(path: string, owner: Owner | null): string {
  const who = owner ?? { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 }
  return `install -d -m 0750 -o ${who.uid} -g ${who.gid} ${path}`
}

function unusable(path: string, fault: string, mend: string, cause?: unknown): SpooldError {
  return new SpooldError(
    'SPOOL_UNUSABLE',
    `the spool directory ${path} cannot be used: ${fault}. To mend it: ${mend}`,
    {
      cause,
      details: { path },
    },
  )
}

import { lstatSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../base/errors.js'
import { isPriorityDirectory, STATE_DIRECTORY } from '../spool/file-name.js'
import { type Ref, toByteString } from '../task/ref.js'

/** What a path on the command line means: a whole spool, or one task in it. */
export interface Place {
  /** As it is to be printed: what was given, as far as that goes. */
  readonly shown: string
  /** The spool's real path. */
  readonly spool: string
  /** undefined: all of it. */
  readonly ref?: Ref
}

/** @throws SpooldError FILE_UNREADABLE for what does not exist; USAGE for a priority in the place of its spool */
export function placeOf(path: string): Place {
  try {
    return lstatSync(path).isDirectory() || statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
      ? wholeSpool(path)
      : taskAt(path)
  } catch (error) {
    if (error instanceof SpooldError) throw error
    const isMissing = errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR'
    const fault = isMissing ? 'does not exist' : `cannot be read: ${messageOf(error)}`
    throw new SpooldError('FILE_UNREADABLE', `${path} ${fault}`, { cause: error })
  }
}

function wholeSpool(path: string): Place {
  const spool = realpathSync(path)
  const above = spoolAbove(spool)
  if (above === spool || !isUsed(above)) return { shown: path, spool }
  throw new SpooldError(
    'USAGE',
    `${path} is a part of the spool ${above}: name that, with --priority ${basename(spool)}, or files in it`,
  )
}

function taskAt(path: string): Place {
  const directory = realpathSync(dirname(path))
  const full = join(directory, basename(path))
  const spool = spoolAbove(directory)
  const ref = full.slice(spool.length + 1)
  const shown = path.endsWith(ref) ? path.slice(0, -ref.length).replace(/(?<=.)\/$/, '') : spool
  return { shown: shown === '' ? '.' : shown, spool, ref: toByteString(ref) }
}

/** The spool that a directory belongs to: `.spoold` tells; else it is the first one above that is no priority. */
function spoolAbove(directory: string): string {
  const cut = directory.indexOf(`/${STATE_DIRECTORY}/`)
  if (cut > 0) return directory.slice(0, cut)
  let spool = directory
  while (!isUsed(spool) && isPriorityDirectory(basename(spool))) spool = dirname(spool)
  return spool
}

function isUsed(spool: string): boolean {
  return statSync(join(spool, STATE_DIRECTORY), { throwIfNoEntry: false })?.isDirectory() === true
}

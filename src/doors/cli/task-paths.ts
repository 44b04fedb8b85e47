import { lstatSync, opendirSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { type Ref, toByteString } from '../../base/task/ref.js'
import { isPriorityDirectory, STATE_DIRECTORY } from '../../engines/spool/names.js'
import { redisPath } from './redis-paths.js'

/** A path on the command line: a whole spool, or one task in it. */
export interface TaskPath {
  /** The spool's path for output: as given, where possible. */
  readonly shown: string
  /** The spool's real path, or its name on Redis. */
  readonly spool: string
  /** undefined: the whole spool. */
  readonly ref?: Ref
}

/**
 * @param ifGone what to say if it is nowhere
 * @throws SpooldError FILE_UNREADABLE if the path does not exist; USAGE if it is a priority instead of a spool
 */
export function parseTaskPath(path: string, ifGone = ''): TaskPath {
  const onRedis = redisPath(path)
  if (onRedis !== undefined) return onRedis
  try {
    return lstatSync(path).isDirectory() || statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
      ? wholeSpool(path)
      : taskAt(path)
  } catch (error) {
    if (error instanceof SpooldError) throw error
    const isMissing = errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR'
    const fault = isMissing
      ? `does not exist${elsewhere(path) || ifGone}`
      : `cannot be read: ${messageOf(error)}`
    throw new SpooldError('FILE_UNREADABLE', `${path} ${fault}`, { cause: error })
  }
}

/** Where a task would be that is named by an id instead of its file; undefined: a file has that name, or it is in no spool. */
export function idPath(path: string): Required<TaskPath> | undefined {
  if (redisPath(path) !== undefined || lstatSync(path, { throwIfNoEntry: false }) !== undefined)
    return undefined
  try {
    const named = taskAt(path)
    return isUsed(named.spool) ? named : undefined
  } catch {
    return undefined // there is no such directory
  }
}

/** Hints at other places of a task: log lines contain only its name, without its priority or `.spoold/dead`. */
function elsewhere(path: string): string {
  try {
    const found = placesOf(dirname(path), basename(path))
    return found.length === 0 ? '' : `; there is ${found.join(', ')}`
  } catch {
    return '' // not a spool, or unreadable
  }
}

const DEAD = join(STATE_DIRECTORY, 'dead')

/**
 * The paths of the tasks and dead letters with a name, which is all that log lines contain.
 *
 * @throws the file system's error if the spool cannot be listed
 */
export function placesOf(spool: string, name: string): string[] {
  const dead = prioritiesIn(join(spool, DEAD)).map(each => join(DEAD, each))
  return ['', ...prioritiesIn(spool), DEAD, ...dead]
    .map(place => join(spool, place, name))
    .filter(path => lstatSync(path, { throwIfNoEntry: false })?.isFile())
}

/** Cached: of thousands of paths that a shell has expanded, thousands may be gone by now. */
const listed = new Map<string, string[]>()

function prioritiesIn(directory: string): string[] {
  const names = listed.get(directory) ?? listPriorities(directory)
  listed.set(directory, names)
  return names
}

function listPriorities(directory: string): string[] {
  if (lstatSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) return []
  const names: string[] = []
  const listing = opendirSync(directory, { bufferSize: 2048 })
  for (let entry = listing.readSync(); entry !== null; entry = listing.readSync())
    if (entry.isDirectory() && isPriorityDirectory(entry.name)) names.push(entry.name)
  listing.closeSync()
  return names
}

function wholeSpool(path: string): TaskPath {
  const spool = realpathSync(path)
  const above = spoolAbove(spool)
  if (above === spool || !isUsed(above)) return { shown: path, spool }
  throw new SpooldError(
    'USAGE',
    `${path} is a part of the spool ${above}: name that, with --priority ${basename(spool)}, or files in it`,
  )
}

/** Only the spool's own path is resolved; below it, symlinks are not followed, so no user can redirect a priority. */
export function taskAt(path: string): Required<TaskPath> {
  const named = resolve(path)
  const top = spoolAbove(dirname(named))
  const real = realpathSync(top)
  const spool = spoolAbove(real)
  const ref = join(real, named.slice(top.length + 1)).slice(spool.length + 1)
  const shown = path.endsWith(ref) ? path.slice(0, -ref.length).replace(/(?<=.)\/$/, '') : spool
  return { shown: shown === '' ? '.' : shown, spool, ref: toByteString(ref) }
}

/** The spool of a directory: the one that contains `.spoold`, or else the nearest ancestor that is not a priority. */
function spoolAbove(directory: string): string {
  const cut = directory.indexOf(`/${STATE_DIRECTORY}/`)
  if (cut > 0) return directory.slice(0, cut)
  let spool = directory
  while (!isUsed(spool) && isPriorityDirectory(basename(spool))) spool = dirname(spool)
  return spool
}

function isUsed(spool: string): boolean {
  return lstatSync(join(spool, STATE_DIRECTORY), { throwIfNoEntry: false })?.isDirectory() === true
}

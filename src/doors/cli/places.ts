import { lstatSync, type Stats, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { type Found, findTasks, type Sought } from '../../admin/operate/find.js'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { displayName, type Ref, toByteString } from '../../base/task/ref.js'
import { believeDaemonsOf } from '../../engines/control/home.js'
import { openTaskStore } from '../../engines/open-engine.js'
import { configureHidden } from '../../engines/spool/hidden-keys.js'
import { isPriorityDirectory, STATE_DIRECTORY } from '../../engines/spool/names.js'
import type { TaskStore } from '../../engines/task-store.js'
import { type ResolvedOptions, resolveOptions } from '../../formats/config/options.js'
import { directoriesIn } from '../../formats/config/spools.js'
import { type Config, readConfig, type Sources } from '../../formats/ini/read-config.js'
import { formatProblem } from '../../formats/ini/setting.js'
import { keysOf } from '../../formats/protocol/hide.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import { findUser } from '../../system/identity.js'
import { becomeOnlyOwner, realSpool } from './acting-owner.js'
import type { CommandContext } from './context.js'
import { ofServer } from './exit-code.js'
import type { Output } from './output.js'
import { readVersion } from './version.js'
import { whenAnswered } from './when-answered.js'

/** The words of a command line name spools, and tasks in them, in the same way for every command. */

/** The flag of commands that find their spools in a configuration. */
export interface IniOptions {
  readonly ini?: string
}

/** A spool that a command is for. */
export interface Place {
  /** The name for output: as the spool was named, but without user and password. */
  readonly shown: string
  /** Its real path, or its name on Redis. */
  readonly spool: string
  /** Why the place is no spool. */
  readonly fault?: SpooldError
}

type Told = Pick<CommandContext, 'output' | 'ownProcess'>

/** Reads a configuration, and waits until the disks of its spools have answered. */
export async function readSources(sources: Sources, output: Output): Promise<Config> {
  const config = readConfig(sources)
  await whenAnswered(directoriesIn(config.settings), output)
  return config
}

/**
 * Reads a configuration for its spools or its sockets. Other errors in it concern only the daemon: one line on standard error
 * tells of them. Waits until the disks of the spools have answered.
 *
 * @throws SpooldError CONFIG_INVALID if the configuration names no spool, or no socket
 */
export async function readIni(
  file: string,
  { output, ownProcess }: Told,
  wanted: 'spooler' | 'socket' = 'spooler',
): Promise<ResolvedOptions> {
  const sources = { environment: {}, commandLine: [], files: [file], version: readVersion() }
  const config = wanted === 'spooler' ? await readSources(sources, output) : readConfig(sources)
  const resolved = resolveOptions(config)
  believeUserOf(resolved.options)
  const [problem, ...others] = config.problems.errors
  const count = wanted === 'spooler' ? resolved.spools.length : resolved.options.socket.length
  if (count === 0) {
    const left = config.problems.warnings.find(({ message }) => message.startsWith('left to uWSGI'))
    const [why] = [problem, ...(wanted === 'socket' ? [left] : [])].filter(each => each !== undefined)
    const value = wanted === 'spooler' ? 'DIR' : 'ADDRESS'
    const because = why === undefined ? `; add ${wanted} = ${value}` : `: ${why.message}`
    throw new SpooldError('CONFIG_INVALID', `${file} names no ${wanted}${because}`)
  }
  const more = others.length === 0 ? '' : ` (and ${others.length} more: spoold check ${file})`
  if (problem !== undefined && ownProcess.part === undefined)
    output.complain(`${formatProblem(problem)}${more}`)
  return resolved
}

/** Makes this process ask daemons of the configuration's user, because its daemon becomes that user. */
function believeUserOf({ uid }: { readonly uid: string | null }): void {
  const user = uid === null ? undefined : findUser(uid)
  if (user !== undefined) believeDaemonsOf(user)
}

/** Returns the spools of a configuration, each once; those of other daemons come last. @throws SpooldError CONFIG_INVALID */
async function spoolsIn(file: string, told: Told): Promise<Place[]> {
  const { spools, options } = await readIni(file, told)
  const own = spools.filter(({ isExternal }) => !isExternal)
  const places = distinct([...own, ...spools].map(({ directory }) => placeAt(directory)))
  for (const { spool } of places) configureHidden(toByteString(spool), keysOf(options.spoolerHide))
  return places
}

/**
 * Returns the spools that a command is for, each once: those that are named or, if none is, those of `--ini`. A place that is no
 * spool has a fault.
 *
 * @throws SpooldError USAGE, CONFIG_INVALID, ADDRESS_INVALID
 */
export async function spoolsOf(
  words: readonly string[],
  { ini }: IniOptions,
  told: Told,
): Promise<readonly Place[]> {
  if (words.length > 0) return distinct(words.map(placeAt))
  if (ini === undefined) throw new SpooldError('USAGE', 'name a spool directory, or --ini FILE')
  return spoolsIn(ini, told)
}

/** Returns each spool once, however often and by whatever path it is named. */
export function distinct(places: readonly Place[]): Place[] {
  const bySpool = new Map<string, Place>()
  for (const place of places) if (!bySpool.has(place.spool)) bySpool.set(place.spool, place)
  return [...bySpool.values()]
}

/** Returns the spool that a word names. @throws SpooldError ADDRESS_INVALID; USAGE for a part of a spool */
export function placeAt(word: string): Place {
  if (isRedisAddress(word)) {
    const spool = nameOfRedis(word)
    return { shown: spool, spool }
  }
  let spool: string
  try {
    spool = realSpool(word)
    if (!statSync(spool).isDirectory()) return { shown: word, spool, fault: notDirectory(word) }
  } catch (error) {
    return { shown: word, spool: resolve(word), fault: unlisted(word, error) }
  }
  const above = spoolAbove(spool)
  if (above === spool || !isUsed(above)) return { shown: word, spool }
  throw new SpooldError(
    'USAGE',
    `${word} is a part of the spool ${above}: name that, with --priority ${basename(spool)}, or files in it`,
  )
}

/** Returns why a spool cannot be listed. */
export function unlisted(directory: string, error: unknown): SpooldError {
  if (error instanceof SpooldError) return error
  if (errnoOf(error) === 'ENOTDIR') return notDirectory(directory)
  const why =
    errnoOf(error) === 'ENOENT'
      ? 'does not exist; name a spool directory'
      : `cannot be listed by uid ${process.geteuid?.()}: ${messageOf(error)}`
  return new SpooldError('SPOOL_UNUSABLE', `${directory} ${why}`, { cause: error })
}

function notDirectory(word: string): SpooldError {
  return new SpooldError(
    'SPOOL_UNUSABLE',
    `${word} is not a directory; name a spool directory, or use spoold show for a file; an ini file goes with --ini`,
  )
}

/** True if a word names a whole spool. With --ini, a bare word is the name of a task. */
export function isSpool(word: string, { ini }: IniOptions): boolean {
  if (ini !== undefined && !word.includes('/')) return false
  if (!isRedisAddress(word)) return isDirectory(word)
  try {
    nameOfRedis(word)
    return true
  } catch {
    return false
  }
}

/** A task that a word names. */
export interface NamedTask extends Found {
  readonly word: string
  readonly place: Place
  /** The store in which the task was found. */
  readonly store: TaskStore
}

/** A word whose task is in no spool. */
export interface GoneTask {
  readonly word: string
  readonly how: 'gone'
  /** The spools where the task may have been; empty if the word leads to no spool. */
  readonly sought: readonly SoughtIn[]
}

interface SoughtIn extends Sought {
  readonly place: Place
  /** The task that was stored under the id. */
  readonly stored?: Ref
}

interface TasksOptions extends IniOptions {
  /** True if daemons are asked which tasks they have parked. */
  readonly asksDaemons?: boolean
}

/**
 * Returns the tasks that words name, by their files, their names or their ids; the same for looking, changing and waiting. Looks
 * into every spool in which a task may be; a spool that is away does not hide the others. A word means all tasks that have its
 * name.
 *
 * If all of the spools have one owner, root becomes that owner first.
 *
 * @param fault called for each word that cannot be looked for
 * @throws SpooldError CONFIG_INVALID, ADDRESS_INVALID
 */
export async function tasksOf(
  words: readonly string[],
  { ini, asksDaemons = false }: TasksOptions,
  context: Pick<CommandContext, 'output' | 'ownProcess'>,
  fault: (error: SpooldError) => void,
  besides: readonly Place[] = [],
): Promise<Array<NamedTask | GoneTask>> {
  if (words.length === 0) return []
  const configured = ini === undefined ? [] : await spoolsIn(ini, context)
  const tell = (error: SpooldError) => {
    if (context.ownProcess.part === undefined) fault(error)
  }
  const all = words.flatMap(word => {
    try {
      const addresses = addressesOf(word, configured)
      return [{ word: shownWord(word, addresses), addresses }]
    } catch (error) {
      if (error instanceof SpooldError && error.code !== 'SPOOL_UNUSABLE') throw error
      tell(unfindable(word, error))
      return []
    }
  })
  const places = [...besides, ...all.flatMap(({ addresses }) => addresses.map(({ place }) => place))]
  await becomeOnlyOwner(context.ownProcess, places)
  const stores = new Map<string, Promise<TaskStore>>()
  const storeOf = ({ spool }: Place) => {
    const store = stores.get(spool) ?? openTaskStore(spool, { asksDaemons })
    stores.set(spool, store)
    return store
  }
  const named: Array<NamedTask | GoneTask> = []
  for (const { word, addresses } of all) {
    const sought: SoughtIn[] = []
    const found: NamedTask[] = []
    let away: unknown
    for (const address of addresses)
      try {
        if (isMissing(address.place)) continue
        const store = await storeOf(address.place)
        const { found: tasks, stored } = await findTasks(store, address)
        found.push(...tasks.map(task => ({ ...task, word, place: address.place, store })))
        sought.push({ ...address, ...(stored === undefined ? {} : { stored }) })
      } catch (error) {
        away ??= error
      }
    if (found.length > 0) named.push(...found)
    else if (away === undefined) named.push({ word, how: 'gone', sought })
    else tell(unfindable(word, await ofServer(away)))
  }
  return named
}

/** True if there is nothing at the place. @throws the place's fault if it is no spool for another reason */
function isMissing({ fault }: Place): boolean {
  if (fault !== undefined && errnoOf(fault.cause) !== 'ENOENT') throw fault
  return fault !== undefined
}

function unfindable(word: string, error: unknown): SpooldError {
  if (error instanceof SpooldError) return error
  return new SpooldError('FILE_UNREADABLE', `${word} cannot be looked for: ${messageOf(error)}`, {
    cause: error,
  })
}

/** A spool in which a task may be, and its name or id there. */
type Address = Sought & { readonly place: Place }

/** Returns where the task that a word names may be. @throws the file system's error, SpooldError USAGE, ADDRESS_INVALID */
function addressesOf(word: string, configured: readonly Place[]): Address[] {
  if (isRedisAddress(word)) return [redisAddress(word)]
  if (configured.length > 0 && !word.includes('/')) return configured.map(place => inPlace(place, word))
  if (isDirectory(word))
    throw new SpooldError('USAGE', `expected a task, got the spool ${word}; spoold ls lists it`)
  const address = pathAddress(word)
  if (configured.length > 0 && address?.isCertain !== true)
    return configured.map(place => inPlace(place, word))
  return address === undefined ? [] : [address]
}

/** Returns the word without user and password. */
function shownWord(word: string, [first]: readonly Address[]): string {
  return isRedisAddress(word) && first !== undefined ? `${first.place.shown}/${first.id}` : word
}

function inPlace(place: Place, word: string): Address {
  return { place, ref: toByteString(word), id: word }
}

/**
 * Returns what a path means: its file, if there is one. Otherwise it leads to the longest directory that is a spool, and the rest
 * of it is the name or the id of a task. (Ids may have any characters.) Where no daemon has worked yet, the directory above
 * counts as a spool.
 *
 * @returns undefined if the path leads to no spool
 */
function pathAddress(word: string): (Address & { readonly isCertain: boolean }) | undefined {
  if (isThere(word)) return { ...below(word, basename(word)), isCertain: true }
  let parent: Address | undefined
  for (let cut = word.length; cut > 0; ) {
    cut = word.lastIndexOf('/', cut - 1)
    const above = cut < 0 ? '.' : word.slice(0, cut + 1)
    const name = word.slice(cut + 1)
    if (name === '' || !isDirectory(above)) continue
    const address = below(join(above, 'x'), name)
    if (isUsed(address.place.spool)) return { ...address, isCertain: true }
    if (!name.includes('/')) parent = address
  }
  return parent && { ...parent, isCertain: false }
}

function isDirectory(path: string): boolean {
  return statsIfAny(() => statSync(path))?.isDirectory() === true
}

function isThere(path: string): boolean {
  return statsIfAny(() => lstatSync(path)) !== undefined
}

/** Returns the stats of a file; undefined if there is none. @throws the file system's error if this process may not look */
function statsIfAny(look: () => Stats): Stats | undefined {
  try {
    return look()
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

/** @param path of a file in the spool, or in a part of it @param name takes the place of its last segment */
function below(path: string, name: string): Address {
  const { shown, spool, ref } = fileAt(path)
  const prefix = ref.slice(0, ref.lastIndexOf('/') + 1)
  return {
    place: { shown, spool },
    ref: prefix + toByteString(name),
    id: displayName(prefix) + name,
  }
}

/**
 * Splits a path into spool and ref. Only the spool's own path is resolved; below it, symlinks are not followed, so no user can
 * redirect a priority.
 */
function fileAt(path: string): { readonly shown: string; readonly spool: string; readonly ref: Ref } {
  const named = resolve(path)
  const top = spoolAbove(dirname(named))
  const real = realSpool(top)
  const spool = spoolAbove(real)
  const ref = join(real, named.slice(top.length + 1)).slice(spool.length + 1)
  const shown = path.endsWith(ref) ? path.slice(0, -ref.length).replace(/(?<=.)\/$/, '') : spool
  return { shown: shown === '' ? '.' : shown, spool, ref: toByteString(ref) }
}

/** Returns the spool of a directory: the one that contains `.spoold`, or else the nearest ancestor that is not a priority. */
function spoolAbove(directory: string): string {
  const cut = directory.indexOf(`/${STATE_DIRECTORY}/`)
  if (cut > 0) return directory.slice(0, cut)
  let spool = directory
  while (!isUsed(spool) && isPriorityDirectory(basename(spool))) spool = dirname(spool)
  return spool
}

/** True if a daemon or a command has worked in the directory. */
export function isUsed(spool: string): boolean {
  return lstatSync(join(spool, STATE_DIRECTORY), { throwIfNoEntry: false })?.isDirectory() === true
}

/** Parses a task on Redis: its name or id follows the name of its spool, or the whole address, as `enqueue` prints it. */
function redisAddress(word: string): Address {
  const [, path = word, query = ''] = /^([^?]*)(\?[\w-]+=.*)$/s.exec(word) ?? []
  for (const [text, rest] of [
    [path, query],
    [word, ''],
  ] as const)
    for (let cut = text.lastIndexOf('/'); cut > 0; cut = text.lastIndexOf('/', cut - 1)) {
      const spool = nameIfAny(text.slice(0, cut) + rest)
      const name = text.slice(cut + 1)
      if (spool !== undefined && name !== '') return inPlace({ shown: spool, spool }, name)
    }
  throw new SpooldError('USAGE', `expected a task, got ${nameOfRedis(word)}`)
}

function nameIfAny(address: string): string | undefined {
  try {
    return nameOfRedis(address)
  } catch {
    return undefined
  }
}

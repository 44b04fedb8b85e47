import { dirname, resolve } from 'node:path'
import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { entryFile } from '../../base/package-root.js'
import { printable } from '../../base/printable.js'
import { checkHandlers, hasHandlers, noHandlerMessage } from '../../formats/config/check-handlers.js'
import type { Options } from '../../formats/config/option-table.js'
import { originOf, type ResolvedOptions, resolveOptions } from '../../formats/config/options.js'
import { checkQueues } from '../../formats/config/queues.js'
import { checkSharedAreas } from '../../formats/config/shared-areas.js'
import { addressOf, handlingSpools, labelOf, type SpoolConfig } from '../../formats/config/spools.js'
import { checkControl } from '../../formats/control/option.js'
import { type Config, readConfig, type Sources } from '../../formats/ini/read-config.js'
import { formatProblem, Problems, type Where } from '../../formats/ini/setting.js'
import { fallbackOf, isRedisAddress, parseRedisAddress } from '../../formats/protocol/redis-address.js'
import { checkSchedules, schedulesOf } from '../../runtime/schedule/ini-schedules.js'
import { ownZone, zoneNamed, zoneOrigin } from '../../runtime/schedule/zone.js'
import { isLinkToNothing, isMissing, realPathOf, statsOf, whyUnreadable } from '../../system/file-stats.js'
import { findGroup, findUser } from '../../system/identity.js'
import { checkNetwork, checkPublishing, type Report } from '../net/check.js'
import { checkScaling, saying } from './check-scaling.js'
import { checkUnused } from './check-unused.js'
import { writtenBy } from './written.js'

export interface CheckedConfig extends ResolvedOptions {
  readonly files: readonly string[]
  readonly problems: Problems
}

const NOWHERE: Where = { file: 'configuration' }

/**
 * Reads and checks a whole configuration without starting or creating anything. Reports all problems at once, each with
 * its file and line. The options are usable if no problem is an error.
 *
 * @param config what these sources say, if they are read already
 */
export function checkConfig(sources: Sources, config: Config = readConfig(sources)): CheckedConfig {
  const resolved = resolveOptions(config)
  // if no file could be read, what the files may contain is not reported as missing
  if (config.files.length > 0 || sources.files.length === 0) checkPresence(resolved, config)
  checkMeaning(resolved, config.problems)
  return { ...resolved, files: config.files, problems: config.problems }
}

/**
 * Looks again at what the daemon's processes read, as the user that the daemon is by now. The user that started it could read all
 * of that.
 *
 * @returns what the daemon can do without
 * @throws SpooldError START_FAILED
 */
export function checkAsUser(config: CheckedConfig): string[] {
  const user = `uid ${process.geteuid?.()}`
  const program = entryFile('worker')
  const why = whyUnreadable(program)
  if (why !== undefined)
    throw new SpooldError('START_FAILED', `${user} cannot read spoold itself, ${program}: ${why}`)
  const problems = new Problems()
  const home = resolve(config.options.chdir ?? '.')
  for (const spool of handlingSpools(config)) checkHandlers(spool, config, home, problems)
  const [problem] = problems.errors
  if (problem !== undefined)
    throw new SpooldError('START_FAILED', `${formatProblem(problem)}; it is read as ${user}`)
  return config.files.flatMap(file => {
    const reason = file === '-' ? undefined : whyUnreadable(resolve(file))
    return reason === undefined ? [] : [`${user} cannot read ${file}, so a reload will fail: ${reason}`]
  })
}

/**
 * Reports missing spools and handlers. If no file has the section that was asked for, they may be in another section, and a
 * warning has already said which sections there are.
 */
function checkPresence(resolved: ResolvedOptions, { files, hasSection, problems }: Config): void {
  const missing = new Problems()
  checkSpoolsAndHandlers(resolved, missing)
  if (hasSection || files.length === 0)
    for (const { where, message } of missing.errors) problems.error(where, message)
  else if (missing.errors.length > 0)
    problems.error(NOWHERE, `nothing in ${files.join(', ')} is read, so there is no spool, or no handler`)
}

function checkSpoolsAndHandlers({ options, spools, anySpool }: ResolvedOptions, problems: Problems): void {
  // the daemon may only receive tasks from the network, or forward them, for another daemon to run
  const external = spools.filter(({ isExternal }) => isExternal)
  const forwards = external.some(spool => fallbackOf(addressOf(spool)) !== undefined)
  const onlyTakes = forwards || (external.length > 0 && options.socket.length > 0)
  const runsNone = spools.every(({ isExternal }) => isExternal)
  if (runsNone && !onlyTakes) problems.error(NOWHERE, 'there is no spool directory; add spooler = DIR')
  if (runsNone) {
    if (!onlyTakes && !hasHandlers(anySpool.options))
      problems.error(NOWHERE, noHandlerMessage(anySpool.options))
    return
  }
  const own = spools.filter(({ isExternal }) => !isExternal)
  const isBare = (spool: SpoolConfig) => !hasHandlers(spool.options)
  for (const { where, directory, options } of own.filter(isBare)) {
    const message = noHandlerMessage(options)
    if (own.every(isBare)) problems.error(NOWHERE, message)
    else problems.error(where, `${directory}: ${message}`)
  }
}

function checkMeaning(resolved: ResolvedOptions, problems: Problems): void {
  const { options } = resolved
  const where = (name: string, i = 0) => originOf(resolved, name, i)
  const home = resolve(options.chdir ?? '.')
  for (const spool of resolved.spools) checkSpool(spool, home, problems)
  checkFallbacks(resolved.spools, problems, (...directory) => checkDirectoryOrFree(...directory, problems))
  for (const spool of handlingSpools(resolved)) checkHandlers(spool, resolved, home, problems)
  if (options.chdir !== null) checkDirectory(home, 'chdir', where('chdir'), problems)
  checkWritten(options, home, where, problems)
  checkTouched(options, home, where, problems)
  for (const kind of ['uid', 'gid'] as const)
    if (options[kind] !== null) checkIdentity(kind, options[kind], where(kind), problems)
  for (const [i, group] of options.addGid.entries())
    if (findGroup(group) === undefined)
      problems.error(where('add-gid', i), `add-gid: group ${group} not found`)
  const say: Report = (severity, name, message, i) =>
    problems[severity](where(name, i), `${name}: ${message}`)
  checkNetwork(options, say)
  checkControl(options.spoolerControl, (i, message) => say('error', 'spooler-control', message, i))
  checkPublishing(options, say)
  const tokens = options.spoolerDashboardTokens
  if (tokens !== null && isMissing(resolve(home, tokens)))
    say(
      'warning',
      'spooler-dashboard-tokens',
      `there is no file ${tokens}, so no token is accepted; spoold token makes a token`,
    )
  checkSchedules(options, (severity, name, i, message) => problems[severity](where(name, i), message))
  checkZone(resolved, problems)
  checkQueues(options.spoolerQueue, (i, message) => say('error', 'spooler-queue', message, i))
  checkSharedAreas(options.sharedarea, where, problems)
  checkScaling(resolved, home, problems)
  checkUnused(resolved, problems)
}

/**
 * Warns if TZ names no zone. V8 counts in UTC where libc follows a rule, such as CET-1CEST,M3.5.0,M10.5.0/3; both count in UTC
 * where TZ names nothing.
 */
function checkZone({ environment, settings }: ResolvedOptions, problems: Problems): void {
  const { tz } = zoneOrigin(environment)
  if (tz === '' || zoneNamed(tz) !== undefined) return
  const setting = settings.findLast(({ key, value }) => key === 'env' && value.startsWith('TZ='))
  problems.warning(
    setting?.where ?? { file: 'environment' },
    `TZ=${printable(tz)} names no time zone: schedules and times in the log are in UTC; write a name such as Europe/Berlin`,
  )
}

/**
 * Returns in which zone the schedules of a configuration without errors count, for people; undefined: each schedule names its own
 * zone.
 */
export function zoneOfSchedules({ options, environment }: ResolvedOptions): string | undefined {
  if (!schedulesOf(options).some(each => 'expression' in each && each.zone === null)) return undefined
  const { tz, why } = zoneOrigin(environment)
  return `the time zone of schedules is ${tz === '' ? ownZone() : (zoneNamed(tz) ?? 'UTC')}, ${why}`
}

function checkSpool(spool: SpoolConfig, home: string, problems: Problems): void {
  const { spoolerChdir, spoolerConcurrency, spoolerProcesses } = spool.options
  const name = spool.describedBy === 'spooler2' ? 'spooler2: dir' : spool.describedBy
  if (isRedisAddress(spool.directory)) checkRedis(name, spool, problems)
  else checkDirectoryOrFree(name, spool.directory, spool.where, problems)
  if (spoolerChdir !== null)
    checkDirectory(
      resolve(home, spoolerChdir),
      labelOf(spool, 'spooler-chdir'),
      originOf(spool, 'spooler-chdir'),
      problems,
    )
  const error = saying(spool, problems, 'error')
  if (spoolerConcurrency === 0) error('spooler-concurrency', 'expected at least 1, got 0')
  if (spoolerProcesses === 0)
    saying(
      spool,
      problems,
      'warning',
    )('spooler-processes', 'expected at least 1, got 0, which counts as 1, as in uWSGI')
  if (spoolerProcesses > 1024) error('spooler-processes', `expected at most 1024, got ${spoolerProcesses}`)
}

function checkRedis(name: string, { directory, where }: SpoolConfig, problems: Problems): void {
  try {
    parseRedisAddress(directory)
  } catch (error) {
    problems.error(where, `${name}: ${messageOf(error)}`)
  }
}

/** Options whose files are needed to start. The others are tried again while the daemon runs. */
const NEEDED_TO_START = ['pidfile', 'safe-pidfile', 'logto', 'daemonize', 'master-fifo']

/** Checks that files that will be created have an existing directory. */
function checkWritten(
  options: Options,
  home: string,
  where: (name: string, index?: number) => Where,
  problems: Problems,
): void {
  for (const { name, index, kind, path } of writtenBy(options, home)) {
    if (path === undefined || ['socket', 'spooler-control'].includes(name)) continue // these have checks of their own
    const severity = NEEDED_TO_START.includes(name) ? 'error' : 'warning'
    if (kind === 'file' && statsOf(path)?.isDirectory())
      problems[severity](where(name, index), `${name}: expected a file, got the directory ${path}`)
    else if (!statsOf(dirname(path))?.isDirectory())
      problems[severity](
        where(name, index),
        `${name}: ${path} cannot be written, because there is no directory ${dirname(path)}`,
      )
  }
  for (const [name, file] of [
    ['logto', options.logto],
    ['daemonize', options.daemonize],
  ] as const)
    if (file !== null && /^[^/]*:[0-9]+$/.test(file))
      problems.warning(
        where(name),
        `${name}: expected a file, got ${file}; spoold cannot log to an address, and takes this as a file name`,
      )
}

/**
 * Checks the directories of files that are to be touched. A file may be created later, but if its directory is missing, the path
 * is wrong.
 */
function checkTouched(
  { touchReload, touchSpoolersReload, touchSignal }: Options,
  home: string,
  where: (name: string, index?: number) => Where,
  problems: Problems,
): void {
  const files = {
    'touch-reload': touchReload,
    'touch-spoolers-reload': touchSpoolersReload,
    'touch-signal': touchSignal.map(text => text.split(' ')[0] ?? ''),
  }
  for (const [name, paths] of Object.entries(files))
    for (const [i, path] of paths.entries()) {
      const directory = dirname(resolve(home, path))
      if (!statsOf(directory)?.isDirectory())
        problems.warning(
          where(name, i),
          `${name}: nobody can touch ${path}, because there is no directory ${directory}`,
        )
    }
}

/** The longest path that a system call takes (PATH_MAX). */
const MAX_PATH_BYTES = 4095

function checkDirectoryOrFree(name: string, path: string, where: Where, problems: Problems): void {
  const stats = statsOf(path)
  const parent = resolve(path, '..')
  if (stats !== undefined) {
    if (!stats.isDirectory()) problems.error(where, `${name}: expected a directory, got the file ${path}`)
    else if (realPathOf(path) === undefined)
      // Node replaces the bytes
      problems.error(where, `${name}: ${path} is a link to a directory whose name is not UTF-8`)
  } else if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    const bytes = Buffer.byteLength(path)
    problems.error(
      where,
      `${name}: expected a path of at most ${MAX_PATH_BYTES} bytes, got ${bytes}: ${path}`,
    )
  } else if (isLinkToNothing(path)) {
    problems.error(where, `${name}: ${path} is a link that leads nowhere`)
  } else if (/[ \t][;#]/.test(path)) {
    problems.error(
      where,
      `${name}: there is no directory ${describe(path)} (a comment needs a line of its own)`,
    )
  } else if (!statsOf(parent)?.isDirectory()) {
    problems.error(where, `${name}: ${path} cannot be made, because there is no directory ${parent}`)
  }
}

function checkDirectory(path: string, name: string, where: Where, problems: Problems): void {
  if (!statsOf(path)?.isDirectory()) problems.error(where, `${name}: expected a directory, got ${path}`)
}

function checkIdentity(kind: 'uid' | 'gid', wanted: string, where: Where, problems: Problems): void {
  const number = kind === 'uid' ? findUser(wanted) : findGroup(wanted)
  if (number === undefined)
    return problems.error(where, `${kind}: ${kind === 'uid' ? 'user' : 'group'} ${wanted} not found`)
  const mine = (kind === 'uid' ? process.geteuid : process.getegid)?.()
  if (process.geteuid?.() !== 0 && number !== mine)
    problems.error(where, `${kind}: only root can become ${wanted} (${number}); this process is ${mine}`)
}

/**
 * Checks that each fallback directory is forwarded to one spool only, and that nobody runs its tasks.
 *
 * @param checkDirectory checks that the path is a directory, or that one can be made there
 */
function checkFallbacks(
  spools: readonly SpoolConfig[],
  problems: Problems,
  checkDirectory: (name: string, path: string, where: Where) => void,
): void {
  /** The spool that uses each directory. */
  const users = new Map(
    spools.flatMap(({ directory }) => (isRedisAddress(directory) ? [] : [[resolve(directory), directory]])),
  )
  for (const spool of spools) {
    const where = originOf(spool, 'spooler-fallback')
    const name = labelOf(spool, 'spooler-fallback')
    const directory = fallbackOf(addressOf(spool))
    if (directory === undefined) {
      if (spool.ownKeys.has('spooler-fallback'))
        problems.warning(where, `${name} has no effect: ${spool.directory} is no spool on Redis`)
      continue
    }
    const user = users.get(directory) ?? spool.directory
    if (user !== spool.directory) {
      const why = isRedisAddress(user) ? 'it is forwarded to another spool' : 'it is a spool itself'
      problems.error(where, `${name}: expected a directory of its own, got ${directory}: ${why}`)
    }
    users.set(directory, spool.directory)
    checkDirectory(name, directory, where)
  }
}

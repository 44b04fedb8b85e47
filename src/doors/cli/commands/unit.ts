import { execFileSync } from 'node:child_process'
import { readdirSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { SpooldError } from '../../../base/errors.js'
import { PACKAGE_ROOT } from '../../../base/package-root.js'
import { shellWord } from '../../../base/printable.js'
import { isPriorityDirectory } from '../../../engines/spool/names.js'
import { addressOf, type SpoolConfig } from '../../../formats/config/spools.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { type Address, formatAddress, parseAddress } from '../../../formats/protocol/address.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { statsOf } from '../../../system/file-stats.js'
import { findGroupName, findPrimaryGroup, findUserName } from '../../../system/identity.js'
import {
  logrotateRule,
  pathUnit,
  plain,
  type ServicePlan,
  serviceUnit,
  socketUnit,
} from '../../../system/systemd/units.js'
import { type CheckedConfig, checkConfig } from '../../check/check.js'
import { writtenBy } from '../../check/written.js'
import { longestMercyMs } from '../../daemon/spool-plan.js'
import { type CommandContext, sourcesOf } from '../context.js'
import { localOf } from '../destination.js'
import { readSources } from '../places.js'

interface UnitOptions {
  readonly hardened?: boolean
  readonly user?: boolean
  readonly path?: boolean
  readonly socket?: boolean
  readonly logrotate?: boolean
}

interface Origin {
  readonly config: CheckedConfig
  /** Ini files, each as FILE or FILE:SECTION, absolute. */
  readonly files: readonly string[]
  /** The unit's name without its suffix. */
  readonly name: string
  readonly owner: ServicePlan['owner']
}

/**
 * `spoold unit app.ini`: prints the systemd unit that runs this configuration, with this Node and in the current directory. On
 * standard error, hints say what else is to be done.
 *
 * @throws SpooldError CONFIG_INVALID, USAGE
 */
export async function unit(
  files: readonly string[],
  options: UnitOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'look'
  const sources = sourcesOf(files, { ...context, env: withoutOptions(context.env) })
  const config = checkConfig(sources, await readSources(sources, output))
  const { errors } = config.problems
  if (errors.length > 0)
    throw new SpooldError(
      'CONFIG_INVALID',
      ['the configuration is wrong:', ...errors.map(formatProblem)].join('\n'),
    )
  const paths = files.map(file => resolve(file))
  const name = basename(paths[0] ?? '').replace(/(\.ini)?(:[^/]*)?$/, '')
  const owner = options.user === true ? null : ownerOf(config)
  const origin = { config, files: paths, name, owner }
  output.page(textOf(origin, options))
  for (const hint of hints(origin, options)) output.complain(hint)
  return 0
}

function textOf(origin: Origin, options: UnitOptions): string {
  const { path, socket, logrotate } = options
  const asked = [path, socket, logrotate].filter(each => each === true)
  if (asked.length > 1) throw new SpooldError('USAGE', 'expected one of --path, --socket and --logrotate')
  const about = origin.files.join(' ')
  if (path === true) return pathUnit(about, watched(origin))
  if (socket === true) return socketUnit(about, socketPlan(origin))
  if (logrotate === true) return rotation(origin)
  return serviceUnit(servicePlan(origin, options))
}

function servicePlan({ config, files, name, owner }: Origin, { hardened, user }: UnitOptions): ServicePlan {
  const { options, spools } = config
  const starts = own(config).map(spool => spool.options.spoolerStartTimeoutMs)
  const imports = own(config).flatMap(spool => spool.options.spoolerImport)
  const written = writtenBy(options, resolve(options.chdir ?? '.'))
  const listened = written.flatMap(({ address }) => address ?? [])
  return {
    about: files.join(' '),
    command: [realpathSync(process.execPath), realpathSync(join(PACKAGE_ROOT, 'bin/spoold.js')), ...files],
    owner,
    workingDirectory: process.cwd(),
    name,
    spools: [...new Set(directoriesOf(spools))],
    written: [...new Set(written.flatMap(({ path }) => (path === undefined ? [] : dirname(path))))],
    needsRuntimeDirectory: own(config).some(({ directory }) => isRedisAddress(directory)),
    needed: [...config.files, ...imports, options.chdir ?? '.'].map(path => resolve(path)),
    startMs: starts.includes(0) ? 0 : Math.max(0, ...starts),
    mercyMs: longestMercyMs(config),
    isOnce: options.drain,
    isMainProcess: options.daemonize === null && !options.masterAsRoot,
    isOnDemand: options.spoolerDieOnIdle,
    hasLowPort: listened.some(address => address.kind === 'tcp' && address.port > 0 && address.port < 1024),
    isNetworked: listened.some(({ kind }) => kind === 'tcp'),
    systemdVersion: systemdVersion(),
    isUserUnit: user === true,
    isHardened: hardened === true,
  }
}

function own({ spools }: CheckedConfig): readonly SpoolConfig[] {
  return spools.filter(({ isExternal }) => !isExternal)
}

function watched({ config, files }: Origin) {
  if (!config.options.spoolerDieOnIdle)
    throw new SpooldError(
      'CONFIG_INVALID',
      `expected die-on-idle = true and idle = 60 in ${files.join(' ')}: a .path unit starts a daemon that ends when there is nothing to do`,
    )
  return own(config).map(({ directory, options }) => {
    const path = resolve(directory)
    return {
      directory: path,
      priorities: options.spoolerOrdered === false ? null : prioritiesIn(path),
      strictNames: options.spoolerStrictNames,
    }
  })
}

function prioritiesIn(directory: string): string[] {
  if (statsOf(directory)?.isDirectory() !== true) return []
  const entries = readdirSync(directory, { withFileTypes: true })
  return entries
    .filter(entry => entry.isDirectory() && isPriorityDirectory(entry.name))
    .map(({ name }) => name)
}

function socketPlan({ config, files, owner }: Origin) {
  const { socket, listen, chmodSocket, chownSocket } = config.options
  const addresses = socket.map(parseAddress)
  if (addresses.length === 0 || addresses.some(address => address.kind === 'tcp' && address.port === 0))
    throw new SpooldError(
      'CONFIG_INVALID',
      `expected socket = ADDRESS in ${files.join(' ')}, with a port if it is TCP`,
    )
  const [user, group = null] = chownSocket?.split(':') ?? []
  return {
    addresses: addresses.map(listenStream),
    backlog: listen,
    mode: chmodSocket ?? 0o600, // where the umask of the daemon would decide, only the owner may connect
    owner: user === undefined ? owner : { user, group },
  }
}

function listenStream(address: Address): string {
  if (address.kind === 'unix') return resolve(address.path)
  return formatAddress(
    address.kind === 'tcp' && address.host === '' ? { ...address, host: '0.0.0.0' } : address,
  )
}

function rotation({ config, files, name, owner }: Origin): string {
  const { logto, daemonize, pidfile, safePidfile } = config.options
  const log = daemonize ?? logto
  if (log === null)
    throw new SpooldError(
      'CONFIG_INVALID',
      `expected logto or daemonize in ${files.join(' ')}: what goes to standard error is kept by the journal, which rotates by itself`,
    )
  const pid = pidfile ?? safePidfile
  const signal =
    pid === null
      ? `systemctl reload ${name}.service`
      : `kill -HUP "$(cat '${plain(resolve(pid)).replaceAll("'", "'\\''")}')"`
  const user = owner?.user ?? 'root'
  return logrotateRule(resolve(log), { user, group: owner?.group ?? groupOf(user) }, signal)
}

/** Returns the name of the user's primary group, or its number if it has no name. */
function groupOf(user: string): string {
  const gid = findPrimaryGroup(user) ?? 0
  return findGroupName(gid) ?? String(gid)
}

/** Returns the user of the service: `uid`, or else the owner of the first spool; null for root. */
function ownerOf(config: CheckedConfig): ServicePlan['owner'] {
  const { uid, gid, addGid } = config.options
  if (uid !== null) return { user: uid, group: gid, groups: addGid }
  const [first] = own(config)
  const stats = first === undefined ? undefined : statsOf(resolve(first.directory))
  if (stats === undefined || stats.uid === 0) return null
  return {
    user: findUserName(stats.uid) ?? String(stats.uid),
    group: findGroupName(stats.gid) ?? null,
    groups: addGid,
  }
}

function* hints(
  { config, owner }: Origin,
  { path, socket, logrotate, user }: UnitOptions,
): Generator<string> {
  if (path === true || socket === true || logrotate === true) return
  const { daemonize, masterAsRoot } = config.options
  if (owner === null && user !== true)
    yield 'nothing names a user, and so the handlers run as root: set uid, or add User= to the unit'
  if (daemonize !== null)
    yield 'leave out daemonize: systemd runs it in the background, and keeps its log in the journal'
  if (masterAsRoot) yield 'master-as-root has no effect under User=: systemd does its work'
  for (const directory of directoriesOf(config.spools))
    if (statsOf(directory) === undefined)
      yield `${directory} is not there yet: install -d -m 0750 -o ${owner?.user ?? 'root'} ${shellWord(directory)}`
}

/** Returns the environment without the variables that are options: they belong to this shell, not to the service. */
function withoutOptions(env: CommandContext['env']): CommandContext['env'] {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(SPOOLD|UWSGI)_/.test(name)))
}

function systemdVersion(): number | null {
  try {
    const text = execFileSync('systemctl', ['--version'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return Number(/^systemd (\d+)/.exec(text)?.[1] ?? 0) || null
  } catch {
    return null
  }
}

/** Returns the directories of spools. A spool on Redis has one only if tasks wait in it while Redis is away. */
function directoriesOf(spools: readonly SpoolConfig[]): string[] {
  return spools.flatMap(spool => localOf(addressOf(spool)) ?? []).map(directory => resolve(directory))
}

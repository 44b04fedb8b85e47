import { SpooldError } from '../../base/errors.js'
import { printableLine } from '../../base/printable.js'

/** The facts for a service unit. Paths are absolute, and times in milliseconds. */
export interface ServicePlan {
  /** The configuration, for people. */
  readonly about: string
  /** Node, the program, and its arguments. */
  readonly command: readonly string[]
  /** The user of the service; null for the user of the service manager. */
  readonly owner: {
    readonly user: string
    readonly group: string | null
    readonly groups: readonly string[]
  } | null
  readonly workingDirectory: string
  /** The name of the unit without its suffix. */
  readonly name: string
  readonly spools: readonly string[]
  /** Further directories that the daemon creates files in. */
  readonly written: readonly string[]
  /** True if the daemon has control sockets outside of spools: those for spools on Redis. */
  readonly needsRuntimeDirectory: boolean
  /** Paths that the daemon has to be able to read. */
  readonly needed: readonly string[]
  /** How long the handlers may take to load; 0 for no limit. */
  readonly startMs: number
  readonly mercyMs: number
  /** `--drain`: the daemon runs what is due, and ends. */
  readonly isOnce: boolean
  /** True if the process that systemd starts is the daemon. With `daemonize` or `master-as-root`, the daemon is its child. */
  readonly isMainProcess: boolean
  /** True if the daemon ends when idle, and another unit starts it. */
  readonly isOnDemand: boolean
  /** True if the daemon binds a port below 1024. */
  readonly hasLowPort: boolean
  readonly isNetworked: boolean
  /** The version of systemd on this machine; null if unknown. */
  readonly systemdVersion: number | null
  /** True for a unit of `systemctl --user`. */
  readonly isUserUnit: boolean
  readonly isHardened: boolean
}

/** systemd waits this much longer than the daemon itself takes at most. */
const MARGIN_MS = 30_000
/** The first version of systemd that sends the signal for a reload itself, and waits until the reload is done. */
const HAS_NOTIFY_RELOAD = 253

/** Returns the text of a `.service` unit. @throws SpooldError CONFIG_INVALID for a path that a unit cannot name */
export function serviceUnit(plan: ServicePlan): string {
  const sections = [
    ['Unit', unitLines(plan)],
    ['Service', [...kindLines(plan), ...placeLines(plan), ...endLines(plan), ...limitLines(plan)]],
    [
      'Install',
      plan.isOnDemand || plan.isOnce ? [] : [`WantedBy=${plan.isUserUnit ? 'default' : 'multi-user'}.target`],
    ],
  ] as const
  return sections
    .filter(([, lines]) => lines.length > 0)
    .map(([name, lines]) => [`[${name}]`, ...lines, ''].join('\n'))
    .join('\n')
}

function unitLines({ about, spools, isNetworked }: ServicePlan): string[] {
  return [
    `Description=spoold ${value(about)}`,
    ...(isNetworked ? ['After=network.target'] : []),
    `RequiresMountsFor=${spools.map(word).join(' ')}`,
  ]
}

function kindLines({ isOnce, isMainProcess, command, systemdVersion, startMs }: ServicePlan): string[] {
  const start = `ExecStart=${command.map(argument).join(' ')}`
  if (isOnce) return ['Type=oneshot', start, 'TimeoutStartSec=infinity']
  const isReloadedBySystemd = (systemdVersion ?? 0) >= HAS_NOTIFY_RELOAD
  return [
    `Type=${isReloadedBySystemd ? 'notify-reload' : 'notify'}`,
    ...(isMainProcess ? [] : ['# the daemon is not the process that systemd starts', 'NotifyAccess=all']),
    start,
    ...(isReloadedBySystemd ? [] : ['ExecReload=/bin/kill -HUP $MAINPID']),
    `TimeoutStartSec=${startMs === 0 ? 'infinity' : seconds(startMs + MARGIN_MS)}`,
  ]
}

function placeLines({
  owner,
  workingDirectory,
  name,
  isUserUnit,
  needsRuntimeDirectory,
}: ServicePlan): string[] {
  return [
    ...(owner === null ? [] : [`User=${value(owner.user)}`]),
    ...(owner?.group == null ? [] : [`Group=${value(owner.group)}`]),
    ...(owner === null || owner.groups.length === 0
      ? []
      : [`SupplementaryGroups=${owner.groups.map(word).join(' ')}`]),
    `WorkingDirectory=${value(workingDirectory)}`,
    ...(needsRuntimeDirectory ? [`RuntimeDirectory=${value(name)}`] : []),
    `EnvironmentFile=-${isUserUnit ? `%h/.config/${value(name)}.env` : `/etc/default/${value(name)}`}`,
  ]
}

function endLines({ isOnce, mercyMs }: ServicePlan): string[] {
  const stop = [
    '# the master tells its workers, and running tasks have their mercy (worker-reload-mercy)',
    'KillMode=mixed',
    'KillSignal=SIGTERM',
    `TimeoutStopSec=${seconds(mercyMs + MARGIN_MS)}`,
  ]
  if (isOnce) return stop
  return [
    ...stop,
    'Restart=on-failure',
    'RestartSec=5',
    'WatchdogSec=60',
    '# running tasks have their mercy then, too',
    'WatchdogSignal=SIGTERM',
  ]
}

function limitLines(plan: ServicePlan): string[] {
  return [
    '# a worker that takes too much is killed and replaced; its task counts a crash',
    'MemoryMax=80%',
    'OOMPolicy=continue',
    ...(plan.hasLowPort ? ['AmbientCapabilities=CAP_NET_BIND_SERVICE'] : []),
    ...(plan.isHardened ? hardeningLines(plan) : []),
  ]
}

/** The directories of users, as ProtectHome= knows them. */
const HOMES = ['/home', '/root', '/run/user']
const TEMPORARY = ['/tmp', '/var/tmp']

function hardeningLines(plan: ServicePlan): string[] {
  const { spools, written, needed, workingDirectory, command, hasLowPort } = plan
  const writable = [...new Set([...spools, ...written])]
  const used = [...writable, ...needed, workingDirectory, ...command.filter(each => each.startsWith('/'))]
  const isIn = (parents: readonly string[]) =>
    used.some(path => parents.some(parent => path === parent || path.startsWith(`${parent}/`)))
  return [
    '',
    '# Handlers are subject to this, too. MemoryDenyWriteExecute= is left out: Node compiles code at run time.',
    'ProtectSystem=strict',
    `ReadWritePaths=${writable.map(word).join(' ')}`,
    `ProtectHome=${isIn(HOMES) ? 'read-only' : 'yes'}`,
    ...(isIn(TEMPORARY)
      ? ['# PrivateTmp= is left out: something that is used lies there']
      : ['PrivateTmp=yes']),
    'NoNewPrivileges=yes',
    'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6',
    'RestrictNamespaces=yes',
    'RestrictRealtime=yes',
    'RestrictSUIDSGID=yes',
    'LockPersonality=yes',
    'ProtectControlGroups=yes',
    'ProtectHostname=yes',
    'ProtectKernelTunables=yes',
    'SystemCallArchitectures=native',
    '# Node asks for memory protection keys',
    'SystemCallFilter=@system-service @pkey',
    'SystemCallErrorNumber=EPERM',
    ...(plan.isUserUnit ? [] : capabilityLines(hasLowPort)),
  ]
}

/** What takes capabilities away. The manager of a user may not do that: the service would not start (218/CAPABILITIES). */
function capabilityLines(hasLowPort: boolean): string[] {
  return [
    `CapabilityBoundingSet=${hasLowPort ? 'CAP_NET_BIND_SERVICE' : ''}`,
    'PrivateDevices=yes',
    'ProtectClock=yes',
    'ProtectKernelLogs=yes',
    'ProtectKernelModules=yes',
  ]
}

function seconds(ms: number): string {
  return String(Math.ceil(ms / 1000))
}

/** A spool whose tasks start the daemon. */
interface WatchedSpool {
  readonly directory: string
  /** The priority directories that exist now; null if the daemon does not enter them. */
  readonly priorities: readonly string[] | null
  /** True if only files with uWSGI's names are tasks. */
  readonly strictNames: boolean
}

/**
 * Returns the text of a `.path` unit. systemd looks at a directory again when the service has ended, so no task is overlooked.
 * systemd ignores names that begin with a dot, `.spoold` among them.
 */
export function pathUnit(about: string, spools: readonly WatchedSpool[]): string {
  return `[Unit]
Description=Tasks for spoold ${value(about)}

[Path]
${spools.flatMap(conditions).join('\n')}

[Install]
WantedBy=paths.target
`
}

function conditions({ directory, priorities, strictNames }: WatchedSpool): string[] {
  const inSpool = (name: string) => `PathExistsGlob=${literal(directory)}/${name}`
  if (priorities === null)
    return [strictNames ? inSpool('uwsgi_spoolfile_on_*') : `DirectoryNotEmpty=${value(directory)}`]
  return [
    '# systemd does not watch below a glob: print this unit again when there is a new priority',
    inSpool('[!0-9]*'),
    ...priorities.map(name => `DirectoryNotEmpty=${value(`${directory}/${name}`)}`),
  ]
}

/** The sockets of the configuration, in systemd's notation. */
interface SocketPlan {
  readonly addresses: readonly string[]
  readonly backlog: number
  /** The mode of unix sockets. */
  readonly mode: number
  /** The owner of unix sockets; null for root. */
  readonly owner: { readonly user: string; readonly group: string | null } | null
}

/** Returns the text of a `.socket` unit. */
export function socketUnit(about: string, { addresses, backlog, mode, owner }: SocketPlan): string {
  return [
    '[Unit]',
    `Description=Sockets of spoold ${value(about)}`,
    '',
    '[Socket]',
    ...addresses.map(address => `ListenStream=${value(address)}`),
    `Backlog=${backlog}`,
    `SocketMode=${mode.toString(8).padStart(4, '0')}`,
    ...(owner === null ? [] : [`SocketUser=${value(owner.user)}`]),
    ...(owner?.group == null ? [] : [`SocketGroup=${value(owner.group)}`]),
    '',
    '[Install]',
    'WantedBy=sockets.target',
    '',
  ].join('\n')
}

/**
 * Returns a rule for logrotate(8). The daemon opens its log again on SIGHUP. logrotate creates the new file, because the daemon
 * may not be able to.
 */
export function logrotateRule(log: string, owner: { user: string; group: string }, signal: string): string {
  return `"${plain(log).replace(/["\\]/g, '\\$&')}" {
    weekly
    rotate 8
    missingok
    notifempty
    compress
    delaycompress
    create 0640 ${owner.user} ${owner.group}
    postrotate
        ${signal}
    endscript
}
`
}

/** Escapes a whole value, such as a path, in which `%` would begin a specifier. @throws SpooldError CONFIG_INVALID */
function value(text: string): string {
  return plain(text).replaceAll('%', '%%')
}

/** Returns a text that can be written in a line of a file that people read. @throws SpooldError CONFIG_INVALID for any other */
export function plain(text: string): string {
  if (printableLine(text) === text && !/[\t\ufffd]/.test(text)) return text
  throw new SpooldError(
    'CONFIG_INVALID',
    `${JSON.stringify(text)} cannot be written in a unit or a rule: expected UTF-8 without control characters`,
  )
}

/** Escapes one of the words of a value (systemd.syntax(7)). */
function word(text: string): string {
  const safe = value(text)
  return /^[^\s"'\\;]+$/.test(safe) ? safe : `"${safe.replace(/["\\]/g, '\\$&')}"`
}

/** Escapes one of the words of a command, in which `$` would begin a variable. */
function argument(text: string): string {
  return word(text).replaceAll('$', '$$$$')
}

/** Escapes a path for a glob(7). */
function literal(path: string): string {
  return value(path).replace(/[*?[\\]/g, '[$&]')
}

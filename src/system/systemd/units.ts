import { SpooldError } from '../../base/errors.js'
import { printableLine } from '../../base/printable.js'

/** What a service unit is made from. Paths are absolute, and times in milliseconds. */
export interface ServicePlan {
  /** The configuration, for people. */
  readonly about: string
  /** Node, the program, and its arguments. */
  readonly command: readonly string[]
  /** Null: the user of the service manager. */
  readonly owner: {
    readonly user: string
    readonly group: string | null
    readonly groups: readonly string[]
  } | null
  readonly workingDirectory: string
  /** The unit's, without its suffix. */
  readonly name: string
  readonly spools: readonly string[]
  /** Further directories that the daemon creates files in. */
  readonly written: readonly string[]
  /** Its control sockets are in no spool: those of spools on Redis. */
  readonly needsRuntimeDirectory: boolean
  /** What has to be readable. */
  readonly needed: readonly string[]
  /** How long the handlers may take to load; 0: no limit. */
  readonly startMs: number
  readonly mercyMs: number
  /** `--drain`: it runs what is due, and ends. */
  readonly isOnce: boolean
  /** What systemd starts is the daemon itself, which `daemonize` and `master-as-root` put elsewhere. */
  readonly isMainProcess: boolean
  /** It ends when idle; something else starts it. */
  readonly isOnDemand: boolean
  /** It binds a port below 1024. */
  readonly hasLowPort: boolean
  readonly isNetworked: boolean
  /** Of systemd on this machine; null: unknown. */
  readonly systemdVersion: number | null
  /** For `systemctl --user`. */
  readonly isUserUnit: boolean
  readonly isHardened: boolean
}

/** What systemd adds to the time that the daemon itself takes at most. */
const MARGIN_MS = 30_000
/** The first version that sends the signal of a reload itself, and waits until it is done. */
const HAS_NOTIFY_RELOAD = 253

/** The text of a `.service` unit. @throws SpooldError CONFIG_INVALID for a path that a unit cannot name */
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

/** Homes, as ProtectHome= knows them. */
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
    'PrivateDevices=yes',
    'NoNewPrivileges=yes',
    `CapabilityBoundingSet=${hasLowPort ? 'CAP_NET_BIND_SERVICE' : ''}`,
    'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6',
    'RestrictNamespaces=yes',
    'RestrictRealtime=yes',
    'RestrictSUIDSGID=yes',
    'LockPersonality=yes',
    'ProtectClock=yes',
    'ProtectControlGroups=yes',
    'ProtectHostname=yes',
    'ProtectKernelLogs=yes',
    'ProtectKernelModules=yes',
    'ProtectKernelTunables=yes',
    'SystemCallArchitectures=native',
    '# Node asks for memory protection keys',
    'SystemCallFilter=@system-service @pkey',
    'SystemCallErrorNumber=EPERM',
  ]
}

function seconds(ms: number): string {
  return String(Math.ceil(ms / 1000))
}

/** A spool whose tasks start the daemon. */
interface WatchedSpool {
  readonly directory: string
  /** Its priority directories at this time; null: priorities are not entered. */
  readonly priorities: readonly string[] | null
  /** Only uWSGI's names run. */
  readonly strictNames: boolean
}

/**
 * The text of a `.path` unit. systemd looks at a directory again when the service has ended, so no task is overlooked. It
 * passes by names with a dot in front, `.spoold` among them.
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
  /** Of unix sockets. */
  readonly mode: number
  /** Of unix sockets; null: root. */
  readonly owner: { readonly user: string; readonly group: string | null } | null
}

/** The text of a `.socket` unit. */
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

/** A rule for logrotate(8): the daemon opens its log again on SIGHUP, and may not be able to create it. */
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

/** A whole value, such as a path: `%` would begin a specifier. @throws SpooldError CONFIG_INVALID */
function value(text: string): string {
  return plain(text).replaceAll('%', '%%')
}

/** What can be written in a line of a file that people read. @throws SpooldError CONFIG_INVALID */
export function plain(text: string): string {
  if (printableLine(text) === text && !/[\t\ufffd]/.test(text)) return text
  throw new SpooldError(
    'CONFIG_INVALID',
    `${JSON.stringify(text)} cannot be written in a unit or a rule: expected UTF-8 without control characters`,
  )
}

/** One of the words of a value (systemd.syntax(7)). */
function word(text: string): string {
  const safe = value(text)
  return /^[^\s"'\\;]+$/.test(safe) ? safe : `"${safe.replace(/["\\]/g, '\\$&')}"`
}

/** One of the words of a command, in which `$` begins a variable. */
function argument(text: string): string {
  return word(text).replaceAll('$', '$$$$')
}

/** A path in a glob(7). */
function literal(path: string): string {
  return value(path).replace(/[*?[\\]/g, '[$&]')
}

import { literal, value } from './escape.js'

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

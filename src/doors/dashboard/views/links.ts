/** Pages about one spool: below `/spools/:spool`. */
const OF_SPOOL = [
  { name: 'spool', title: 'Spool', path: '' },
  { name: 'waiting', title: 'Waiting', path: '/waiting' },
  { name: 'running', title: 'Running', path: '/running' },
  { name: 'retrying', title: 'Retrying', path: '/retrying' },
  { name: 'held', title: 'Held', path: '/held' },
  { name: 'parked', title: 'Parked', path: '/parked' },
  { name: 'dead', title: 'Dead letters', path: '/dead' },
  { name: 'find', title: 'Find', path: '/find' },
  { name: 'named', title: 'Named tasks', path: '/named' },
  { name: 'workers', title: 'Workers', path: '/workers' },
  { name: 'audit', title: 'Audit', path: '/audit' },
] as const

/** Pages about the daemon. */
const OF_DAEMON = [
  { name: 'overview', title: 'Overview', path: '/' },
  { name: 'schedules', title: 'Schedules', path: '/schedules' },
  { name: 'configuration', title: 'Configuration', path: '/configuration' },
] as const

export type SpoolPage = (typeof OF_SPOOL)[number]['name']
type DaemonPage = (typeof OF_DAEMON)[number]['name']
export type PageName = SpoolPage | DaemonPage | 'task'

/** The pages in the order of the navigation: the overview, then those of the spool, then those of the daemon. */
export const NAVIGATION: ReadonlyArray<{ readonly name: SpoolPage | DaemonPage; readonly title: string }> = [
  ...OF_DAEMON.slice(0, 1),
  ...OF_SPOOL,
  ...OF_DAEMON.slice(1),
]

type Query = Readonly<Record<string, string | number | undefined>>

/** Returns the path of a page about the daemon. */
function daemonHref(page: DaemonPage): string {
  return OF_DAEMON.find(({ name }) => name === page)?.path ?? '/'
}

/** Returns the path of a page about a spool. @param id the spool's name in URLs @param query undefined values are left out */
export function spoolHref(id: string, page: SpoolPage, query: Query = {}): string {
  const path = OF_SPOOL.find(({ name }) => name === page)?.path ?? ''
  const given = Object.entries(query).flatMap(
    ([key, value]): Array<[string, string]> => (value === undefined ? [] : [[key, String(value)]]),
  )
  const text = new URLSearchParams(given).toString()
  return `/spools/${encodeURIComponent(id)}${path}${text === '' ? '' : `?${text}`}`
}

/** Returns the path of a page of the navigation. @param id the spool's name in URLs, for the pages about a spool */
export function hrefOf(page: SpoolPage | DaemonPage, id: string): string {
  const isOfSpool = OF_SPOOL.some(({ name }) => name === page)
  return isOfSpool ? spoolHref(id, page as SpoolPage) : daemonHref(page as DaemonPage)
}

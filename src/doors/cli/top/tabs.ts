/** The tabs, in order. */
export const TABS = [
  { name: 'overview', title: 'Overview', short: 'Home' },
  { name: 'running', title: 'Running', short: 'Running' },
  { name: 'waiting', title: 'Waiting', short: 'Waiting' },
  { name: 'retrying', title: 'Retrying', short: 'Retrying' },
  { name: 'dead', title: 'Dead', short: 'Dead' },
  { name: 'held', title: 'Held and parked', short: 'Held' },
  { name: 'workers', title: 'Workers', short: 'Workers' },
  { name: 'names', title: 'Named tasks', short: 'Names' },
  { name: 'schedules', title: 'Schedules', short: 'Cron' },
] as const

export type TabName = (typeof TABS)[number]['name']

/** The tab that is `by` places to the right. */
export function tabAt(name: TabName, by: number): TabName {
  const at = TABS.findIndex(tab => tab.name === name)
  return TABS[(at + by + TABS.length) % TABS.length]?.name ?? name
}

import { shortDuration } from '../render.js'
import type { DaemonStatus } from './spool-status.js'

/** More are only counted. */
const MOST_PERIODIC = 16

/** When the periodic tasks of a spool are due, the next ones first. */
export function periodicOf({ schedules, atMs }: DaemonStatus): string[] {
  const known = schedules.flatMap(({ schedule, nextAtMs, pausedSinceMs }) =>
    schedule.kind === 'periodic' ? [{ name: schedule.name, nextAtMs, pausedSinceMs }] : [],
  )
  const sorted = known.sort((a, b) => (a.nextAtMs ?? 0) - (b.nextAtMs ?? 0))
  const left = sorted.slice(0, MOST_PERIODIC).map(({ name, nextAtMs, pausedSinceMs }) => {
    if (pausedSinceMs) return `${name} paused`
    if (nextAtMs === null) return name
    return nextAtMs <= atMs ? `${name} now` : `${name} in ${shortDuration(nextAtMs - atMs)}`
  })
  return sorted.length > left.length ? [...left, `${sorted.length - left.length} more`] : left
}

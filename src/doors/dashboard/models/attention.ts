import { describePauses } from '../../../base/task/pause.js'
import type { DaemonSnapshot, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import { percentText } from '../views/text.js'

/** Something that a person should look at, and the page that says more. */
export interface Concern {
  readonly level: 'error' | 'warning' | 'info'
  readonly text: string
  readonly page: 'spool' | 'dead' | 'waiting' | 'workers' | 'parked'
  readonly spool: string
}

/** A task that has been due for this long is late. */
const LATE_MS = 300_000
/** A larger share of failed runs in the last five minutes is a concern. */
const MANY_FAILURES = 0.05
/** A smaller share of free bytes, or of free inodes, is a concern. */
const LITTLE_DISK = 0.05

/** Returns what is wrong, or may be, the worst first. The rules read nothing but the snapshot. */
export function concernsOf({ spools, atMs }: DaemonSnapshot): Concern[] {
  const found = spools.flatMap(spool =>
    RULES.flatMap(({ level, page, text }) => {
      const said = text(spool, atMs)
      return said === undefined ? [] : [{ level, page, text: said, spool: spool.directory }]
    }),
  )
  return found.sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level))
}

const LEVELS: ReadonlyArray<Concern['level']> = ['error', 'warning', 'info']

interface Rule extends Pick<Concern, 'level' | 'page'> {
  text(spool: SpoolSnapshot, nowMs: number): string | undefined
}

const RULES: readonly Rule[] = [
  {
    level: 'error',
    page: 'spool',
    text: ({ disk }) => {
      if (disk === null) return undefined
      const { freeBytes, totalBytes, freeInodes, totalInodes } = disk
      if (totalBytes > 0 && freeBytes / totalBytes < LITTLE_DISK)
        return `the disk is nearly full: ${percentText(freeBytes / totalBytes)} of it is free`
      return totalInodes > 0 && freeInodes / totalInodes < LITTLE_DISK
        ? `the disk is nearly out of inodes: ${percentText(freeInodes / totalInodes)} of them are free`
        : undefined
    },
  },
  {
    level: 'error',
    page: 'workers',
    text: ({ processes: { delayed } }) =>
      delayed > 0
        ? `${delayed} worker${delayed === 1 ? ' is' : 's are'} started later, because others failed`
        : undefined,
  },
  {
    level: 'warning',
    page: 'waiting',
    text: ({ tasks: { oldestDueMs }, paused }, nowMs) => {
      const isPaused = paused.pauses.some(({ pair }) => pair === null)
      const lateMs = oldestDueMs === null || isPaused ? 0 : nowMs - oldestDueMs
      return lateMs > LATE_MS ? `a task has been due for ${Math.floor(lateMs / 60_000)} minutes` : undefined
    },
  },
  {
    level: 'warning',
    page: 'dead',
    text: ({ rates: { failedShare } }) =>
      failedShare !== null && failedShare > MANY_FAILURES
        ? `${percentText(failedShare)} of the runs of the last five minutes failed`
        : undefined,
  },
  {
    level: 'warning',
    page: 'parked',
    text: ({ tasks: { parked } }) => {
      const unknown = parked['unknown-name'] ?? 0
      return unknown > 0
        ? `${unknown} task${unknown === 1 ? ' has' : 's have'} a name that no handler knows`
        : undefined
    },
  },
  {
    level: 'info',
    page: 'dead',
    text: ({ dead: { count, isWhole } }) =>
      count > 0 ? `${count}${isWhole ? '' : ' or more'} dead letter${count === 1 ? '' : 's'}` : undefined,
  },
  {
    level: 'info',
    page: 'spool',
    text: ({ paused }) =>
      paused.pauses.length > 0 || paused.fault !== undefined
        ? `paused: ${describePauses(paused)}`
        : undefined,
  },
]

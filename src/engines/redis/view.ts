import type { FeedStats, PriorityStats } from '../feed.js'
import { priorityOf } from './task-job.js'

/** What the queue holds at one moment, as the `look` script sees it. */
export interface QueueView {
  /** By the clock of Redis; epoch ms. */
  readonly nowMs: number
  /** BullMQ's own pause: nobody gets a job. */
  readonly isPaused: boolean
  /** Jobs that a pull may bring now. */
  readonly due: number
  /** Jobs whose time has not come. */
  readonly later: number
  readonly nextDueMs?: number
  readonly oldestDueMs?: number
  /** The most urgent first; without the jobs that came due and that nobody has pulled since. Lua writes an empty list as {}. */
  readonly priorities: ReadonlyArray<readonly [priority: number, count: number]> | Record<string, never>
  readonly leftOut: number
  /** The last event of the queue. */
  readonly lastEvent: string
}

export const PRIORITIES_SHOWN = 20

export const NOTHING_SEEN: QueueView = {
  nowMs: 0,
  isPaused: false,
  due: 0,
  later: 0,
  priorities: [],
  leftOut: 0,
  lastEvent: '$',
}

export function viewFrom(reply: unknown): QueueView {
  return JSON.parse(String(reply)) as QueueView
}

function prioritiesOf({ priorities }: QueueView): PriorityStats[] {
  const list = Array.isArray(priorities) ? (priorities as ReadonlyArray<readonly [number, number]>) : []
  return list.map(([jobPriority, due]) => {
    const priority = priorityOf(jobPriority)
    return { priority: priority === null ? null : String(priority), due }
  })
}

/** What `view` says of a feed's statistics. */
export function statsFrom(
  view: QueueView,
): Pick<FeedStats, 'priorities' | 'prioritiesLeftOut' | 'oldestDueMs' | 'nextDueMs'> {
  return {
    priorities: prioritiesOf(view),
    prioritiesLeftOut: view.leftOut,
    oldestDueMs: view.oldestDueMs ?? null,
    nextDueMs: view.nextDueMs ?? null,
  }
}

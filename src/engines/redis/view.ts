import type { FeedStats, PriorityStats } from '../feed.js'
import type { Connection } from './connection.js'
import { limitedKey } from './queues.js'
import { priorityOf } from './task-job.js'

/** What one queue of a spool holds at one moment, as the `look` script sees it. */
export interface QueueView {
  /** The name of its tasks; absent: it is the spool's own queue. */
  readonly task?: string
  /** True under BullMQ's own pause: nobody gets a job. */
  readonly isPaused: boolean
  /** Jobs that a pull may bring now, or as soon as fewer than `limit` are active. */
  readonly due: number
  /** Jobs whose time has not come. */
  readonly later: number
  /** The part of `later` that people hold. */
  readonly held: number
  /** Jobs that somebody has pulled. */
  readonly active: number
  readonly limit?: number
  /** The next job that a pull brings, unless another one has only just come due. */
  readonly head?: { readonly priority: number; readonly dueMs: number }
  readonly nextDueMs?: number
  readonly oldestDueMs?: number
  /**
   * The most urgent first, without delayed jobs that have come due since the last pull, which promotes them. Lua writes an empty
   * list as {}.
   */
  readonly priorities: ReadonlyArray<readonly [priority: number, count: number]> | Record<string, never>
  readonly leftOut: number
  /** The last event of the queue. */
  readonly lastEvent: string
}

export interface SpoolView {
  /** By the clock of Redis; epoch ms. */
  readonly nowMs: number
  /** The spool's own queue first. */
  readonly queues: readonly QueueView[]
}

const PRIORITIES_SHOWN = 20

export const NOTHING_SEEN: SpoolView = {
  nowMs: 0,
  queues: [
    { isPaused: false, due: 0, later: 0, held: 0, active: 0, priorities: [], leftOut: 0, lastEvent: '$' },
  ],
}

/** Returns what a spool holds now. It only reads. */
export async function lookAt(connection: Connection): Promise<SpoolView> {
  const args = [limitedKey(connection), connection.key(''), PRIORITIES_SHOWN]
  return JSON.parse(String(await connection.run('look', ...args))) as SpoolView
}

/** Returns how many jobs are due, wait for their time, are held, or are left out. */
export function sumOf({ queues }: SpoolView, what: 'due' | 'later' | 'held' | 'leftOut'): number {
  return queues.reduce((sum, queue) => sum + queue[what], 0)
}

/** Returns the earliest time of all queues. */
export function firstOf({ queues }: SpoolView, what: 'nextDueMs' | 'oldestDueMs'): number | undefined {
  const times = queues.flatMap(queue => queue[what] ?? [])
  return times.length === 0 ? undefined : Math.min(...times)
}

/** Returns the part of a feed's statistics that is in a view. @param isDue true if the due jobs of a queue count as due */
export function statsFrom(
  view: SpoolView,
  isDue: (queue: QueueView) => boolean = ({ due }) => due > 0,
): Pick<FeedStats, 'priorities' | 'prioritiesLeftOut' | 'oldestDueMs' | 'nextDueMs'> {
  const due = { ...view, queues: view.queues.filter(isDue) }
  const priorities = prioritiesOf(due)
  return {
    priorities: priorities.slice(0, PRIORITIES_SHOWN),
    prioritiesLeftOut: sumOf(due, 'leftOut') + Math.max(0, priorities.length - PRIORITIES_SHOWN),
    oldestDueMs: firstOf(due, 'oldestDueMs') ?? null,
    nextDueMs: firstOf(view, 'nextDueMs') ?? null,
  }
}

function prioritiesOf({ queues }: SpoolView): PriorityStats[] {
  const counts = new Map<number, number>()
  for (const { priorities } of queues) {
    const list = Array.isArray(priorities) ? (priorities as ReadonlyArray<readonly [number, number]>) : []
    for (const [jobPriority, due] of list) counts.set(jobPriority, (counts.get(jobPriority) ?? 0) + due)
  }
  const sorted = [...counts].sort(([a], [b]) => a - b)
  return sorted.map(([jobPriority, due]) => {
    const priority = priorityOf(jobPriority)
    return { priority: priority === null ? null : String(priority), due }
  })
}

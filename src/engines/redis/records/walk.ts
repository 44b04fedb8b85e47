import type { TaskState } from '../../spool/admin/task-view.js'
import { HELD_UNTIL_MS } from '../../spool/spool-file.js'
import type { Connection } from '../connection.js'
import type { SpoolQueue } from '../queues.js'
import { type Place, SLICE } from './peek.js'

/**
 * A part of a queue. `min`, `max`: only jobs whose score in the set is between them; a `(` before a number excludes that number.
 */
export interface Part {
  readonly place: Place
  readonly min?: string
  readonly max?: string
}

/** The score in the set of delayed jobs is the job's time in ms times this, plus a number below this. */
const DELAYED_FACTOR = 4096
/** The score of held jobs, which no clock reaches. */
const [HELD_MS = 0] = HELD_UNTIL_MS
const HELD_SCORE = scoreOf(HELD_MS)
const AFTER_HELD = scoreOf(HELD_MS + 1)

export function scoreOf(dueAtMs: number): string {
  return String(Math.floor(dueAtMs) * DELAYED_FACTOR)
}

const RUNNING: readonly TaskState[] = ['running']
const DUE: readonly TaskState[] = ['due', 'malformed']
const LATER: readonly TaskState[] = ['waiting', 'retrying', 'parked']
const HELD: readonly TaskState[] = ['held']
const DEAD: readonly TaskState[] = ['dead']

/** Returns where tasks in these states may be, in the order in which they start. @param nowMs by the clock of Redis */
export function partsOf(states: readonly TaskState[], nowMs: number): Part[] {
  const has = (group: readonly TaskState[]) => group.some(state => states.includes(state))
  const now = scoreOf(nowMs + 1)
  return [
    ...(has(RUNNING) ? [{ place: 'active' } as const] : []),
    ...(has(DUE)
      ? ([{ place: 'wait' }, { place: 'delayed', max: `(${now}` }, { place: 'prioritized' }] as const)
      : []),
    ...(has(LATER)
      ? ([
          { place: 'delayed', min: now, max: `(${HELD_SCORE}` },
          { place: 'delayed', min: AFTER_HELD },
        ] as const)
      : []),
    ...(has(HELD) ? [{ place: 'delayed', min: HELD_SCORE, max: `(${AFTER_HELD}` } as const] : []),
    ...(has(DEAD) ? [{ place: 'failed' } as const] : []),
  ]
}

/** Yields the ids of a part, in slices. A job may come twice, or be missed, if it moves meanwhile. */
export function idsIn(
  connection: Connection,
  queue: SpoolQueue,
  part: Part,
  isReversed = false,
): AsyncGenerator<string[]> {
  const isList = part.place === 'wait' || part.place === 'active'
  return isList ? listed(connection, queue, part, isReversed) : scored(connection, queue, part, isReversed)
}

/** Yields the ids of a list, beginning at its end, from which jobs are taken. */
async function* listed(
  connection: Connection,
  queue: SpoolQueue,
  { place }: Part,
  isReversed: boolean,
): AsyncGenerator<string[]> {
  for (let from = 0; ; from += SLICE) {
    const [start, end] = isReversed ? [from, from + SLICE - 1] : [-from - SLICE, -from - 1]
    const ids = await connection.use(() => connection.redis.lrange(queue.key(place), start, end))
    if (ids.length === 0) return
    yield isReversed ? ids : ids.reverse()
  }
}

/** Yields the ids of a set from score to score, so that what leaves the set meanwhile does not shift the rest. */
async function* scored(
  connection: Connection,
  queue: SpoolQueue,
  { place, min = '-inf', max = '+inf' }: Part,
  isReversed: boolean,
): AsyncGenerator<string[]> {
  const { redis } = connection
  const key = queue.key(place)
  let [bound, skip] = [isReversed ? max : min, 0]
  for (;;) {
    const reply = await connection.use(() =>
      isReversed
        ? redis.zrevrangebyscore(key, bound, min, 'WITHSCORES', 'LIMIT', skip, SLICE)
        : redis.zrangebyscore(key, bound, max, 'WITHSCORES', 'LIMIT', skip, SLICE),
    )
    const ids = reply.filter((_, i) => i % 2 === 0)
    const scores = reply.filter((_, i) => i % 2 === 1)
    if (ids.length === 0) return
    yield ids
    const last = scores.at(-1) ?? bound
    const atLast = scores.length - scores.indexOf(last)
    skip = last === bound ? skip + atLast : atLast // more jobs may have that score
    bound = last
  }
}

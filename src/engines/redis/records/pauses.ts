import { SpooldError } from '../../../base/errors.js'
import { hasFields } from '../../../base/json-guard.js'
import { NO_PAUSES, type Pause, type PausedPair, type Pauses } from '../../../base/task/pause.js'
import type { PauseFollower } from '../../contracts/upkeep.js'
import type { Resumed } from '../../task-store.js'
import type { Connection } from '../connection.js'
import { queuesOf, type SpoolQueue } from '../queues.js'
import { unlessUnreadable } from '../store-failure.js'
import { jsonIn } from '../task-job.js'

/** How often a daemon looks whether a pause has begun, or is over. */
const LOOK_MS = 1000

/** Returns the key beside BullMQ's own pause: that says that the queue is paused, the key has since when and until when. */
function keyOf(connection: Connection): string {
  return connection.key('spoold:paused')
}

/** Returns what is paused: the whole spool, or nothing. */
export async function readPauses(connection: Connection): Promise<Pauses> {
  const { redis } = connection
  const [isPaused, text] = await connection.use(() =>
    Promise.all([
      redis.hexists(connection.key('meta'), 'paused'),
      redis.get(keyOf(connection)).catch(unlessUnreadable),
    ]),
  )
  if (isPaused !== 1) return NO_PAUSES
  return { pauses: [{ pair: null, sinceMs: 0, untilMs: null, ...timesIn(text) }] }
}

function timesIn(text: string | null): Partial<Pause> {
  const value = jsonIn(text ?? '')
  return hasFields(value, { sinceMs: 'time' }, { untilMs: 'time' }) ? (value as Partial<Pause>) : {}
}

/** Pauses all queues. @throws SpooldError USAGE for a pair */
export async function pauseQueues(
  connection: Connection,
  queues: readonly SpoolQueue[],
  { pair, sinceMs, untilMs }: Pause,
): Promise<Pauses> {
  if (pair !== null) throw ONLY_WHOLE()
  const times = { sinceMs, ...(untilMs === null ? {} : { untilMs }) }
  await connection.use(() => connection.redis.set(keyOf(connection), JSON.stringify(times)))
  for (const queue of queues) await queue.use(all => all.getBackend().pause(true))
  return { pauses: [{ pair, sinceMs, untilMs }] }
}

function ONLY_WHOLE(): SpooldError {
  return new SpooldError(
    'USAGE',
    '--key: a spool on Redis is paused as a whole; to keep some tasks from running: spoold hold',
  )
}

/** Ends the pause of all queues. @throws SpooldError USAGE for a pair */
export async function resumeQueues(
  connection: Connection,
  queues: readonly SpoolQueue[],
  which: PausedPair | null | 'all',
): Promise<Resumed> {
  if (which !== null && which !== 'all') throw ONLY_WHOLE()
  const { pauses } = await readPauses(connection)
  for (const queue of queues) await queue.use(all => all.getBackend().pause(false))
  await connection.use(() => connection.redis.del(keyOf(connection)))
  return { ended: pauses, left: NO_PAUSES }
}

/** Tells a daemon what is paused. Whichever daemon first sees that the time of a pause is over ends the pause. */
export class PauseWatch implements PauseFollower {
  readonly #connection: Connection
  readonly #changed: (pauses: Pauses) => void
  #last = ''
  #timer: NodeJS.Timeout | undefined
  readonly #closed = new AbortController()

  constructor(connection: Connection, changed: (pauses: Pauses) => void) {
    this.#connection = connection
    this.#changed = changed
  }

  async start(): Promise<void> {
    await this.#look()
    if (this.#closed.signal.aborted) return // it was closed while Redis was asked
    this.#timer = setInterval(() => void this.#look(), LOOK_MS).unref()
  }

  close(): void {
    this.#closed.abort()
    clearInterval(this.#timer)
  }

  /** Looks what is paused. While Redis is away, nothing starts anyway. */
  async #look(): Promise<void> {
    try {
      await this.#connection.reach(this.#closed.signal)
      const now = await readPauses(this.#connection)
      const [{ untilMs } = { untilMs: null }] = now.pauses
      const isOver = untilMs !== null && untilMs <= Date.now()
      if (isOver) await resumeQueues(this.#connection, await queuesOf(this.#connection), null)
      const pauses = isOver ? NO_PAUSES : now
      const text = JSON.stringify(pauses)
      if (text === this.#last || (this.#last === '' && pauses.pauses.length === 0)) return
      this.#last = text
      this.#changed(pauses)
    } catch {}
  }
}

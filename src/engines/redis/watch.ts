import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { pauseMs } from './client.js'
import type { Connection } from './connection.js'
import { SpoolQueue } from './queues.js'
import { hasEnded, unlessUnreadable, weightOf, whyNot } from './store-failure.js'
import { firstOf, lookAt, NOTHING_SEEN, type SpoolView, sumOf } from './view.js'

/** The least time between two looks, because a busy queue has thousands of events in a second. */
const PAUSE_MS = 20
/** How often to look without an event. */
export const REGULAR_MS = 1000
/** How long a read of events blocks. */
const BLOCK_MS = 5000

interface WatchListener {
  /** @param most how many jobs of each queue may be asked for at a time */
  seen(view: SpoolView, most: number): void
  /** Called once, until Redis is reached again; and once more if Redis then answers, but refuses or lets nobody in. */
  unreachable(error: string): void
  reachedAgain(): void
  /** Called once, if Redis denies the events to a user whom it lets look, until it grants them. */
  deaf(error: string): void
  hearing(): void
}

/** Follows what the queues of a spool hold: looks at once after an event of BullMQ, when a job comes due, and each second. */
export class Watch {
  readonly #connection: Connection
  /** A connection of its own, because its reads block. */
  readonly #events: Connection
  readonly #listener: WatchListener
  #view = NOTHING_SEEN
  #looking: Promise<void> | undefined
  #isDirty = false
  #pauseMs = PAUSE_MS
  #checkedAt = Number.NEGATIVE_INFINITY
  /** Since when active jobs have been seen without a lock, by their keys, on the clock of `performance.now()`. */
  #unlocked: ReadonlyMap<string, number> = new Map()
  /** Why Redis is not reached, as people were told; undefined: it is reached. */
  #told: string | undefined
  /**
   * True if the connection ended in the last look, of which nobody was told: a replica ends it at a command that writes, whoever
   * sent that.
   */
  #isTriedAgain = false
  /** True if Redis can be read, but takes no writes. */
  #isRefusing = false
  #isOpen = false
  readonly #closed = new AbortController()
  #timer: NodeJS.Timeout | undefined

  constructor(connection: Connection, events: Connection, listener: WatchListener) {
    this.#connection = connection
    this.#events = events
    this.#listener = listener
  }

  /** Resolves after the first look, whatever came of it. */
  async open(): Promise<void> {
    this.#isOpen = true
    await this.#look()
    void this.#follow()
  }

  /** Looks as soon as the pause since the last look is over. */
  look(): void {
    this.#isDirty = true
    if (!this.#isOpen || this.#looking !== undefined) return
    this.#looking = this.#lookAfterPause().finally(() => {
      this.#looking = undefined
      if (this.#isDirty) this.look()
    })
  }

  /** Looks less often until `relax`, because what is due cannot be pulled. */
  slowDown(): void {
    this.#pauseMs = Math.min(REGULAR_MS, this.#pauseMs * 2)
  }

  /** Looks often again, because a job was pulled. */
  relax(): void {
    this.#pauseMs = PAUSE_MS
    if (!this.#isRefusing) return
    this.#reached()
    this.look()
  }

  /**
   * Notes that Redis gave no job although it can be read: it is full, or no master. From now on, one job is asked for at a time.
   */
  refused(why: string): void {
    this.#lost(why)
    this.#isRefusing = true
    this.#pauseMs = REGULAR_MS
  }

  #reached(): void {
    if (this.#told !== undefined) this.#listener.reachedAgain()
    this.#told = undefined
    this.#isRefusing = false
  }

  /**
   * Tells why Redis is not reached, and tells again if the reason is graver: what Redis itself says, such as that it lets nobody
   * in, is known only once a connection has ended and another one was tried.
   */
  #lost(why: string): void {
    if (this.#told !== undefined && weightOf(why) <= weightOf(this.#told)) return
    this.#told = why
    this.#listener.unreachable(why)
  }

  /** True if Redis is reached, and no look is in progress or asked for: the view is as new as the last wish for one. */
  get isCurrent(): boolean {
    return this.#told === undefined && !this.#isDirty && this.#looking === undefined
  }

  close(): void {
    this.#isOpen = false
    this.#closed.abort()
    clearTimeout(this.#timer)
    this.#events.close()
  }

  async #lookAfterPause(): Promise<void> {
    await sleep(this.#pauseMs, undefined, { ref: false })
    if (this.#isOpen) await this.#look()
  }

  async #look(): Promise<void> {
    this.#isDirty = false
    try {
      await this.#connection.reach(this.#closed.signal)
      this.#view = await lookAt(this.#connection)
      await this.#recoverLost() // a Redis that takes no writes refuses this, and its connection ends
      if (!this.#isOpen) return
      this.#isTriedAgain = false
      if (this.#told !== undefined && (!this.#isRefusing || sumOf(this.#view, 'due') === 0))
        await this.#write()
      this.#listener.seen(this.#view, this.#isRefusing ? 1 : Number.POSITIVE_INFINITY)
    } catch (error) {
      if (!this.#isOpen) return
      this.#isTriedAgain = !this.#isTriedAgain && hasEnded(error)
      if (this.#isTriedAgain) this.look()
      else this.#lost(whyNot(error))
      this.#listener.seen(this.#view, 0)
    }
    this.#arm()
  }

  /**
   * Tries to write, because Redis counts as reached again only once it takes a write, which a replica that can be read does not.
   */
  async #write(): Promise<void> {
    await this.#connection.use(() => this.#connection.redis.del(this.#connection.key('spoold:probe')))
    this.#reached()
  }

  /**
   * Makes jobs due again whose holders died with their machine, or with their master. All locks expire at once when the clock of
   * Redis is set forward, or Redis stood still. Holders that live take them again at their next renewal, so a job is lost only
   * if its lock stays away for longer than that, by the clock of this process, which nobody can set.
   */
  async #recoverLost(): Promise<void> {
    const now = performance.now()
    const { checkMs, lockMs } = this.#connection
    if (now - this.#checkedAt < checkMs) return
    const unlocked = new Map<string, number>()
    const lost: Array<Promise<unknown>> = []
    for (const queue of this.#queues)
      for (const id of (await queue.unlocked().catch(unlessUnreadable)) ?? []) {
        const key = queue.key(id)
        const since = this.#unlocked.get(key) ?? now
        if (now - since < lockMs / 2) unlocked.set(key, since)
        else lost.push(queue.recover(id).catch(unlessUnreadable))
      }
    await Promise.all(lost)
    this.#unlocked = unlocked
    this.#checkedAt = now // a Redis that refuses this is asked again at the next look
    if (lost.length > 0) this.look()
  }

  /** The queues, as far as they have been seen. */
  get #queues(): SpoolQueue[] {
    return this.#view.queues.map(({ task }) => new SpoolQueue(this.#connection, task))
  }

  #arm(): void {
    clearTimeout(this.#timer)
    const nextDueMs = firstOf(this.#view, 'nextDueMs')
    const { nowMs } = this.#view
    const dueInMs = nextDueMs === undefined ? REGULAR_MS : Math.max(1, nextDueMs - nowMs)
    const { checkMs } = this.#connection
    this.#timer = setTimeout(() => this.look(), Math.min(REGULAR_MS, dueInMs, checkMs))
  }

  async #follow(): Promise<void> {
    const stay = this.#events.stay()
    let isDeaf = false
    for (let failures = 0; this.#isOpen; )
      try {
        const keys = this.#queues.map(queue => queue.key('events'))
        const since = this.#view.queues.map(({ lastEvent }) => lastEvent)
        const { redis } = this.#events
        const read = () => redis.xread('COUNT', 1, 'BLOCK', BLOCK_MS, 'STREAMS', ...keys, ...since)
        if ((await this.#events.use(read)) !== null) {
          this.look()
          await this.#looking
        }
        if (isDeaf) this.#listener.hearing()
        isDeaf = false
        failures = 0
      } catch (error) {
        if (!isDeaf && this.#isOpen && this.#told === undefined && /^NOPERM\b/.test(messageOf(error))) {
          isDeaf = true
          this.#listener.deaf(whyNot(error))
        }
        if (this.#isOpen) await sleep(pauseMs(failures++), undefined, { ref: false })
      }
    stay()
  }
}

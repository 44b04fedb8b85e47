import type { Alarm } from './alarm-conditions.js'

/** Alarms that have not been delivered. Plain JSON. */
export interface Undelivered {
  readonly alarms: readonly Alarm[]
  /** How many states were never sent, because newer states took their places. */
  readonly replaced: number
}

/**
 * The alarms that have not been delivered: one per kind and spool, however long the receiver is away. Counts add up, and the
 * newest state takes the place of an older one.
 */
export class AlarmOutbox {
  #waiting = new Map<string, Alarm>()
  #replaced = 0

  get isEmpty(): boolean {
    return this.#waiting.size === 0
  }

  add(alarm: Alarm): void {
    const key = `${alarm.kind} ${alarm.spool}`
    const before = this.#waiting.get(key)
    if (alarm.kind !== 'buried' && before !== undefined) this.#replaced++
    const isSum = alarm.kind === 'buried' && before?.kind === 'buried'
    this.#waiting.set(key, isSum ? { ...alarm, count: alarm.count + before.count } : alarm)
  }

  get content(): Undelivered {
    return { alarms: [...this.#waiting.values()], replaced: this.#replaced }
  }

  /** Returns the content, and empties the outbox. */
  take(): Undelivered {
    const taken = this.content
    this.#waiting = new Map()
    this.#replaced = 0
    return taken
  }

  /** Puts back what was taken and could not be delivered. It is older than everything that came since. */
  giveBack({ alarms, replaced }: Undelivered): void {
    const since = this.take()
    this.#replaced = replaced + since.replaced
    for (const alarm of [...alarms, ...since.alarms]) this.add(alarm)
  }
}

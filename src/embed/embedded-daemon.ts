import { Emitter } from '../events/emitter.js'
import { subscribeLog } from '../events/log-subscriber.js'
import { Maintenance } from '../supervisor/maintenance.js'
import { Master } from '../supervisor/master.js'
import { SignalRouter } from '../supervisor/signal-router.js'
import { logTo } from './logger.js'
import type { Logger } from './options.js'
import { maintained, type Place, planQueue, type Running } from './plan.js'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** What one `start` runs, from its start to its end: a daemon without a configuration, a log or a process of its own. */
export class EmbeddedDaemon {
  readonly queues: readonly string[]
  readonly #places: readonly Place[]
  readonly #events = new Emitter()
  readonly #signals = new SignalRouter(this.#events, { declared() {}, added() {} })
  readonly #master = new Master(this.#events)
  readonly #sweeper = new Maintenance(this.#events)
  #stopping: Promise<void> | undefined
  #tellStopped = () => {}
  readonly whenStopped = new Promise<void>(resolve => {
    this.#tellStopped = resolve
  })

  constructor(places: readonly Place[], logger: Logger | undefined) {
    this.#places = places
    this.queues = places.map(({ queue }) => queue)
    if (logger !== undefined) subscribeLog(this.#events, logTo(logger), { isQuiet: () => false })
    else
      this.#events.on('task-printed', ({ stream, text }) => {
        ;(stream === 'stderr' ? process.stderr : process.stdout).write(text)
      })
  }

  /** Resolves when tasks are given out, or when a stop has come first. @throws SpooldError SPOOL_UNUSABLE, HANDLER_UNLOADABLE, START_FAILED */
  async start(runningOf: (place: Place) => Running): Promise<void> {
    const context = { events: this.#events, signals: this.#signals }
    try {
      const plans = await Promise.all(this.#places.map(place => planQueue(place, runningOf(place), context)))
      await this.#master.start(plans)
      if (this.#stopping === undefined) this.#sweeper.start(this.#places.flatMap(maintained))
    } catch (error) {
      this.#tellStopped()
      throw error
    }
  }

  /** Resolves when nothing is due and nothing runs, or when it is stopped. */
  async whenEmpty(): Promise<void> {
    await Promise.race([this.#master.whenDrained(() => true), this.whenStopped])
  }

  /** Takes no more tasks, and lets those that run end. */
  stop(mercyMs?: number): Promise<void> {
    this.#sweeper.stop()
    this.#stopping ??= this.#master.stop(mercyMs).then(() => this.#tellStopped())
    return this.#stopping
  }

  /** As the daemon does: the first signal stops it, a second one at once. @returns what ends that */
  obeySignals(): () => void {
    const obey = () => {
      if (this.#stopping === undefined) void this.stop()
      else void this.#master.kill()
    }
    for (const signal of SIGNALS) process.on(signal, obey)
    return () => {
      for (const signal of SIGNALS) process.off(signal, obey)
    }
  }
}

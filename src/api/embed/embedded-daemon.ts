import { SpooldError } from '../../base/errors.js'
import { Emitter } from '../../base/events/emitter.js'
import { subscribeLog } from '../../base/events/log-subscriber.js'
import type { PeriodicTask } from '../../base/task/schedule.js'
import { PeriodicSpool } from '../../runtime/periodic/spool.js'
import { AsideProcess } from '../../runtime/supervisor/aside.js'
import { Maintenance } from '../../runtime/supervisor/maintenance.js'
import { Master } from '../../runtime/supervisor/master.js'
import { SignalRouter } from '../../runtime/supervisor/signal-router.js'
import type { WorkerPort } from '../../runtime/supervisor/worker-port.js'
import { logTo } from './logger.js'
import type { SpooldOptions } from './options.js'
import { maintained, type Place, planQueue, type Running } from './plan.js'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** The daemon that one `start` runs, from its start to its end. It has no configuration, no log and no process of its own. */
export class EmbeddedDaemon {
  readonly queues: readonly string[]
  readonly #places: readonly Place[]
  readonly #events = new Emitter()
  readonly #periodic: OwnPeriodicTasks
  readonly #master: Master
  readonly #sweeper: Maintenance
  /** Why spools cannot be read until a person repairs them. */
  readonly #unreadable = new Map<string, string>()
  #fault: SpooldError | undefined
  #stopping: Promise<void> | undefined
  #tellStopped = () => {}
  readonly whenStopped = new Promise<void>(resolve => {
    this.#tellStopped = resolve
  })

  /**
   * @param arePeriodic true if the daemon also schedules periodic tasks
   * @param openAside absent: this process does the aside work itself
   */
  constructor(
    places: readonly Place[],
    options: SpooldOptions,
    arePeriodic: boolean,
    openAside?: () => WorkerPort,
  ) {
    const { logger, sync = true } = options
    this.#places = places
    this.#sweeper = new Maintenance(this.#events, openAside && new AsideProcess(openAside))
    this.#periodic = new OwnPeriodicTasks(places, sync, this.#events)
    const signals = new SignalRouter(this.#events, {
      declared: (spool, _, periodic) => {
        if (arePeriodic) this.#periodic.declared(spool, periodic)
      },
      added() {},
    })
    this.#events.on('spool-unreachable', ({ spool, error, isLasting }) => {
      if (isLasting) this.#unreadable.set(spool, error)
    })
    this.#events.on('spool-reached', ({ spool }) => this.#unreadable.delete(spool))
    this.#master = new Master(this.#events, signals)
    this.queues = places.map(({ queue }) => queue)
    if (logger !== undefined) subscribeLog(this.#events, logTo(options), () => false)
    else
      this.#events.on('task-printed', ({ stream, text }) => {
        ;(stream === 'stderr' ? process.stderr : process.stdout).write(text)
      })
  }

  /**
   * Resolves when workers are given tasks, or when a stop has come first.
   *
   * @throws SpooldError SPOOL_UNUSABLE, HANDLER_UNLOADABLE, START_FAILED
   */
  async start(runningOf: (place: Place) => Running): Promise<void> {
    try {
      const plans = await Promise.all(
        this.#places.map(place => planQueue(place, runningOf(place), this.#events)),
      )
      await this.#master.start(plans)
      if (this.#stopping === undefined) this.#sweeper.start(this.#places.flatMap(maintained))
    } catch (error) {
      this.#tellStopped()
      throw error
    }
  }

  /** Why the daemon stopped itself although tasks may be due: it cannot read one of its spools. */
  get fault(): SpooldError | undefined {
    return this.#fault
  }

  /** Stops once nothing is due and nothing runs in the spools that can be read. */
  async stopWhenEmpty(): Promise<void> {
    await this.#master.whenDrained(() => true)
    const [unreadable] = this.#unreadable
    if (this.#stopping === undefined && unreadable !== undefined)
      this.#fault = new SpooldError('SPOOL_UNUSABLE', unreadable.join(': '))
    await this.stop()
  }

  /** Takes no more tasks, and lets the running ones end, for at most `mercyMs`. */
  stop(mercyMs?: number): Promise<void> {
    this.#sweeper.stop()
    this.#stopping ??= this.#stop(mercyMs)
    return this.#stopping
  }

  async #stop(mercyMs?: number): Promise<void> {
    await Promise.all([this.#periodic.stop(), this.#master.stop(mercyMs)])
    this.#tellStopped()
  }

  /**
   * Handles signals as the daemon does: the first one stops gracefully, a second one kills.
   *
   * @returns a function that ends this
   */
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

/** The periodic tasks of an application. Each belongs to the first spool of its queue, if the application runs that queue. */
class OwnPeriodicTasks {
  readonly #places: readonly Place[]
  readonly #sync: boolean
  readonly #events: Emitter
  readonly #spools = new Map<string, PeriodicSpool>()
  #isStopped = false

  /** @param sync true if each run has to be on disk before it may start */
  constructor(places: readonly Place[], sync: boolean, events: Emitter) {
    this.#places = places
    this.#sync = sync
    this.#events = events
  }

  /** Takes the periodic tasks that the workers of a spool have loaded. They replace those declared before. */
  declared(spool: string, tasks: readonly PeriodicTask[]): void {
    const place = this.#places.find(each => each.spool === spool)
    const first = this.#places.find(each => each.queue === place?.queue)
    if (this.#isStopped || place === undefined || place !== first) return
    const opened =
      this.#spools.get(spool) ?? new PeriodicSpool(spool, { ...place, sync: this.#sync }, this.#events)
    this.#spools.set(spool, opened)
    opened.set(tasks.filter(({ queue }) => queue === place.queue))
  }

  /** Resolves when no task is being stored any more. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(Array.from(this.#spools.values(), spool => spool.close()))
  }
}

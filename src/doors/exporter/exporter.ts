import type { Socket } from 'node:net'
import { withDeadline } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { keepListening, type ListenerOptions } from '../http/listener.js'
import { parsePush } from '../net/stats-push.js'
import { type AlarmMemory, Alarms } from './alarms.js'
import { Carbon } from './carbon.js'
import { MetricsFile, StatsFile } from './files.js'
import type { ExporterOptions, FromExporter, ToExporter } from './messages.js'
import { metricsServer, statsServer } from './servers.js'
import { Statsd } from './statsd.js'
import { uwsgiStats } from './uwsgi-stats.js'

/** A daemon that needs longer is as good as blocked. */
const ANSWER_MS = 3000
/** How long a snapshot is shared, so that the daemon is asked no more often, however many clients ask. */
const SHARED_MS = 200
const METRICS_FILE_MS = 15_000
const ALARMS_MS = 2000
/** The shortest interval. uWSGI's pushers look once per second, too. */
const SHORTEST_PUSH_MS = 1000

interface Waiting {
  readonly answered: (snapshot: DaemonSnapshot) => void
  readonly promise: Promise<DaemonSnapshot>
}

/** Publishes what a daemon says of itself, from a process of its own, so that clients that flood it do not slow a single task. */
export class Exporter {
  readonly #send: (message: FromExporter) => void
  readonly #opened: Array<{ close(): void | Promise<void> }> = []
  #waiting: Waiting | undefined
  #last: { readonly snapshot: DaemonSnapshot; readonly until: number } | undefined

  constructor(send: (message: FromExporter) => void) {
    this.#send = send
  }

  hear(message: ToExporter): void {
    switch (message.type) {
      case 'open':
        return this.#open(message.options, message.alarmMemory)
      case 'snapshot':
        this.#last = { snapshot: message.snapshot, until: performance.now() + SHARED_MS }
        this.#waiting?.answered(message.snapshot)
        this.#waiting = undefined
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map(each => each.close()))
  }

  #open(options: ExporterOptions, alarmMemory: AlarmMemory): void {
    const { stats, spoolerMetrics: metrics, spoolerMetricsFile: metricsFile, chmodSocket: mode } = options
    const snapshot = () => this.#snapshot()
    if (stats !== null) this.#listen('stats', { address: stats, mode }, statsServer(stats, options, snapshot))
    if (metrics !== null) {
      this.#listen('metrics', { address: metrics, mode }, metricsServer(metrics, snapshot))
      snapshot().catch(() => {}) // so that run times are measured from now on, and not from the first scrape
    }
    if (metricsFile !== null)
      void this.#push(
        new MetricsFile(metricsFile),
        METRICS_FILE_MS,
        `spooler-metrics-file: ${metricsFile} is not written`,
      ).push()
    this.#pushStats(options)
    if (options.spoolerAlarm.length > 0)
      void this.#push(
        new Alarms(options, alarmMemory, {
          remember: memory => this.#send({ type: 'alarm-memory', memory }),
          alarm: message => this.#send({ type: 'alarm', message }),
          trouble: message => this.#send({ type: 'trouble', message }),
        }),
        ALARMS_MS,
        'spooler-alarm',
        () => snapshot().catch(() => undefined), // the daemon is busy; the next look may succeed
      ).push()
  }

  #listen(what: string, options: ListenerOptions, server: { accept(socket: Socket): void }): void {
    this.#opened.push(
      keepListening(options, {
        accept: socket => server.accept(socket),
        listening: address => this.#send({ type: 'listening', what, address }),
        trouble: message => this.#send({ type: 'trouble', message: `${what}: ${message}` }),
      }),
    )
  }

  #pushStats(options: ExporterOptions): void {
    const push = (kind: string, destination: Carbon | Statsd | StatsFile, everyMs: number) =>
      this.#push(
        {
          push: snapshot =>
            destination.push(uwsgiStats(snapshot, !options.statsNoCores), Math.floor(Date.now() / 1000)),
        },
        Math.max(SHORTEST_PUSH_MS, everyMs),
        kind,
      )
    const { statsPusherDefaultFreqMs: everyMs } = options
    for (const target of options.statsPush.map(parsePush))
      if (target.kind === 'file') push('file', new StatsFile(target, options), target.everyMs ?? everyMs)
      else push('statsd', new Statsd(target, options), everyMs)
    if (options.carbon.length > 0) push('carbon', new Carbon(options), options.carbonFreqMs)
  }

  #push(
    destination: Destination,
    everyMs: number,
    what: string,
    snapshot: PusherContext['snapshot'] = () => this.#snapshot(),
  ): Pusher {
    const pusher = new Pusher(destination, everyMs, {
      snapshot,
      trouble: message => this.#send({ type: 'trouble', message: `${what}: ${message}` }),
    })
    this.#opened.push(pusher)
    return pusher
  }

  /** Returns a snapshot. However many ask, the daemon is asked one question at a time. @throws if the daemon does not answer */
  #snapshot(): Promise<DaemonSnapshot> {
    if (this.#last !== undefined && performance.now() < this.#last.until)
      return Promise.resolve(this.#last.snapshot)
    this.#waiting ??= this.#ask()
    return withDeadline(this.#waiting.promise, ANSWER_MS, unanswered).catch(error => {
      this.#waiting = undefined // so that the next caller asks anew
      throw error
    })
  }

  #ask(): Waiting {
    let answered: Waiting['answered'] = () => {}
    const promise = new Promise<DaemonSnapshot>(resolve => {
      answered = resolve
    })
    this.#send({ type: 'ask' })
    return { answered, promise }
  }
}

interface Destination {
  push(snapshot: DaemonSnapshot): void | Promise<void>
  close?(): void | Promise<void>
}

interface PusherContext {
  /** Resolves with undefined if there is nothing to push. */
  snapshot(): Promise<DaemonSnapshot | undefined>
  /** Called once, until a push succeeds again. */
  trouble(message: string): void
}

/**
 * Pushes the daemon's statistics regularly. A push that fails is not repeated before the next one, because late statistics are
 * worthless.
 */
class Pusher {
  readonly #destination: Destination
  readonly #context: PusherContext
  readonly #timer: NodeJS.Timeout
  #isPushing = false
  #isTroubled = false
  #isClosed = false

  constructor(destination: Destination, everyMs: number, context: PusherContext) {
    this.#destination = destination
    this.#context = context
    this.#timer = setInterval(() => void this.push(), everyMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#destination.close?.()
  }

  async push(): Promise<void> {
    if (this.#isPushing) return // the destination is slower than the pushes
    this.#isPushing = true
    try {
      const snapshot = await this.#context.snapshot()
      if (snapshot === undefined || this.#isClosed) return
      await this.#destination.push(snapshot)
      this.#isTroubled = false
    } catch (error) {
      if (!this.#isTroubled) this.#context.trouble(messageOf(error))
      this.#isTroubled = true
    } finally {
      this.#isPushing = false
    }
  }
}

function unanswered(): never {
  throw new Error('the daemon does not answer')
}

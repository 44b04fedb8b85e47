import { hostname } from 'node:os'
import type { Emitter } from '../../base/events/emitter.js'
import type { Log } from '../../base/log/log.js'
import { controlHomeOf } from '../../engines/control/home.js'
import { HiddenNotes } from '../../engines/hidden-notes.js'
import type { Options } from '../../formats/config/option-table.js'
import { Hide, keysOf } from '../../formats/protocol/hide.js'
import { Collector } from '../../runtime/stats/collector.js'
import type { Master } from '../../runtime/supervisor/master.js'
import type { Opener } from '../../system/opener.js'
import type { Identity } from '../../system/privileges.js'
import type { CheckedConfig } from '../check/check.js'
import { actionsOf, type Orders } from './actions.js'
import { configAction } from './configuration.js'
import { DaemonControl } from './control.js'
import { dashboardOptions, exporterOptions, openDashboard, openExporter } from './http-process.js'
import type { Lifecycle } from './lifecycle.js'
import type { RememberedLog } from './log-stream.js'
import { MasterFifos } from './master-fifo.js'
import type { Schedules } from './schedules.js'
import type { DaemonSockets } from './sockets.js'
import { TaskWatch } from './task-watch.js'

interface ObservationContext {
  readonly version: string
  readonly life: Lifecycle
  readonly master: Master
  readonly schedules: Schedules
  readonly network: DaemonSockets
  /** The configuration in effect. */
  config(): CheckedConfig
  readonly events: Emitter
  readonly log: Log
  readonly lines: RememberedLog
  readonly identity: Identity | null
  readonly files: Opener
  readonly orders: Orders
  resolve(path: string): string
}

/** Whoever reads statistics or metrics has no role. */
const NOBODY = { mayReadPayload: false }

/** How people and programs see the daemon and act on it: its snapshots, its control sockets, and what it publishes. */
export class Observation {
  readonly #context: ObservationContext
  readonly #stats: Collector
  readonly #watch: TaskWatch
  readonly #control: DaemonControl
  readonly #notes = new HiddenNotes()
  /** What is in no snapshot and no line of the log. */
  #hide = new Hide([])
  readonly #exporter: ReturnType<typeof openExporter>
  readonly #dashboard: ReturnType<typeof openDashboard>
  readonly #fifos: MasterFifos

  constructor(context: ObservationContext) {
    const { events, log, lines, identity, files, orders, resolve, master, schedules, config } = context
    const stats = observe(context, () => this.#hide)
    this.#context = context
    this.#stats = stats
    this.#watch = new TaskWatch(events, spool => master.feedOf(spool) !== undefined)
    const actions = actionsOf({
      ...{ events, master, schedules, stats, orders, lines, config: configAction(config) },
      watch: this.#watch,
    })
    const looked = (spool: string) => this.#notes.renew(spool)
    this.#control = new DaemonControl({ events, identity, files, resolve, actions, looked })
    this.#fifos = new MasterFifos(events, orders, master, files)
    this.#exporter = openExporter({ events, log }, () => stats.snapshotFor(NOBODY))
    this.#dashboard = openDashboard({ events, log })
  }

  /** Opens what needs the privileges that the process has at its start. */
  async listen(options: Options): Promise<void> {
    await this.#control.listen(options)
  }

  /** Puts a configuration into service. @param local real paths of the spools that the daemon runs @param onRedis and their names */
  async serve(options: Options, local: readonly string[], onRedis: readonly string[]): Promise<void> {
    const { events, lines, resolve } = this.#context
    const hidden = keysOf(options.spoolerHide)
    const spools = [...local, ...onRedis]
    this.#hide = new Hide(hidden)
    this.#stats.outdate()
    lines.hide(this.#hide)
    this.#notes.serve(spools, hidden)
    await this.#fifos.serve(options.masterFifo)
    void this.#exporter.serve(exporterOptions(options))
    await this.#control.serve(options, spools)
    const controls = [...local, ...onRedis.map(controlHomeOf)]
    const shown = dashboardOptions(options, spools, controls, resolve)
    const isRefused = shown !== undefined && process.geteuid?.() === 0
    if (isRefused)
      events.emit('dashboard-trouble', {
        message: 'the dashboard is left closed, because it does not run as root: set uid',
      })
    void this.#dashboard.serve(isRefused ? undefined : shown)
  }

  async close(): Promise<void> {
    this.#fifos.close()
    await Promise.all([this.#exporter.serve(undefined), this.#dashboard.serve(undefined)])
    this.#stats.close()
    this.#watch.close()
    await this.#context.lines.close()
    await this.#control.close()
  }
}

/** The collector of a daemon's snapshots. @param hide what is in none of them */
function observe(context: ObservationContext, hide: () => Hide): Collector {
  const { events, version, life, master, schedules, network, config } = context
  const startedAtMs = Math.round(Date.now() - process.uptime() * 1000)
  return new Collector(events, {
    daemon: () => ({
      pid: process.pid,
      version,
      state: life.state,
      startedAtMs,
      isQuiet: master.isQuiet,
      host: hostname(),
      uid: process.geteuid?.() ?? 0,
      gid: process.getegid?.() ?? 0,
      directory: process.cwd(),
      files: config().files,
      rssBytes: process.memoryUsage.rss(),
    }),
    spools: () => master.stats,
    leadershipOf: spool => schedules.leadershipOf(spool),
    schedules: () => schedules.plan(),
    sockets: () => network.stats,
    hide,
  })
}

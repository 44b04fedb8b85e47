import type { Emitter } from '../../base/events/emitter.js'
import type { Log } from '../../base/log/log.js'
import { controlHomeOf } from '../../engines/control/home.js'
import { HiddenNotes } from '../../engines/hidden-notes.js'
import type { Options } from '../../formats/config/option-table.js'
import { Hide, keysOf } from '../../formats/protocol/hide.js'
import type { Collector } from '../../runtime/stats/collector.js'
import type { Opener } from '../../system/opener.js'
import type { Identity } from '../../system/privileges.js'
import { type Acting, actionsOf } from './actions.js'
import { DaemonControl } from './control.js'
import { DashboardProcess } from './dashboard-process.js'
import { ExporterProcess } from './exporter-process.js'
import { type LineSource, LogStream } from './log-stream.js'
import { MasterFifos } from './master-fifo.js'
import type { RememberedLog } from './remembered-log.js'
import { scaleAction } from './scale.js'
import { scheduleActions } from './schedule-actions.js'
import { type Observed, observe } from './stats.js'
import { TaskWatch } from './task-watch.js'

type ActingHere = Pick<
  Acting,
  | 'stats'
  | 'watch'
  | 'lines'
  | 'scale'
  | 'schedules'
  | 'raise'
  | 'nextOf'
  | 'laterOf'
  | 'parkedOf'
  | 'reopenLog'
>

interface ObservationContext {
  readonly events: Emitter
  readonly log: LineSource & Pick<Log, 'fd' | 'reopen'> & Pick<RememberedLog, 'hide'>
  readonly identity: Identity | null
  readonly files: Opener
  readonly observed: Observed
  readonly acting: Omit<Acting, keyof ActingHere>
  resolve(path: string): string
}

/** Whoever reads statistics or metrics has no role. */
const NOBODY = { mayReadPayload: false }

/** How people and programs see the daemon and act on it: its snapshots, its control sockets, and what it publishes. */
export class Observation {
  readonly #stats: Collector
  readonly #watch: TaskWatch
  readonly #lines: LogStream
  readonly #control: DaemonControl
  readonly #notes = new HiddenNotes()
  #hide = new Hide([])
  readonly #exporter: ExporterProcess
  readonly #dashboard: DashboardProcess
  readonly #log: Pick<RememberedLog, 'hide'>
  readonly #fifos: MasterFifos

  constructor({ events, log, identity, files, observed, resolve, ...context }: ObservationContext) {
    const acting = { ...context.acting, reopenLog: () => log.reopen() }
    const stats = observe(events, observed, () => this.#hide)
    this.#stats = stats
    this.#log = log
    this.#watch = new TaskWatch({ events, spools: () => observed.master.stats.map(({ spool }) => spool) })
    const { master } = observed
    const nextOf: Acting['nextOf'] = (...which) => master.nextOf(...which)
    const laterOf: Acting['laterOf'] = (...which) => master.laterOf(...which)
    const parkedOf: Acting['parkedOf'] = (...which) => master.parkedOf(...which)
    this.#lines = new LogStream(log)
    const scale = scaleAction(observed.master)
    const actions = actionsOf({
      stats,
      watch: this.#watch,
      lines: this.#lines,
      scale,
      schedules: scheduleActions(observed.schedules, events),
      raise: number => observed.schedules.raise(number),
      nextOf,
      laterOf,
      parkedOf,
      ...acting,
    })
    const looked = (spool: string) => this.#notes.renew(spool)
    this.#control = new DaemonControl({ events, identity, files, resolve, actions, looked })
    this.#fifos = new MasterFifos(events, { ...acting, checks: observed.master.checks }, files)
    this.#exporter = new ExporterProcess({ events, log, snapshot: () => stats.snapshotFor(NOBODY) })
    this.#dashboard = new DashboardProcess({ events, log, resolve })
  }

  /** Opens what needs the privileges that the process has at its start. */
  async listen(options: Options): Promise<void> {
    await this.#control.listen(options)
  }

  /** Puts a configuration into service. @param spools real paths of those that the daemon runs @param onRedis and their names */
  async serve(options: Options, spools: readonly string[], onRedis: readonly string[]): Promise<void> {
    const hidden = keysOf(options.spoolerHide)
    this.#hide = new Hide(hidden)
    this.#stats.outdate()
    this.#log.hide(this.#hide)
    this.#notes.serve([...spools, ...onRedis], hidden)
    await this.#fifos.serve(options.masterFifo)
    void this.#exporter.serve(options)
    await this.#control.serve(options, [...spools, ...onRedis])
    const controls = [...spools, ...onRedis.map(controlHomeOf)]
    void this.#dashboard.serve(options, [...spools, ...onRedis], controls)
  }

  async close(): Promise<void> {
    this.#fifos.close()
    await Promise.all([this.#exporter.stop(), this.#dashboard.stop()])
    this.#stats.close()
    this.#watch.close()
    await this.#lines.close()
    await this.#control.close()
  }
}

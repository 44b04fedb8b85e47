import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { messageOf, quietly, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { subscribeLog } from '../../base/events/log-subscriber.js'
import type { Log } from '../../base/log/log.js'
import { HiddenNotes } from '../../engines/hidden-notes.js'
import { checkSpool, makeSpoolFor } from '../../engines/spool/permissions.js'
import { SpoolTargets } from '../../engines/targets.js'
import type { Options } from '../../formats/config/option-table.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { formatProblem } from '../../formats/ini/setting.js'
import { Hide, keysOf } from '../../formats/protocol/hide.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import { Collector } from '../../runtime/stats/collector.js'
import { AsideProcess } from '../../runtime/supervisor/aside.js'
import { openAside, type SpareWorker } from '../../runtime/supervisor/forked-port.js'
import { Maintenance } from '../../runtime/supervisor/maintenance.js'
import { Master, type SpoolWorkersPlan } from '../../runtime/supervisor/master.js'
import { QuestionHandler } from '../../runtime/supervisor/questions.js'
import { Opener } from '../../system/opener.js'
import { endOwners } from '../../system/owner-process.js'
import { additionalGroups, become, type Identity, identityOf } from '../../system/privileges.js'
import type { ServiceManager } from '../../system/systemd/service-manager.js'
import { type CheckedConfig, checkAsUser } from '../check/check.js'
import { dashboardOptions } from '../dashboard/messages.js'
import { exporterOptions } from '../exporter/messages.js'
import { actionsOf, type Orders } from './actions.js'
import { configAction, unappliedWarning } from './configuration.js'
import { DaemonControl } from './control.js'
import { Drain, type DrainProgress } from './drain.js'
import { openDashboard, openExporter } from './http-process.js'
import { Lifecycle, stopWhenIdle, type TouchAsks, watchTouchReload } from './lifecycle.js'
import type { RememberedLog } from './log-stream.js'
import { MasterFifos } from './master-fifo.js'
import { ParentsPidfiles } from './parent.js'
import { Pidfiles } from './pidfile.js'
import { checkOptions } from './pool-plan.js'
import type { ProcessEnvironment } from './process-environment.js'
import { Schedules } from './schedules.js'
import { ServiceNotices } from './service-notices.js'
import { listenToSignals } from './signals.js'
import { DaemonSockets } from './sockets.js'
import {
  askDisks,
  localDirectories,
  longestMercyMs,
  maintained,
  type PreparedSpool,
  planSpools,
  prepareSpools,
  quietAmong,
  setProcessTitle,
  targetsOf,
} from './spool-plan.js'
import { TaskWatch } from './task-watch.js'

export interface DaemonRequest {
  readonly config: CheckedConfig
  readonly version: string
  /** File descriptors of listening sockets that were passed to the process. */
  readonly inherited: readonly number[]
  /** True if this process is the child of a root parent (root-parent.ts). */
  readonly isUnderRoot: boolean
  /** The service manager that wants to know when everything runs, and how the daemon is. */
  readonly manager: ServiceManager | undefined
  /** A worker process that was forked early, for the first worker. */
  readonly spare: SpareWorker | undefined
  /** undefined: nobody watches a drain. */
  readonly progress?: DrainProgress | undefined
  /** Reads the configuration again for a reload. */
  readConfig(): CheckedConfig
  /** Call it once everything runs. */
  started(): void
}

/** What a daemon is given from outside. */
interface DaemonInput {
  readonly request: DaemonRequest
  readonly surroundings: ProcessEnvironment
  readonly events: Emitter
  readonly log: Log
  /** The remembered lines, which are passed on to the log. */
  readonly lines: RememberedLog
}

interface ReloadReason {
  /** A text for people: a signal's name, who asked, or the file that was touched. */
  readonly because: string
  /** What the touched file asks for; absent: no file was touched. */
  readonly touched?: TouchAsks | undefined
}

/** The role of readers of statistics and metrics: none. */
const NOBODY = { mayReadPayload: false }

/** A stop that takes longer than this logs what it waits for. Most stops are faster. */
const STOP_NOTICE_MS = 1000

/** A daemon from its start to its end. Signals work in every state (lifecycle.ts). */
export class Daemon {
  readonly #request: DaemonRequest
  readonly #surroundings: ProcessEnvironment
  readonly #events: Emitter
  readonly #log: Log
  readonly #lines: RememberedLog
  /** The configuration in effect. A rejected reload does not change it. */
  #config: CheckedConfig
  readonly #identity: Identity | null
  readonly #life = new Lifecycle()
  readonly #master: Master
  readonly #questions: QuestionHandler
  readonly #pidfiles: Pidfiles | ParentsPidfiles
  readonly #sweeper: Maintenance
  readonly #drain: Drain
  readonly #schedules: Schedules
  readonly #notices: ServiceNotices
  readonly #network: DaemonSockets
  readonly #stats: Collector
  readonly #watch: TaskWatch
  readonly #control: DaemonControl
  readonly #fifos: MasterFifos
  readonly #exporter: ReturnType<typeof openExporter>
  readonly #dashboard: ReturnType<typeof openDashboard>
  readonly #notes = new HiddenNotes()
  readonly #orders: Orders
  /** The reload that comes next; undefined: none was asked for. */
  #asked: ReloadReason | undefined
  /** Ends the watch of the touched files of the configuration in effect; `#endIdling` that of its idle time. */
  #endTouches = () => {}
  #endIdling = () => {}
  /** True if tasks at this path leave no line in the log. */
  #leavesNoLine: (path: string) => boolean = () => false
  /** The values that appear in no snapshot and no line of the log. */
  #hide = new Hide([])

  /** Wires the rooms together; no other place does. Nothing begins yet. */
  constructor({ request, surroundings, events, log, lines }: DaemonInput) {
    this.#request = request
    this.#surroundings = surroundings
    this.#events = events
    this.#log = log
    this.#lines = lines
    this.#config = request.config
    const { options } = request.config
    const { resolve } = surroundings
    this.#identity = identityOf(options)
    const files = new Opener(this.#identity)
    this.#schedules = new Schedules(events, () => log.fd)
    const master = new Master(events, this.#schedules.router)
    this.#master = master
    this.#questions = new QuestionHandler(master, message => events.emit('config-warning', { message }))
    subscribeLog(events, lines, path => this.#leavesNoLine(path))
    events.on('request-stored', ({ path }) => master.lookNow(path))
    // a daemon is made quiet to prepare a reload, so the reload ends that
    events.on('reload-done', () => this.#setQuiet(false, 'reload'))
    this.#pidfiles = request.isUnderRoot ? new ParentsPidfiles(events) : new Pidfiles(events, files)
    this.#sweeper = new Maintenance(events, new AsideProcess(() => openAside(log.fd)))
    this.#drain = new Drain(events, options.drain, request.progress)
    this.#notices = new ServiceNotices(request, events, master, this.#life)
    this.#network = new DaemonSockets(options, {
      events,
      files,
      inherited: request.inherited,
      resolve,
      raise: signal => this.#schedules.router.raise(signal),
    })
    this.#orders = {
      stop: because => {
        events.emit('stop-asked', { signal: because })
        void this.#stop()
      },
      kill: signal => this.#kill(signal),
      reload: because => this.#askReload(because),
      setQuiet: (isQuiet, because) => this.#setQuiet(isQuiet, because),
      toggleQuiet: because => this.#setQuiet(!master.isQuiet, because),
      scanNow: () => master.lookNow(),
      dump: () => dumpProcesses(master, events),
      reopenLog: () => log.reopen(),
    }
    const stats = this.#observe()
    this.#stats = stats
    this.#watch = new TaskWatch(events, spool => master.feedOf(spool) !== undefined)
    this.#control = new DaemonControl({
      ...{ events, identity: this.#identity, files, resolve },
      actions: actionsOf({
        ...{ events, master, stats, lines, schedules: this.#schedules, watch: this.#watch },
        orders: this.#orders,
        config: configAction(() => this.#config),
      }),
      looked: spool => this.#notes.renew(spool),
    })
    this.#fifos = new MasterFifos(events, this.#orders, master, files)
    this.#exporter = openExporter({ events, log }, () => stats.snapshotFor(NOBODY))
    this.#dashboard = openDashboard({ events, log })
  }

  /** @returns the exit code */
  async run(): Promise<number> {
    listenToSignals(this.#orders)
    try {
      await this.#start()
    } catch (error) {
      this.#life.become('stopping')
      await this.#master.kill()
      await this.#end(true)
      throw error
    }
    await this.#life.whenStopped
    await this.#end(false)
    return this.#drain.exitCode
  }

  /** Resolves when everything runs, or when a stop comes first. */
  async #start(): Promise<void> {
    const { options } = this.#config
    const identity = this.#identity
    this.#tell(this.#config)
    if (identity !== null)
      for (const directory of localDirectories(this.#config, this.#surroundings.resolve))
        makeSpoolFor(directory, identity)
    await this.#network.listen()
    await this.#control.listen(options)
    if (options.pidfile !== null) await this.#pidfiles.acquire('pidfile', options.pidfile)
    endOwners()
    if (identity !== null && become(identity)) {
      this.#events.emit('identity-taken', { ...identity, groups: additionalGroups() })
      for (const message of checkAsUser(this.#config)) this.#events.emit('config-warning', { message })
    }
    const spools = prepareSpools(this.#config, this.#surroundings.resolve)
    if (options.chdir !== null) this.#events.emit('directory-entered', { directory: options.chdir })
    const plans = await this.#plan(spools, this.#config)
    this.#leavesNoLine = quietAmong(spools)
    this.#events.emit('master-spawned', { pid: process.pid })
    await this.#master.start(plans, async () => {
      await this.#serve(this.#config, spools)
      if (options.safePidfile !== null) await this.#pidfiles.acquire('safe pidfile', options.safePidfile)
    })
    if (this.#life.isStopping) return
    this.#events.emit('daemon-started', { pid: process.pid, version: this.#request.version })
    this.#life.become('running')
    this.#notices.started() // before a process that started this one ends
    this.#request.started()
    this.#serveReloads() // those that were asked for during the start
    if (options.drain)
      void this.#drain.run(this.#master, () => this.#schedules.router.isIdle).then(() => this.#stop())
  }

  /** All requests during a reload lead to a single further reload, which reads whatever was edited meanwhile. */
  #askReload(because: string, touched?: TouchAsks): void {
    const isLess = touched === 'new-workers' && this.#asked !== undefined
    if (!isLess) this.#asked = { because, touched }
    this.#serveReloads()
  }

  #serveReloads(): void {
    if (this.#asked !== undefined && this.#life.become('reloading')) void this.#serveAll()
  }

  /** Reloads one at a time. */
  async #serveAll(): Promise<void> {
    for (let reason = this.#takeAsked(); reason !== undefined; reason = this.#takeAsked())
      await this.#reload(reason)
    this.#life.become('running')
  }

  #takeAsked(): ReloadReason | undefined {
    const reason = this.#life.isStopping ? undefined : this.#asked
    this.#asked = undefined
    return reason
  }

  async #reload({ because, touched }: ReloadReason): Promise<void> {
    this.#notices.reloading()
    this.#log.reopen() // first, so that everything about this reload is in the new file
    if (touched !== undefined) this.#events.emit('file-touched', { file: because, asks: touched })
    try {
      await askDisks(localDirectories(this.#config, this.#surroundings.resolve))
      const config = touched === 'new-workers' ? null : this.#readConfig()
      if (config !== null) this.#events.emit('reload-began', { because })
      await this.#apply(config ?? this.#config, config !== null)
      if (this.#life.isStopping) return // the stop cut the reload short
      this.#notices.reloaded(null)
      this.#events.emit('reload-done', {})
    } catch (error) {
      this.#revert()
      if (this.#life.isStopping) return
      this.#notices.reloaded(messageOf(error))
      this.#events.emit('reload-refused', { error: messageOf(error) })
    }
  }

  #readConfig(): CheckedConfig {
    this.#surroundings.leave()
    const config = this.#request.readConfig()
    const { errors } = config.problems
    if (errors.length > 0) throw new SpooldError('CONFIG_INVALID', errors.map(formatProblem).join('\n'))
    return config
  }

  /** @param isNew false: only the workers are replaced @throws SpooldError why the configuration cannot be applied */
  async #apply(config: CheckedConfig, isNew: boolean): Promise<void> {
    this.#surroundings.enter(config)
    const spools = prepareSpools(config, this.#surroundings.resolve)
    if (isNew) this.#questions.forget()
    await this.#master.reload(await this.#plan(spools, config))
    if (this.#life.isStopping) return // schedules, watches and sweeps must not start again
    await this.#serve(config, spools)
    const message = unappliedWarning(this.#config.options, config.options)
    this.#config = config
    if (isNew) this.#tell(config)
    if (message !== undefined) this.#events.emit('config-warning', { message })
  }

  /** Undoes everything that a rejected reload has changed. */
  #revert(): void {
    this.#surroundings.enter(this.#config)
    try {
      this.#surroundings.settle(this.#config.options.chdir)
    } catch {} // the directory was removed, or is no longer accessible
  }

  async #plan(spools: readonly PreparedSpool[], config: CheckedConfig): Promise<SpoolWorkersPlan[]> {
    const { options } = config
    this.#surroundings.settle(options.chdir)
    const own = spools.filter(({ isExternal }) => !isExternal)
    for (const { spool } of own) if (!isRedisAddress(spool)) checkSpool(spool)
    setProcessTitle(options)
    return planSpools(own, config, {
      events: this.#events,
      questions: this.#questions,
      targets: targetsOf(spools),
      known: [...new Set(spools.map(({ spool }) => spool))],
      log: this.#log,
      spare: this.#request.spare,
    })
  }

  /**
   * Puts a configuration into service: where tasks may be stored, which files are watched, what is scheduled and
   * swept.
   */
  async #serve(config: CheckedConfig, spools: readonly PreparedSpool[]): Promise<void> {
    const { options } = config
    const running = spools.filter(({ isExternal }) => !isExternal)
    const own = running.map(({ spool }) => spool).filter(spool => !isRedisAddress(spool))
    const onRedis = running.map(({ spool }) => spool).filter(isRedisAddress)
    this.#leavesNoLine = quietAmong(spools)
    this.#network.serve(options, new SpoolTargets(targetsOf(spools)))
    this.#endTouches()
    this.#endTouches = watchTouchReload(options, this.#events, (file, asks) => this.#askReload(file, asks))
    this.#schedules.serve(
      config,
      running.map(({ spool, options: { spoolerSync } }) => ({ directory: spool, sync: spoolerSync })),
    )
    this.#sweeper.start(spools.map(maintained))
    this.#master.checks.serve(checkOptions(options))
    this.#endIdling()
    const parts = [this.#master, this.#schedules]
    this.#endIdling = stopWhenIdle(idleMsOf(config), parts, this.#events, () => void this.#stop())
    await this.#publish(options, [...own, ...onRedis])
  }

  /** How people and programs see the daemon and act on it. @param spools those that it runs: real paths, and names on Redis */
  async #publish(options: Options, spools: readonly string[]): Promise<void> {
    const hidden = keysOf(options.spoolerHide)
    this.#hide = new Hide(hidden)
    this.#stats.outdate()
    this.#lines.hide(this.#hide)
    this.#notes.serve(spools, hidden)
    await this.#fifos.serve(options.masterFifo)
    void this.#exporter.serve(exporterOptions(options))
    await this.#control.serve(options, spools)
    const shown = dashboardOptions(options, spools, this.#surroundings.resolve)
    const isRefused = shown !== undefined && process.geteuid?.() === 0
    if (isRefused)
      this.#events.emit('dashboard-trouble', {
        message: 'the dashboard stays closed, because it does not run as root: set uid',
      })
    void this.#dashboard.serve(isRefused ? undefined : shown)
  }

  /** Opens the collector of the daemon's snapshots. */
  #observe(): Collector {
    const startedAtMs = Math.round(Date.now() - process.uptime() * 1000)
    return new Collector(this.#events, {
      daemon: () => ({
        pid: process.pid,
        version: this.#request.version,
        state: this.#life.state,
        startedAtMs,
        isQuiet: this.#master.isQuiet,
        host: hostname(),
        uid: process.geteuid?.() ?? 0,
        gid: process.getegid?.() ?? 0,
        directory: process.cwd(),
        files: this.#config.files,
        rssBytes: process.memoryUsage.rss(),
      }),
      spools: () => this.#master.stats,
      leadershipOf: spool => this.#schedules.leadershipOf(spool),
      schedules: () => this.#schedules.plan(),
      sockets: () => this.#network.stats,
      hide: () => this.#hide,
    })
  }

  #tell({ files, problems }: CheckedConfig): void {
    for (const file of files) this.#events.emit('config-read', { file })
    for (const problem of problems.warnings)
      this.#events.emit('config-warning', { message: formatProblem(problem) })
  }

  /** A quiet daemon starts no task and no signal handler; what runs goes on. @param because for people: a signal, or who asked */
  #setQuiet(isQuiet: boolean, because: string): void {
    if (isQuiet === this.#master.isQuiet) return
    this.#master.setQuiet(isQuiet)
    this.#events.emit(isQuiet ? 'quiet-began' : 'quiet-ended', { because })
  }

  /** Network requests and running tasks finish in parallel. The sockets stop listening at once. */
  async #stop(): Promise<void> {
    this.#life.become('stopping')
    const mercyMs = longestMercyMs(this.#config)
    this.#endIdling()
    this.#notices.stopping(mercyMs)
    const notice = setTimeout(() => this.#tellWhoRuns(mercyMs - STOP_NOTICE_MS), STOP_NOTICE_MS)
    await Promise.all([this.#schedules.stop(), this.#network.stop(mercyMs), this.#master.stop()])
    clearTimeout(notice)
    this.#life.become('stopped')
  }

  #tellWhoRuns(mercyMs: number): void {
    const { running } = this.#master
    if (running.length > 0 && mercyMs > 0) this.#events.emit('stop-waits', { running, mercyMs })
  }

  #kill(signal: string): void {
    this.#events.emit('stop-forced', { signal })
    this.#life.become('stopping')
    this.#notices.stopping(0)
    this.#network.kill()
    void this.#master.kill().then(() => this.#life.become('stopped'))
  }

  /** @param hasFailed true: the daemon never ran, and removes its files */
  async #end(hasFailed: boolean): Promise<void> {
    const { vacuum } = this.#config.options
    this.#endTouches()
    this.#sweeper.stop()
    await this.#fifos.close()
    await Promise.all([this.#exporter.serve(undefined), this.#dashboard.serve(undefined)])
    if (!hasFailed) this.#events.emit('daemon-stopped', {}) // after the last words of these processes
    this.#watch.close()
    await this.#lines.close()
    await this.#control.close()
    await this.#schedules.stop()
    await this.#network.close(hasFailed || (vacuum && !this.#request.isUnderRoot)) // under root, the parent removes the files
    this.#pidfiles.release(hasFailed || vacuum)
    this.#notices.end()
  }
}

/** How long a daemon may have nothing to do; 0: for ever. A spool without idle seconds does not count. */
function idleMsOf({ options, spools, anySpool }: ResolvedOptions): number {
  if (!options.spoolerDieOnIdle) return 0
  return Math.max(...[anySpool, ...spools].map(spool => spool.options.spoolerIdleMs))
}

/**
 * SIGTTIN: tells what every worker does, as far as the master and the kernel know. No worker is asked, so one whose
 * handler blocks it cannot hold this up.
 */
function dumpProcesses({ stats }: Master, events: Emitter): void {
  for (const { spool, pool } of stats)
    for (const { pid, state, running, signals, outstanding } of pool.workers)
      events.emit('process-described', {
        spool,
        pid,
        state,
        running: running.map(({ ref, sinceMs }) => ({ ref, forMs: Math.max(0, Date.now() - sinceMs) })),
        signals,
        ahead: Math.max(0, outstanding - running.length - signals.length),
        kernel: kernelStateOf(pid),
      })
}

/** `R (running)`, `S (sleeping) in do_wait`; null where there is no /proc. */
function kernelStateOf(pid: number): string | null {
  const of = (file: string) => quietly(() => readFileSync(`/proc/${pid}/${file}`, 'utf8'), '')
  const [, state] = /^State:\s+(.*)$/m.exec(of('status')) ?? []
  if (state === undefined) return null
  const where = of('wchan')
  return where === '0' || where === '' ? state : `${state} in ${where}`
}

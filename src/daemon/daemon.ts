import type { CheckedConfig } from '../config/check.js'
import type { Options } from '../config/option-table.js'
import { SpoolTargets } from '../engines/directory/targets.js'
import type { Emitter } from '../events/emitter.js'
import { subscribeLog } from '../events/log-subscriber.js'
import { tryHold } from '../files/record-lock.js'
import { formatProblem } from '../ini/setting.js'
import { makeSpoolFor } from '../spool/layout.js'
import { checkSpool } from '../spool/permissions.js'
import { Master } from '../supervisor/master.js'
import { QuestionHandler } from '../supervisor/questions.js'
import type { SpoolWorkersPlan } from '../supervisor/spool-workers.js'
import { additionalGroups, become, type Identity, identityOf } from '../system/privileges.js'
import type { DaemonRequest } from './daemon-request.js'
import { Drain } from './drain.js'
import { dumpProcesses } from './dump.js'
import { IdleStop, idleMsOf } from './idle-stop.js'
import { Lifecycle } from './lifecycle.js'
import { uwsgiNamedIn } from './live-uwsgi.js'
import { Maintenance } from './maintenance.js'
import { Observation } from './observation.js'
import { Pidfiles } from './pidfiles.js'
import { checkOptions } from './pool-plan.js'
import type { ProcessEnvironment } from './process-environment.js'
import { Quiet } from './quiet.js'
import { QuietSpools } from './quiet-spools.js'
import { Reloader, unappliedWarning } from './reload.js'
import type { RememberedLog } from './remembered-log.js'
import { Schedules } from './schedules.js'
import { ServiceNotices } from './service-notices.js'
import { listenToSignals } from './signals.js'
import { DaemonSockets } from './sockets.js'
import {
  longestMercyMs,
  type PreparedSpool,
  planSpools,
  prepareSpools,
  setProcessTitle,
  targetsOf,
} from './spool-plan.js'
import { TouchReload } from './touch-reload.js'
import { ParentsPidfiles } from './under-root.js'

/** A stop that takes longer than this logs what it waits for; most stops are faster. */
const STOP_NOTICE_MS = 300

// Longer than others: all rooms are wired together here.
/** The only place where the rooms are wired together. Signals work in every state (lifecycle.ts). */
export class Daemon {
  readonly #request: DaemonRequest
  readonly #surroundings: ProcessEnvironment
  readonly #events: Emitter
  readonly #log: RememberedLog
  readonly #identity: Identity | null
  readonly #life = new Lifecycle()
  readonly #master: Master
  readonly #questions = new QuestionHandler(
    () => this.#master.controls,
    message => this.#events.emit('config-warning', { message }),
  )
  readonly #pidfiles: Pidfiles | ParentsPidfiles
  readonly #reloader: Reloader
  readonly #sweeper: Maintenance
  readonly #touches: TouchReload
  readonly #network: DaemonSockets
  readonly #schedules: Schedules
  readonly #drain: Drain
  readonly #quietness: Quiet
  readonly #notices: ServiceNotices
  readonly #observation: Observation
  readonly #quiet = new QuietSpools()
  readonly #idleStop: IdleStop
  /** The configuration in effect. A rejected reload does not change it. */
  #config: CheckedConfig

  constructor(request: DaemonRequest, surroundings: ProcessEnvironment, events: Emitter, log: RememberedLog) {
    this.#request = request
    this.#surroundings = surroundings
    this.#events = events
    this.#log = log
    this.#config = request.config
    this.#master = new Master(events)
    subscribeLog(events, log, { isQuiet: path => this.#quiet.has(path) })
    events.on('request-stored', ({ path }) => this.#master.lookNow(path))
    this.#identity = identityOf(this.#options)
    this.#pidfiles = request.isUnderRoot
      ? new ParentsPidfiles(events)
      : new Pidfiles(events, tryHold, uwsgiNamedIn)
    this.#sweeper = new Maintenance(events)
    this.#touches = new TouchReload(events, (file, asks) => this.#reloader.ask({ kind: 'touch', file, asks }))
    this.#quietness = new Quiet(this.#master, events)
    this.#drain = new Drain(events, this.#options.drain, request.progress)
    this.#idleStop = new IdleStop(events, () => void this.#stop())
    this.#schedules = new Schedules({ events, logFd: () => log.fd })
    this.#notices = new ServiceNotices(request, events, this.#master)
    this.#network = new DaemonSockets(this.#options, {
      events,
      inherited: request.inherited,
      resolve: path => surroundings.resolve(path),
      raise: signal => this.#schedules.raise(signal),
    })
    this.#observation = new Observation({
      events,
      log,
      identity: this.#identity,
      resolve: path => surroundings.resolve(path),
      observed: {
        version: request.version,
        life: this.#life,
        master: this.#master,
        schedules: this.#schedules,
        network: this.#network,
        config: () => this.#config,
      },
      acting: {
        quiet: this.#quietness,
        reload: () => this.#reloader.ask({ kind: 'signal', signal: 'a control client' }),
        scanNow: () => this.#master.lookNow(),
        stop: () => this.#askedToStop('a control client'),
        cancel: (spool, task, tell) => this.#master.cancel(spool, task, tell),
      },
    })
    this.#reloader = new Reloader({
      events,
      log,
      life: this.#life,
      notices: this.#notices,
      readConfig: () => {
        surroundings.leave()
        return request.readConfig()
      },
      apply: config => this.#apply(config ?? this.#config, config !== null),
      revert: () => this.#revert(),
    })
  }

  get #options(): Options {
    return this.#config.options
  }

  async run(): Promise<number> {
    this.#listen()
    try {
      await this.#start()
    } catch (error) {
      this.#life.become('stopping')
      await this.#master.kill()
      await this.#end(true)
      throw error
    }
    await this.#life.whenStopped
    this.#events.emit('daemon-stopped', {})
    await this.#end(false)
    return this.#drain.exitCode
  }

  /** @param hasFailed the daemon never ran, and removes its files */
  async #end(hasFailed: boolean): Promise<void> {
    const { vacuum } = this.#options
    this.#touches.stop()
    this.#sweeper.stop()
    await this.#observation.close()
    await this.#schedules.stop()
    await this.#network.close(hasFailed || (vacuum && !this.#request.isUnderRoot)) // else the parent does it
    this.#pidfiles.release(hasFailed || vacuum)
    await this.#notices.end()
  }

  #listen(): void {
    listenToSignals({
      stop: signal => this.#askedToStop(signal),
      kill: signal => {
        this.#events.emit('stop-forced', { signal })
        this.#notices.stopping(0)
        this.#life.become('stopping')
        this.#network.kill()
        void this.#master.kill().then(() => this.#life.become('stopped'))
      },
      reload: () => this.#reloader.ask({ kind: 'signal', signal: 'SIGHUP' }),
      scanNow: () => this.#master.lookNow(),
      quiet: signal => this.#quietness.toggle(signal),
      dump: () => dumpProcesses(this.#master, this.#events),
    })
  }

  #askedToStop(signal: string): void {
    this.#events.emit('stop-asked', { signal })
    void this.#stop()
  }

  /** Network requests and running tasks finish in parallel. The sockets stop listening at once. */
  async #stop(): Promise<void> {
    this.#life.become('stopping')
    const mercyMs = longestMercyMs(this.#config)
    this.#idleStop.end()
    this.#notices.stopping(mercyMs)
    const notice = setTimeout(() => this.#tellWhoRuns(mercyMs - STOP_NOTICE_MS), STOP_NOTICE_MS)
    await Promise.all([this.#schedules.stop(), this.#network.stop(mercyMs), this.#master.stop()])
    clearTimeout(notice)
    this.#life.become('stopped')
  }

  #tellWhoRuns(mercyMs: number): void {
    const running = this.#master.running
    if (running.length > 0 && mercyMs > 0) this.#events.emit('stop-waits', { running, mercyMs })
  }

  /** Resolves when everything runs, or when a stop comes first. */
  async #start(): Promise<void> {
    const options = this.#options
    this.#tell(this.#config)
    for (const { directory } of this.#config.spools)
      if (this.#identity !== null) makeSpoolFor(this.#surroundings.resolve(directory), this.#identity)
    await this.#network.listen()
    await this.#observation.listen(options)
    if (options.pidfile !== null) await this.#pidfiles.acquire('pidfile', options.pidfile)
    if (this.#identity !== null && become(this.#identity))
      this.#events.emit('identity-taken', { ...this.#identity, groups: additionalGroups() })
    const spools = this.#prepareSpools(this.#config)
    if (options.chdir !== null) this.#events.emit('directory-entered', { directory: options.chdir })
    const plans = await this.#plan(spools, this.#config)
    this.#quiet.set(spools)
    this.#events.emit('master-spawned', { pid: process.pid })
    await this.#master.start(plans)
    if (this.#life.isStopping) return
    await this.#serve(this.#config, spools)
    if (options.safePidfile !== null) await this.#pidfiles.acquire('safe pidfile', options.safePidfile)
    this.#events.emit('daemon-started', { pid: process.pid, version: this.#request.version })
    await this.#notices.started() // before the process that started this one ends, if there is one
    this.#request.started()
    this.#life.become('running')
    this.#reloader.serve()
    if (options.drain)
      void this.#drain.run(this.#master, () => this.#schedules.router.isIdle).then(() => this.#stop())
  }

  /** @throws why the configuration cannot be applied */
  async #apply(config: CheckedConfig, isNew: boolean): Promise<void> {
    this.#surroundings.enter(config)
    const spools = this.#prepareSpools(config)
    if (isNew) this.#questions.forget()
    await this.#master.reload(await this.#plan(spools, config))
    if (this.#life.isStopping) return // schedules, watches and sweeps must not start again
    await this.#serve(config, spools)
    const message = unappliedWarning(this.#options, config.options)
    this.#config = config
    if (isNew) this.#tell(config)
    if (message !== undefined) this.#events.emit('config-warning', { message })
  }

  #revert(): void {
    this.#surroundings.enter(this.#config)
    try {
      this.#surroundings.settle(this.#options.chdir)
    } catch {} // the directory was removed or is inaccessible by now
  }

  #prepareSpools(config: CheckedConfig): PreparedSpool[] {
    return prepareSpools(config, path => this.#surroundings.resolve(path))
  }

  async #plan(spools: readonly PreparedSpool[], config: CheckedConfig): Promise<SpoolWorkersPlan[]> {
    const { options } = config
    this.#surroundings.settle(options.chdir)
    const own = spools.filter(({ isExternal }) => !isExternal)
    for (const { spool } of own) checkSpool(spool)
    setProcessTitle(options)
    return planSpools(own, config, {
      events: this.#events,
      signals: this.#schedules.router,
      questions: this.#questions,
      targets: targetsOf(spools),
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
    const own = spools.filter(({ isExternal }) => !isExternal).map(({ spool }) => spool)
    this.#quiet.set(spools)
    this.#network.serve(options, new SpoolTargets(targetsOf(spools)))
    this.#touches.watch(options)
    this.#schedules.serve(options, own)
    this.#sweeper.start(spools)
    this.#master.checks.serve(checkOptions(options))
    this.#idleStop.serve(idleMsOf(config), [this.#master, this.#schedules])
    await this.#observation.serve(options, own)
  }

  #tell({ files, problems }: CheckedConfig): void {
    for (const file of files) this.#events.emit('config-read', { file })
    for (const problem of problems.warnings)
      this.#events.emit('config-warning', { message: formatProblem(problem) })
  }
}

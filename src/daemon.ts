import type { Log } from './base/log.js'
import type { CheckedConfig } from './config/check.js'
import type { Options } from './config/option-table.js'
import { formatProblem } from './config/setting.js'
import { SpoolTargets } from './engines/spool-targets.js'
import type { Emitter } from './events/emitter.js'
import { subscribeLog } from './events/log-subscriber.js'
import { Network } from './network.js'
import { planCrews, processTitle } from './plan.js'
import { additionalGroups, become, findIdentity, type Identity } from './privileges.js'
import { Reloader, unappliedChanges } from './reload.js'
import { Schedules } from './schedules.js'
import { prepareSpool } from './spool/directory.js'
import { tryHold } from './spool/lock.js'
import { checkSpool } from './spool/usable.js'
import { type CrewPlan, Master } from './supervisor/master.js'
import { Pidfiles } from './supervisor/pidfiles.js'
import { listenToSignals } from './supervisor/signals.js'
import type { Surroundings } from './surroundings.js'
import { Sweeper } from './sweeper.js'
import { Touches } from './touches.js'

export interface DaemonRequest {
  readonly config: CheckedConfig
  readonly version: string
  /** Sockets that were handed over, listening: their descriptors. */
  readonly inherited: readonly number[]
  /** Where the log goes when the process was sent to the background. */
  readonly logFile: string | null
  /** Reads the configuration again, for a reload. */
  readConfig(): CheckedConfig
  /** Everything runs. */
  started(): void
}

/**
 * The one place where the rooms are wired together.
 *
 * States: starting → running ↔ reloading → stopping → stopped. Signals are obeyed in each of them.
 */
export class Daemon {
  readonly #request: DaemonRequest
  readonly #surroundings: Surroundings
  readonly #events: Emitter
  readonly #log: Log
  readonly #identity: Identity | null
  readonly #master = new Master()
  readonly #pidfiles: Pidfiles
  readonly #reloader: Reloader
  readonly #sweeper: Sweeper
  readonly #touches: Touches
  readonly #network: Network
  readonly #schedules: Schedules
  /** What is in place. A reload that is refused leaves it. */
  #config: CheckedConfig
  #tellStopped = () => {}

  constructor(request: DaemonRequest, surroundings: Surroundings, events: Emitter, log: Log) {
    this.#request = request
    this.#surroundings = surroundings
    this.#events = events
    this.#log = log
    this.#config = request.config
    subscribeLog(events, log, { isQuiet: () => this.#options.spoolerQuiet })
    events.on('request-stored', ({ path }) => this.#master.stored(path))
    const { uid, gid, addGid } = this.#options
    this.#identity = findIdentity(uid, gid, addGid)
    this.#pidfiles = new Pidfiles(events, tryHold)
    this.#sweeper = new Sweeper(events)
    this.#touches = new Touches(events, (file, asks) => this.#reloader.ask({ kind: 'touch', file, asks }))
    this.#schedules = new Schedules({ events, logFd: () => log.fd })
    this.#network = new Network(this.#options, {
      events,
      inherited: request.inherited,
      resolve: path => surroundings.resolve(path),
      raise: signal => this.#schedules.raise(signal),
    })
    this.#reloader = new Reloader({
      events,
      log,
      isStopping: () => this.#master.isStopping,
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

  /** Whom the workers become, when the master stays who it is. */
  get #workerIdentity(): Identity | null {
    return this.#options.masterAsRoot ? this.#identity : null
  }

  async run(): Promise<void> {
    const stopped = new Promise<void>(resolve => {
      this.#tellStopped = resolve
    })
    let hasStarted = false
    this.#listen()
    try {
      await this.#start()
      hasStarted = true
      await stopped
      this.#events.emit('daemon-stopped', {})
    } finally {
      this.#touches.stop()
      this.#sweeper.stop()
      await this.#schedules.stop()
      await this.#network.close(this.#options.vacuum || !hasStarted)
      this.#pidfiles.release(this.#options.vacuum || !hasStarted)
    }
  }

  #listen(): void {
    listenToSignals({
      stop: signal => {
        this.#events.emit('stop-asked', { signal })
        void this.#stop()
      },
      kill: signal => {
        this.#events.emit('stop-forced', { signal })
        this.#network.kill()
        void this.#master.kill().then(this.#tellStopped)
      },
      reload: () => this.#reloader.ask({ kind: 'signal', signal: 'SIGHUP' }),
      scanNow: () => this.#master.scanNow(),
    })
  }

  /** The network's requests and the running tasks end side by side; the sockets are closed at once. */
  async #stop(): Promise<void> {
    await Promise.all([
      this.#schedules.stop(),
      this.#network.stop(this.#options.workerReloadMercyMs),
      this.#master.stop(),
    ])
    this.#tellStopped()
  }

  /** Resolves when everything runs, or when it was told to stop before. */
  async #start(): Promise<void> {
    const options = this.#options
    this.#tell(this.#config)
    const spools = this.#prepareSpools(options.spooler)
    this.#prepareSpools(options.spoolerExternal)
    await this.#network.listen()
    if (options.pidfile !== null) await this.#pidfiles.acquire('pidfile', options.pidfile)
    if (this.#identity !== null && !options.masterAsRoot && become(this.#identity))
      this.#events.emit('identity-taken', { ...this.#identity, groups: additionalGroups() })
    if (options.chdir !== null) this.#events.emit('directory-entered', { directory: options.chdir })
    const plans = await this.#plan(spools, options)
    this.#events.emit('master-spawned', { pid: process.pid })
    await this.#master.start(plans)
    if (this.#master.isStopping) return
    this.#serve(this.#config, spools)
    if (options.safePidfile !== null) await this.#pidfiles.acquire('safe pidfile', options.safePidfile)
    this.#events.emit('daemon-started', { pid: process.pid, version: this.#request.version })
    this.#request.started()
    this.#reloader.open()
    if (options.drain)
      void this.#master.whenDrained(() => this.#schedules.router.isIdle).then(() => this.#stop())
  }

  /** @throws what keeps it from being put in place */
  async #apply(config: CheckedConfig, isNew: boolean): Promise<void> {
    const { options } = config
    this.#surroundings.enter(config)
    const spools = this.#prepareSpools(options.spooler)
    this.#prepareSpools(options.spoolerExternal)
    await this.#master.reload(await this.#plan(spools, options))
    this.#serve(config, spools)
    const unapplied = unappliedChanges(this.#options, options)
    this.#config = config
    if (isNew) this.#tell(config)
    if (unapplied.length > 0)
      this.#events.emit('config-warning', {
        message: `these options of the new configuration count only after a restart: ${unapplied.join(', ')}`,
      })
  }

  #revert(): void {
    this.#surroundings.enter(this.#config)
    try {
      this.#surroundings.settle(this.#options.chdir)
    } catch {} // it is gone, or closed to us, since the start
  }

  /** With the rights that the process has from its start, as long as it has them. @returns the real paths */
  #prepareSpools(paths: readonly string[]): string[] {
    return paths.map(path => prepareSpool(this.#surroundings.resolve(path), this.#identity))
  }

  /** As the user that will do the work. */
  async #plan(spools: readonly string[], options: Options): Promise<CrewPlan[]> {
    this.#surroundings.settle(options.chdir)
    for (const spool of spools) checkSpool(spool, this.#workerIdentity)
    const title = processTitle(options, 'uWSGI master')
    if (title !== null) process.title = title // to set what it is already would lose the arguments in `ps`
    const log = this.#log
    return planCrews(spools, options, {
      events: this.#events,
      signals: this.#schedules.router,
      get logFd() {
        return log.fd
      },
      workerIdentity: this.#workerIdentity,
    })
  }

  /** Where tasks may be put from now on; and what writers leave there when they die is swept. */
  #serve({ options, spoolTargets }: CheckedConfig, spools: readonly string[]): void {
    const paths = spoolTargets.map(path => this.#surroundings.resolve(path))
    const targets = new SpoolTargets(paths, options.spoolerSync)
    this.#network.serve(options, targets)
    this.#touches.watch(options)
    this.#schedules.serve(options, spools)
    if (!this.#master.isStopping) this.#sweeper.start(targets.directories, spools, options)
  }

  #tell({ files, problems }: CheckedConfig): void {
    for (const file of files) this.#events.emit('config-read', { file })
    for (const problem of problems.warnings)
      this.#events.emit('config-warning', { message: formatProblem(problem) })
  }
}

import type { Emitter } from '../../base/events/emitter.js'
import { makeSpoolFor } from '../../engines/spool/layout.js'
import { checkSpool } from '../../engines/spool/permissions.js'
import { SpoolTargets } from '../../engines/targets.js'
import type { Options } from '../../formats/config/option-table.js'
import { formatProblem } from '../../formats/ini/setting.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import type { SpoolWorkersPlan } from '../../runtime/supervisor/spool-workers.js'
import { endOwners } from '../../system/owner-process.js'
import { additionalGroups, become } from '../../system/privileges.js'
import { type CheckedConfig, checkAsUser } from '../check/check.js'
import type { DaemonRequest } from './daemon-request.js'
import { dumpProcesses } from './dump.js'
import { idleMsOf } from './idle-stop.js'
import { type DaemonInput, Parts } from './parts.js'
import { checkOptions } from './pool-plan.js'
import { localDirectories, type PreparedSpool, prepareSpools } from './prepared-spools.js'
import type { ProcessEnvironment } from './process-environment.js'
import { unappliedWarning } from './reload.js'
import type { RememberedLog } from './remembered-log.js'
import { listenToSignals } from './signals.js'
import { longestMercyMs, maintained, planSpools, setProcessTitle, targetsOf } from './spool-plan.js'

/** A stop that takes longer than this logs what it waits for; most stops are faster. */
const STOP_NOTICE_MS = 300

/** A daemon from its start to its end; parts.ts says what it is made of. Signals work in every state (lifecycle.ts). */
export class Daemon {
  readonly #request: DaemonRequest
  readonly #surroundings: ProcessEnvironment
  readonly #events: Emitter
  readonly #log: RememberedLog
  readonly #parts: Parts
  /** The configuration in effect. A rejected reload does not change it. */
  #config: CheckedConfig

  constructor(input: DaemonInput) {
    this.#request = input.request
    this.#surroundings = input.surroundings
    this.#events = input.events
    this.#log = input.log
    this.#config = input.request.config
    this.#parts = new Parts(input, {
      config: () => this.#config,
      stop: () => void this.#stop(),
      askedToStop: signal => this.#askedToStop(signal),
      apply: (config, isNew) => this.#apply(config, isNew),
      revert: () => this.#revert(),
    })
  }

  get #options(): Options {
    return this.#config.options
  }

  async run(): Promise<number> {
    const { life, master, drain } = this.#parts
    this.#listen()
    try {
      await this.#start()
    } catch (error) {
      life.become('stopping')
      await master.kill()
      await this.#end(true)
      throw error
    }
    await life.whenStopped
    this.#events.emit('daemon-stopped', {})
    await this.#end(false)
    return drain.exitCode
  }

  /** @param hasFailed the daemon never ran, and removes its files */
  async #end(hasFailed: boolean): Promise<void> {
    const { touches, sweeper, observation, schedules, network, pidfiles, notices } = this.#parts
    const { vacuum } = this.#options
    touches.stop()
    sweeper.stop()
    await observation.close()
    await schedules.stop()
    await network.close(hasFailed || (vacuum && !this.#request.isUnderRoot)) // else the parent does it
    pidfiles.release(hasFailed || vacuum)
    notices.end()
  }

  #listen(): void {
    const { life, master, network, notices, quietness, reloader } = this.#parts
    listenToSignals({
      stop: signal => this.#askedToStop(signal),
      kill: signal => {
        this.#events.emit('stop-forced', { signal })
        notices.stopping(0)
        life.become('stopping')
        network.kill()
        void master.kill().then(() => life.become('stopped'))
      },
      reload: () => reloader.ask({ kind: 'signal', signal: 'SIGHUP' }),
      scanNow: () => master.lookNow(),
      quiet: signal => quietness.toggle(signal),
      dump: () => dumpProcesses(master, this.#events),
    })
  }

  #askedToStop(signal: string): void {
    this.#events.emit('stop-asked', { signal })
    void this.#stop()
  }

  /** Network requests and running tasks finish in parallel. The sockets stop listening at once. */
  async #stop(): Promise<void> {
    const { life, master, idleStop, notices, schedules, network } = this.#parts
    life.become('stopping')
    const mercyMs = longestMercyMs(this.#config)
    idleStop.end()
    notices.stopping(mercyMs)
    const notice = setTimeout(() => this.#tellWhoRuns(mercyMs - STOP_NOTICE_MS), STOP_NOTICE_MS)
    await Promise.all([schedules.stop(), network.stop(mercyMs), master.stop()])
    clearTimeout(notice)
    life.become('stopped')
  }

  #tellWhoRuns(mercyMs: number): void {
    const { running } = this.#parts.master
    if (running.length > 0 && mercyMs > 0) this.#events.emit('stop-waits', { running, mercyMs })
  }

  /** Resolves when everything runs, or when a stop comes first. */
  async #start(): Promise<void> {
    const { identity, life, master, network, observation, pidfiles, quiet, notices, reloader } = this.#parts
    const options = this.#options
    this.#tell(this.#config)
    if (identity !== null)
      for (const directory of localDirectories(this.#config, path => this.#surroundings.resolve(path)))
        makeSpoolFor(directory, identity)
    await network.listen()
    await observation.listen(options)
    if (options.pidfile !== null) await pidfiles.acquire('pidfile', options.pidfile)
    endOwners()
    if (identity !== null && become(identity)) {
      this.#events.emit('identity-taken', { ...identity, groups: additionalGroups() })
      for (const message of checkAsUser(this.#config)) this.#events.emit('config-warning', { message })
    }
    const spools = this.#prepareSpools(this.#config)
    if (options.chdir !== null) this.#events.emit('directory-entered', { directory: options.chdir })
    const plans = await this.#plan(spools, this.#config)
    quiet.set(spools)
    this.#events.emit('master-spawned', { pid: process.pid })
    await master.start(plans)
    if (life.isStopping) return
    await this.#serve(this.#config, spools)
    if (options.safePidfile !== null) await pidfiles.acquire('safe pidfile', options.safePidfile)
    this.#events.emit('daemon-started', { pid: process.pid, version: this.#request.version })
    notices.started() // before the process that started this one ends, if there is one
    this.#request.started()
    life.become('running')
    reloader.serve()
    if (options.drain)
      void this.#parts.drain.run(master, () => this.#parts.schedules.router.isIdle).then(() => this.#stop())
  }

  /** @throws why the configuration cannot be applied */
  async #apply(config: CheckedConfig, isNew: boolean): Promise<void> {
    const { life, master, questions } = this.#parts
    this.#surroundings.enter(config)
    const spools = this.#prepareSpools(config)
    if (isNew) questions.forget()
    await master.reload(await this.#plan(spools, config))
    if (life.isStopping) return // schedules, watches and sweeps must not start again
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
    for (const { spool } of own) if (!isRedisAddress(spool)) checkSpool(spool)
    setProcessTitle(options)
    return planSpools(own, config, {
      events: this.#events,
      signals: this.#parts.schedules.router,
      questions: this.#parts.questions,
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
    const { quiet, network, touches, schedules, sweeper, master, idleStop, observation } = this.#parts
    const { options } = config
    const running = spools.filter(({ isExternal }) => !isExternal)
    const own = running.map(({ spool }) => spool).filter(spool => !isRedisAddress(spool))
    const onRedis = running.map(({ spool }) => spool).filter(isRedisAddress)
    quiet.set(spools)
    network.serve(options, new SpoolTargets(targetsOf(spools)))
    touches.watch(options)
    schedules.serve(
      config,
      running.map(({ spool, options: { spoolerSync } }) => ({ directory: spool, sync: spoolerSync })),
    )
    sweeper.start(spools.map(maintained))
    master.checks.serve(checkOptions(options))
    idleStop.serve(idleMsOf(config), [master, schedules])
    await observation.serve(options, own, onRedis)
  }

  #tell({ files, problems }: CheckedConfig): void {
    for (const file of files) this.#events.emit('config-read', { file })
    for (const problem of problems.warnings)
      this.#events.emit('config-warning', { message: formatProblem(problem) })
  }
}

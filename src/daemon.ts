import { messageOf, SpooldError } from './base/errors.js'
import { type Log, openLog } from './base/log.js'
import type { CheckedConfig } from './config/check.js'
import type { Options } from './config/option-table.js'
import { formatProblem } from './config/setting.js'
import { Emitter } from './events/emitter.js'
import { subscribeLog } from './events/log-subscriber.js'
import { type PlanContext, planCrews, processTitle } from './plan.js'
import { become, findIdentity, type Identity } from './privileges.js'
import { checkSpool, prepareSpool, prepareStateDirectory } from './spool/directory.js'
import { tryHold } from './spool/lock.js'
import { watchTouches } from './spool/watch.js'
import { Master } from './supervisor/master.js'
import { acquirePidfile, type Pidfile } from './supervisor/pidfile.js'
import { listenToSignals } from './supervisor/signals.js'

export interface DaemonRequest {
  readonly config: CheckedConfig
  readonly version: string
  /** Where the log goes when the process was sent to the background. */
  readonly logFile: string | null
  /** Reads the configuration again, for a reload. */
  readConfig(): CheckedConfig
  /** Everything runs. */
  started(): void
}

/**
 * Runs a daemon from its configuration to its end: the one place where the rooms are wired together.
 *
 * @returns the exit code
 * @throws SpooldError what kept it from starting; nothing is left behind
 */
export async function runDaemon(request: DaemonRequest): Promise<number> {
  let { options } = request.config
  const startDirectory = process.cwd()
  enterEnvironment(request.config)
  const identity = findIdentity(options.uid, options.gid, options.addGid)
  const openSpools = (all: Options) => all.spooler.map(path => openSpool(path, identity))
  let spools = openSpools(options)
  const log = openLog({
    file: request.logFile ?? options.logto,
    format: options.logFormat,
    date: options.logDate,
  })
  const events = new Emitter()
  subscribeLog(events, log, { isQuiet: () => options.spoolerQuiet })
  tellConfig(request.config, events)
  const pidfiles: Pidfile[] = []
  const master = new Master(events)
  const context: PlanContext = {
    events,
    get logFd() {
      return log.fd
    },
    workerIdentity: identity !== null && options.masterAsRoot ? identity : null,
  }
  try {
    if (options.pidfile !== null) pidfiles.push(await acquirePidfile(options.pidfile, tryHold))
    if (identity !== null && !options.masterAsRoot) drop(identity, log)
    if (options.chdir !== null) process.chdir(options.chdir)
    for (const spool of spools) checkSpool(spool)
    process.title = processTitle(options, 'uWSGI master') ?? process.title
    await master.start(await planCrews(spools, options, context))
    if (options.safePidfile !== null) pidfiles.push(await acquirePidfile(options.safePidfile, tryHold))
    events.emit('daemon-started', { pid: process.pid, version: request.version })
    request.started()
    await untilStopped()
    events.emit('daemon-stopped', {})
    return 0
  } finally {
    for (const pidfile of pidfiles) pidfile.release(options.vacuum)
    await log.end()
  }

  /** Serves signals and touched files until the last worker is gone. */
  async function untilStopped(): Promise<void> {
    const watches = [
      watchTouches(options.touchReload, file => void reload(file)),
      watchTouches(options.touchSpoolersReload, file => void replaceWorkers(file)),
    ]
    await new Promise<void>(stopped => {
      listenToSignals({
        stop(signal) {
          events.emit('stop-asked', { signal })
          void master.stop().then(stopped)
        },
        kill(signal) {
          events.emit('stop-forced', { signal })
          void master.kill().then(stopped)
        },
        reload: () => void reload('SIGHUP'),
        scanNow: () => master.scanNow(),
      })
      if (options.drain) void master.whenDrained().then(() => master.stop().then(stopped))
    })
    for (const watch of watches) watch.close()
  }

  async function replaceWorkers(because: string): Promise<void> {
    events.emit('reload-asked', { because, touched: because !== 'SIGHUP' })
    log.reopen()
    await master.reload(await planCrews(spools, options, context))
  }

  async function reload(because: string): Promise<void> {
    try {
      process.chdir(startDirectory) // relative names mean what they meant at the start
      const config = request.readConfig()
      const { errors } = config.problems
      if (errors.length > 0) throw new SpooldError('CONFIG_INVALID', errors.map(formatProblem).join('\n'))
      spools = openSpools(config.options)
      for (const spool of spools) checkSpool(spool)
      options = config.options
      if (options.chdir !== null) process.chdir(options.chdir)
    } catch (error) {
      return events.emit('reload-refused', { error: messageOf(error) })
    }
    await replaceWorkers(because)
  }
}

function enterEnvironment({ options, environment }: CheckedConfig): void {
  for (const [name, value] of environment)
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  if (options.umask !== null) process.umask(options.umask)
}

function tellConfig({ files, problems }: CheckedConfig, events: Emitter): void {
  for (const file of files) events.emit('config-read', { file })
  for (const warning of problems.warnings) events.emit('config-warning', { message: formatProblem(warning) })
}

function openSpool(path: string, owner: Identity | null): string {
  const spool = prepareSpool(path, owner)
  prepareStateDirectory(spool, owner)
  return spool
}

function drop(identity: Identity, log: Log): void {
  become(identity)
  log.line('info', `setgid() to ${identity.gid}`)
  log.line('info', `setuid() to ${identity.uid}`)
}

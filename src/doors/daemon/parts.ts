import type { Emitter } from '../../base/events/emitter.js'
import { subscribeLog } from '../../base/events/log-subscriber.js'
import { Maintenance } from '../../runtime/supervisor/maintenance.js'
import { Master } from '../../runtime/supervisor/master.js'
import { QuestionHandler } from '../../runtime/supervisor/questions.js'
import { Opener } from '../../system/opener.js'
import { type Identity, identityOf } from '../../system/privileges.js'
import type { CheckedConfig } from '../check/check.js'
import { configAction } from './configuration.js'
import type { DaemonRequest } from './daemon-request.js'
import { Drain } from './drain.js'
import { IdleStop } from './idle-stop.js'
import { Lifecycle } from './lifecycle.js'
import { uwsgiNamedIn } from './live-uwsgi.js'
import { Observation } from './observation.js'
import { Pidfiles } from './pidfiles.js'
import type { ProcessEnvironment } from './process-environment.js'
import { Quiet } from './quiet.js'
import { QuietSpools } from './quiet-spools.js'
import { Reloader } from './reload.js'
import type { RememberedLog } from './remembered-log.js'
import { Schedules } from './schedules.js'
import { ServiceNotices } from './service-notices.js'
import { DaemonSockets } from './sockets.js'
import { TouchReload } from './touch-reload.js'
import { ParentsPidfiles } from './under-root.js'

/** What a daemon is given: it makes none of it. */
export interface DaemonInput {
  readonly request: DaemonRequest
  readonly surroundings: ProcessEnvironment
  readonly events: Emitter
  readonly log: RememberedLog
}

/** What its parts ask of a daemon. */
interface DaemonControls {
  /** The configuration in effect. */
  config(): CheckedConfig
  stop(): void
  /** @param signal who asks, for the log */
  askedToStop(signal: string): void
  /** @throws why the configuration cannot be applied */
  apply(config: CheckedConfig, isNew: boolean): Promise<void>
  revert(): void
}

/** The parts of a daemon, none of which has begun. The only place where the rooms are wired together. */
export class Parts {
  readonly identity: Identity | null
  readonly life = new Lifecycle()
  readonly master: Master
  readonly questions: QuestionHandler
  readonly pidfiles: Pidfiles | ParentsPidfiles
  readonly sweeper: Maintenance
  readonly touches: TouchReload
  readonly quietness: Quiet
  readonly drain: Drain
  readonly idleStop: IdleStop
  readonly schedules: Schedules
  readonly notices: ServiceNotices
  readonly network: DaemonSockets
  readonly observation: Observation
  readonly reloader: Reloader
  /** The spools whose tasks leave no line in the log. */
  readonly quiet = new QuietSpools()

  constructor({ request, surroundings, events, log }: DaemonInput, daemon: DaemonControls) {
    const { options } = daemon.config()
    this.master = new Master(events)
    this.questions = new QuestionHandler(
      () => this.master.controls,
      message => events.emit('config-warning', { message }),
    )
    subscribeLog(events, log, { isQuiet: path => this.quiet.has(path) })
    events.on('request-stored', ({ path }) => this.master.lookNow(path))
    this.identity = identityOf(options)
    const files = new Opener(this.identity)
    this.pidfiles = request.isUnderRoot
      ? new ParentsPidfiles(events)
      : new Pidfiles(events, files, uwsgiNamedIn)
    this.sweeper = new Maintenance(events)
    this.touches = new TouchReload(events, (file, asks) => this.reloader.ask({ kind: 'touch', file, asks }))
    this.quietness = new Quiet(this.master, events)
    this.drain = new Drain(events, options.drain, request.progress)
    this.idleStop = new IdleStop(events, () => daemon.stop())
    this.schedules = new Schedules({ events, logFd: () => log.fd })
    this.notices = new ServiceNotices(request, events, this.master)
    this.network = new DaemonSockets(options, {
      events,
      files,
      inherited: request.inherited,
      resolve: path => surroundings.resolve(path),
      raise: signal => this.schedules.raise(signal),
    })
    this.observation = new Observation({
      events,
      log,
      identity: this.identity,
      files,
      resolve: path => surroundings.resolve(path),
      observed: {
        version: request.version,
        life: this.life,
        master: this.master,
        schedules: this.schedules,
        network: this.network,
        config: () => daemon.config(),
      },
      acting: {
        config: configAction({ started: daemon.config(), current: () => daemon.config() }),
        quiet: this.quietness,
        reload: () => this.reloader.ask({ kind: 'signal', signal: 'a control client' }),
        scanNow: () => this.master.lookNow(),
        stop: () => daemon.askedToStop('a control client'),
        cancel: (spool, task, tell) => this.master.cancel(spool, task, tell),
      },
    })
    this.reloader = new Reloader({
      events,
      log,
      life: this.life,
      notices: this.notices,
      readConfig: () => {
        surroundings.leave()
        return request.readConfig()
      },
      apply: config => daemon.apply(config ?? daemon.config(), config !== null),
      revert: () => daemon.revert(),
    })
  }
}

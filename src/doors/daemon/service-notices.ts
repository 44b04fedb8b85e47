import { counted } from '../../base/counted.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { Options } from '../../formats/config/option-table.js'
import type { Master, Stall } from '../../runtime/supervisor/master.js'
import { type Notification, notify, type ServiceManager } from '../../system/systemd/service-manager.js'
import type { Lifecycle } from './lifecycle.js'

/** A status line is sent at most this often. */
const STATUS_MS = 5000
/** How long a stopping daemon asks systemd to wait for its next message. */
const EXTENSION_MS = 3 * STATUS_MS
/** After this time, a message that could not be sent is followed by another. */
const RETRY_MS = 1000
/** How long the daemon itself needs after the mercy of its workers is over. */
const AFTER_MERCY_MS = 5000

/** The part of the daemon's request (daemon.ts) that the notices need. */
interface Served {
  readonly manager: ServiceManager | undefined
  readonly config: { readonly options: Options }
  readonly isUnderRoot: boolean
}

type Watched = Pick<Master, 'counts' | 'running' | 'stalls'>

/**
 * Tells the service manager the state of the daemon: READY, STATUS, RELOADING, STOPPING and WATCHDOG of sd_notify(3). Without
 * a service manager it does nothing.
 *
 * The watchdog is fed only while there is progress: this timer fires; the search for tasks in each spool meets something,
 * or waits for its time; and no worker is idle while tasks are due. What a worker does with its task is harakiri's
 * business. So an idle daemon is fed, and one whose file system hangs is not.
 */
export class ServiceNotices {
  readonly #events: Emitter
  readonly #master: Watched
  readonly #life: Lifecycle
  readonly #mainPid: number | null
  readonly #manager: ServiceManager | undefined
  /** Half of the watchdog's time, in milliseconds; infinite: there is no watchdog. */
  readonly #watchdogHalfMs: number
  /** The interval between messages: half of the watchdog's time, or less for the status. */
  readonly #beatMs: number
  #done = 0
  #timer: NodeJS.Timeout | undefined
  #status = ''
  #statusAt = Number.NEGATIVE_INFINITY
  #fedAt = Number.NEGATIVE_INFINITY
  /** The end of the mercy of a stop; 0: the daemon does not stop. */
  #mercyEndsAt = 0
  /** The part that makes no progress, if that is reason not to feed the watchdog. */
  #stall: Stall | undefined
  #hasFailed = false

  constructor(request: Served, events: Emitter, master: Watched, life: Lifecycle) {
    const { manager } = request
    this.#events = events
    this.#master = master
    this.#life = life
    this.#mainPid = mainPidOf(request)
    this.#manager = manager
    this.#watchdogHalfMs = (manager?.watchdogMs ?? Number.POSITIVE_INFINITY) / 2
    this.#beatMs = Math.min(STATUS_MS, this.#watchdogHalfMs)
    if (manager === undefined) return
    events.on('tasks-reported', ({ done, reports }) => {
      this.#done += done.length
      for (const { kind } of reports) if (kind === 'ok') this.#done++
    })
  }

  /** Call it when tasks begin to run. */
  started(): void {
    if (this.#manager === undefined) return
    const mainPid = this.#mainPid
    this.#send({ READY: '1', ...(mainPid === null ? {} : { MAINPID: String(mainPid) }) })
    this.#beatIn(this.#beatMs)
  }

  reloading(): void {
    const now = process.hrtime.bigint() / 1000n // CLOCK_MONOTONIC
    this.#send({ RELOADING: '1', MONOTONIC_USEC: String(now) })
  }

  /** @param error why the configuration was refused; null: the configuration is in effect */
  reloaded(error: string | null): void {
    if (error === null) {
      this.#forgetStatus() // the last status may say that another reload was refused
      this.#send({ READY: '1' })
    } else {
      this.#send({ READY: '1', STATUS: `reload refused: ${firstLine(error)}` })
      this.#statusAt = performance.now() // whoever asked for the reload looks now
    }
  }

  /** @param mercyMs the longest time that running tasks have */
  stopping(mercyMs: number): void {
    if (this.#manager === undefined || this.#mercyEndsAt > 0) return
    this.#mercyEndsAt = performance.now() + mercyMs
    this.#send({ STOPPING: '1' })
    this.#beatIn(this.#beatMs)
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  #beatIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#beat(), ms)
  }

  #beat(): void {
    this.#look()
    const isSent = this.#send({})
    this.#beatIn(isSent ? this.#beatMs : Math.min(RETRY_MS, this.#beatMs))
  }

  /** Sends `first`, together with everything else that is due. */
  #send(first: Notification): boolean {
    if (this.#manager === undefined) return true
    const now = performance.now()
    const notification = { ...this.#feed(now), ...this.#statusDue(now), ...this.#extension(now), ...first }
    if (Object.keys(notification).length === 0) return true
    const error = notify(this.#manager.socket, notification)
    if (error !== undefined) return this.#failed(error)
    this.#hasFailed = false
    if ('WATCHDOG' in notification) this.#fedAt = now
    return true
  }

  /** The status gets a message of its own only when it is due; as part of another message it costs nothing. */
  #feed(now: number): Notification {
    if (this.#life.state === 'starting' || this.#stall !== undefined) return {}
    const isDue = now - this.#fedAt >= 0.9 * this.#watchdogHalfMs
    return isDue && Number.isFinite(this.#watchdogHalfMs) ? { WATCHDOG: '1' } : {}
  }

  /** Has the next message include a status. */
  #forgetStatus(): void {
    this.#status = ''
    this.#statusAt = Number.NEGATIVE_INFINITY
  }

  #statusDue(now: number): Notification {
    const status = this.#describe(now)
    if (status === this.#status || now - this.#statusAt < 0.9 * STATUS_MS) return {}
    this.#status = status
    this.#statusAt = now
    return { STATUS: status }
  }

  /** Asks for more time as long as tasks may run, and no longer: TimeoutStopSec may be shorter than their mercy. */
  #extension(now: number): Notification {
    const leftMs = this.#mercyEndsAt - now
    if (leftMs <= 0) return {}
    const ms = Math.min(EXTENSION_MS, leftMs + AFTER_MERCY_MS)
    return { EXTEND_TIMEOUT_USEC: String(Math.ceil(ms * 1000)) }
  }

  #describe(now: number): string {
    const { counts, running } = this.#master
    if (this.#life.isStopping) {
      const left = Math.ceil(Math.max(0, this.#mercyEndsAt - now) / 1000)
      return running.length === 0
        ? 'stopping'
        : `stopping: ${counted(running.length, 'task')} running, ${left} s left`
    }
    const text = `${counted(this.#done, 'task')} done, ${counts.busy} running, ${counts.ready} queued, ${counts.waiting} waiting`
    return this.#stall === undefined
      ? text
      : `the ${this.#stall.what} of ${this.#stall.spool} is stalled; ${text}`
  }

  #look(): void {
    const [worst] = this.#master.stalls
    const stall = worst !== undefined && worst.ms >= this.#watchdogHalfMs ? worst : undefined
    if (stall !== undefined && this.#stall === undefined) this.#events.emit('spool-stalled', stall)
    if (stall === undefined && this.#stall !== undefined) this.#events.emit('spool-resumed', this.#stall)
    this.#stall = stall
  }

  /** Reports a failure once, until a message gets through. */
  #failed(error: string): false {
    this.#status = ''
    if (!this.#hasFailed) this.#events.emit('notification-failed', { error })
    this.#hasFailed = true
    return false
  }
}

/** After `daemonize`, the service manager has to be told which process stays: the root parent, if there is one. */
function mainPidOf({ config, isUnderRoot }: Served): number | null {
  if (config.options.daemonize === null) return null
  return isUnderRoot ? process.ppid : process.pid
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? ''
}

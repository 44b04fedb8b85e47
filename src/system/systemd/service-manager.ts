import { messageOf } from '../../base/errors.js'
import { toByteString } from '../../base/task/ref.js'
import { libc } from '../libc.js'

/** The service manager that wants to hear from this daemon: sd_notify(3), sd_watchdog_enabled(3). */
export interface ServiceManager {
  /** NOTIFY_SOCKET: an absolute path, or `@` and the name of an abstract socket. */
  readonly socket: string
  /** The service is restarted when this much time passes without a sign of life; null if it never is. */
  readonly watchdogMs: number | null
}

/**
 * Lets a child of this process, which systemd started, feed the watchdog: the daemon may be such a child (`daemonize`,
 * `master-as-root`), but WATCHDOG_PID names this process. Without that variable, WATCHDOG_USEC holds for whoever inherits it.
 */
export function passWatchdogOn(): void {
  const { WATCHDOG_PID } = process.env
  if (WATCHDOG_PID !== undefined && Number(WATCHDOG_PID) !== process.pid) delete process.env.WATCHDOG_USEC
  delete process.env.WATCHDOG_PID
}

/**
 * Returns the daemon's service manager, if it has one. Removes the variables, so that no worker, and no program of a handler,
 * speaks for the service.
 */
export function takeServiceManager(): ServiceManager | undefined {
  const { NOTIFY_SOCKET: socket = '', WATCHDOG_USEC } = process.env
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete process.env[name]
  if (!/^[/@]./.test(socket)) return undefined
  const watchdogMs = Number(WATCHDOG_USEC) / 1000
  return { socket, watchdogMs: watchdogMs > 0 ? watchdogMs : null }
}

/** Variables of sd_notify(3), such as `READY` and `STATUS`. */
export type Notification = Readonly<Record<string, string>>

/**
 * Tells the service manager, without waiting for it.
 *
 * @returns why the service manager did not get the message; undefined if it did
 */
export function notify(socket: string, notification: Notification): string | undefined {
  const lines = Object.entries(notification).map(([name, value]) => `${name}=${value}`)
  try {
    const isSent = libc().sendDatagram(toByteString(socket), Buffer.from(lines.join('\n')))
    return isSent ? undefined : 'its queue is full'
  } catch (error) {
    return messageOf(error)
  }
}

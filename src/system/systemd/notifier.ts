import { execFile } from 'node:child_process'
import { messageOf } from '../../base/errors.js'

/** Variables of sd_notify(3), such as `READY` and `STATUS`. */
export type Notification = Readonly<Record<string, string>>

/** systemd-notify itself waits at most 5 s until systemd has read the message. */
const TIMEOUT_MS = 10_000

/**
 * Sends notifications, one after the other. Node has no datagram sockets of the unix kind, so systemd-notify(1) sends them:
 * it is wherever systemd is. It is not the main process, so the unit needs `NotifyAccess=all`.
 */
export class Notifier {
  readonly #environment: NodeJS.ProcessEnv
  readonly #failed: (error: string) => void
  #last: Promise<boolean> = Promise.resolve(true)
  #unsent = 0

  /** @param failed called with each error */
  constructor(socket: string, failed: (error: string) => void) {
    this.#environment = { PATH: process.env.PATH, NOTIFY_SOCKET: socket, LC_ALL: 'C' }
    this.#failed = failed
  }

  /** Something is on its way. */
  get isBusy(): boolean {
    return this.#unsent > 0
  }

  /** Resolves once systemd has it, with false if it could not be sent. */
  send(notification: Notification): Promise<boolean> {
    this.#unsent++
    this.#last = this.#last.then(async () => {
      const isSent = await this.#run(notification)
      this.#unsent--
      return isSent
    })
    return this.#last
  }

  /** Resolves when nothing is on its way. */
  async end(): Promise<void> {
    await this.#last
  }

  #run(notification: Notification): Promise<boolean> {
    const args = Object.entries(notification).map(([name, value]) => `${name}=${value}`)
    const options = { env: this.#environment, cwd: '/', timeout: TIMEOUT_MS }
    return new Promise(resolve => {
      execFile('systemd-notify', args, options, (error, _, stderr) => {
        if (error !== null) this.#failed(stderr.trim() || messageOf(error))
        resolve(error === null)
      })
    })
  }
}

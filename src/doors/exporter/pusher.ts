import { messageOf } from '../../base/errors.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { type UwsgiStats, uwsgiStats } from './uwsgi-stats.js'

export interface Destination {
  /** @param seconds the time, since the epoch */
  push(stats: UwsgiStats, seconds: number): Promise<void>
}

interface PusherContext {
  snapshot(): Promise<DaemonSnapshot>
  /** Called once, until a push succeeds again. */
  trouble(message: string): void
}

/** uWSGI's pushers look once per second, too. */
const SHORTEST_MS = 1000

/** Pushes the daemon's statistics regularly. What fails waits for the next time: statistics are worth nothing late. */
export class Pusher {
  readonly #destination: Destination
  readonly #withCores: boolean
  readonly #context: PusherContext
  readonly #timer: NodeJS.Timeout
  #isPushing = false
  #isTroubled = false

  constructor(destination: Destination, everyMs: number, withCores: boolean, context: PusherContext) {
    this.#destination = destination
    this.#withCores = withCores
    this.#context = context
    this.#timer = setInterval(() => void this.#push(), Math.max(SHORTEST_MS, everyMs))
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #push(): Promise<void> {
    if (this.#isPushing) return // the destination is slower than the pushes
    this.#isPushing = true
    try {
      const stats = uwsgiStats(await this.#context.snapshot(), this.#withCores)
      await this.#destination.push(stats, Math.floor(Date.now() / 1000))
      this.#isTroubled = false
    } catch (error) {
      if (!this.#isTroubled) this.#context.trouble(messageOf(error))
      this.#isTroubled = true
    } finally {
      this.#isPushing = false
    }
  }
}

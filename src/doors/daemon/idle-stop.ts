import type { Emitter } from '../../base/events/emitter.js'
import type { ResolvedOptions } from '../../formats/config/options.js'

const LOOK_MS = 1000

/** How long a daemon may have nothing to do; 0: for ever. A spool without idle seconds does not keep it. */
export function idleMsOf({ options, spools, anySpool }: ResolvedOptions): number {
  if (!options.spoolerDieOnIdle) return 0
  return Math.max(...[anySpool, ...spools].map(spool => spool.options.spoolerIdleMs))
}

/**
 * `die-on-idle`: ends a daemon that has had nothing to do for a while, and which something else starts again, such as
 * systemd. Whatever lies in a spool counts, due or not: nothing would run it meanwhile.
 */
export class IdleStop {
  readonly #events: Emitter
  readonly #stop: () => void
  #since: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(events: Emitter, stop: () => void) {
    this.#events = events
    this.#stop = stop
    events.on('tasks-reported', () => {
      this.#since = undefined // it came and went between two looks
    })
  }

  /** Call it again after a reload. @param idleMs 0: never */
  serve(idleMs: number, parts: ReadonlyArray<{ readonly isIdle: boolean }>): void {
    this.end()
    if (idleMs > 0)
      this.#timer = setInterval(
        () =>
          this.#look(
            idleMs,
            parts.every(({ isIdle }) => isIdle),
          ),
        Math.min(LOOK_MS, idleMs),
      )
  }

  end(): void {
    clearInterval(this.#timer)
    this.#since = undefined
  }

  #look(idleMs: number, isIdle: boolean): void {
    const now = performance.now()
    this.#since = isIdle ? (this.#since ?? now) : undefined
    if (this.#since === undefined || now - this.#since < idleMs) return
    this.end()
    this.#events.emit('daemon-idle', { idleMs })
    this.#stop()
  }
}

import { existsSync } from 'node:fs'
import { messageOf, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { Log } from '../../base/log/log.js'
import type { Options } from '../../formats/config/option-table.js'
import { formatProblem } from '../../formats/ini/setting.js'
import { watchTouches } from '../../system/files/directory-watch.js'
import type { CheckedConfig } from '../check/check.js'

type DaemonState = 'starting' | 'running' | 'reloading' | 'stopping' | 'stopped'

const NEXT: Readonly<Record<DaemonState, readonly DaemonState[]>> = {
  starting: ['running', 'stopping'],
  running: ['reloading', 'stopping'],
  reloading: ['running', 'stopping'],
  stopping: ['stopped'],
  stopped: [],
}

/** The state of a daemon. A transition that comes too late is ignored. A stop is possible in every state. */
export class Lifecycle {
  #state: DaemonState = 'starting'
  #tellStopped = () => {}
  readonly whenStopped = new Promise<void>(resolve => {
    this.#tellStopped = resolve
  })

  get state(): DaemonState {
    return this.#state
  }

  /** True once nothing new may be started. */
  get isStopping(): boolean {
    return this.#state === 'stopping' || this.#state === 'stopped'
  }

  /** @returns false if the transition is not allowed from the current state */
  become(state: DaemonState): boolean {
    if (!NEXT[this.#state].includes(state)) return false
    this.#state = state
    if (state === 'stopped') this.#tellStopped()
    return true
  }
}

/** What touching a file requests. */
type TouchAsks = 'reload' | 'new-workers'

interface ReloadReason {
  /** For people: a signal's name, who asked, or the file that was touched. */
  readonly because: string
  /** Absent: no file was. */
  readonly touched?: TouchAsks | undefined
}

interface ReloaderOptions {
  readonly events: Emitter
  readonly log: Pick<Log, 'reopen'>
  readonly life: Lifecycle
  readonly notices: { reloading(): void; reloaded(error: string | null): void }
  /** @throws why it cannot be read */
  readConfig(): CheckedConfig
  /** Applies a configuration; without one, replaces the workers. @throws why it cannot */
  apply(config: CheckedConfig | null): Promise<void>
  /** Undoes everything that a rejected reload has changed. */
  revert(): void
}

/**
 * Serves reloads one at a time. All requests that arrive during a reload lead to a single further one, which reads
 * whatever was edited meanwhile.
 */
export class Reloader {
  readonly #options: ReloaderOptions
  #waiting: ReloadReason | undefined

  constructor(options: ReloaderOptions) {
    this.#options = options
  }

  ask(because: string, touched?: TouchAsks): void {
    const isLess = touched === 'new-workers' && this.#waiting !== undefined
    if (!isLess) this.#waiting = { because, touched }
    this.serve()
  }

  /** Call it also once the daemon runs, for requests that came before. */
  serve(): void {
    if (this.#waiting !== undefined && this.#options.life.become('reloading')) void this.#serveAll()
  }

  async #serveAll(): Promise<void> {
    for (let reason = this.#take(); reason !== undefined; reason = this.#take()) await this.#reload(reason)
    this.#options.life.become('running')
  }

  #take(): ReloadReason | undefined {
    const reason = this.#options.life.isStopping ? undefined : this.#waiting
    this.#waiting = undefined
    return reason
  }

  async #reload({ because, touched }: ReloadReason): Promise<void> {
    const { events, log, apply, revert, life, notices } = this.#options
    notices.reloading()
    log.reopen() // first, so that everything about this reload is in the new file
    if (touched !== undefined) events.emit('file-touched', { file: because, asks: touched })
    try {
      const config = touched === 'new-workers' ? null : this.#readConfig()
      if (config !== null) events.emit('reload-began', { because })
      await apply(config)
      if (life.isStopping) return // it was cut short
      notices.reloaded(null)
      events.emit('reload-done', {})
    } catch (error) {
      revert()
      if (life.isStopping) return
      notices.reloaded(messageOf(error))
      events.emit('reload-refused', { error: messageOf(error) })
    }
  }

  #readConfig(): CheckedConfig {
    const config = this.#options.readConfig()
    const { errors } = config.problems
    if (errors.length > 0) throw new SpooldError('CONFIG_INVALID', errors.map(formatProblem).join('\n'))
    return config
  }
}

/**
 * Watches the files of `touch-reload` and `touch-spoolers-reload`.
 *
 * @returns what ends it
 */
export function watchTouchReload(
  { touchReload, touchSpoolersReload }: Options,
  events: Emitter,
  ask: (file: string, asks: TouchAsks) => void,
): () => void {
  const watches = [
    watchTouches(touchReload, file => ask(file, 'reload')),
    watchTouches(touchSpoolersReload, file => ask(file, 'new-workers')),
  ]
  for (const file of [...touchReload, ...touchSpoolersReload])
    if (!existsSync(file)) events.emit('file-awaited', { file })
  return () => {
    for (const watch of watches) watch.close()
  }
}

const LOOK_MS = 1000

/**
 * `die-on-idle`: ends a daemon that has had nothing to do for a while, and which something else starts again, such as
 * systemd. Whatever lies in a spool counts, due or not: nothing would run it meanwhile.
 *
 * @param idleMs 0: never @returns what ends it
 */
export function stopWhenIdle(
  idleMs: number,
  parts: ReadonlyArray<{ readonly isIdle: boolean }>,
  events: Emitter,
  stop: () => void,
): () => void {
  if (idleMs === 0) return () => {}
  let since: number | undefined
  const deafen = events.on('tasks-reported', () => {
    since = undefined // it came and went between two looks
  })
  const timer = setInterval(look, Math.min(LOOK_MS, idleMs))
  function look() {
    const now = performance.now()
    since = parts.every(({ isIdle }) => isIdle) ? (since ?? now) : undefined
    if (since === undefined || now - since < idleMs) return
    end()
    events.emit('daemon-idle', { idleMs })
    stop()
  }
  function end() {
    clearInterval(timer)
    deafen()
  }
  return end
}

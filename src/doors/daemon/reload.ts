import { messageOf, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { Log } from '../../base/log/log.js'
import type { Options } from '../../formats/config/option-table.js'
import { formatProblem } from '../../formats/ini/setting.js'
import type { CheckedConfig } from '../check/check.js'
import type { Lifecycle } from './lifecycle.js'
import type { ServiceNotices } from './service-notices.js'

/** A reload is requested by a signal or by touching a file. */
type ReloadReason =
  | { readonly kind: 'signal'; readonly signal: string }
  | { readonly kind: 'touch'; readonly file: string; readonly asks: 'reload' | 'new-workers' }

interface ReloaderOptions {
  readonly events: Emitter
  readonly log: Log
  readonly life: Lifecycle
  readonly notices: Pick<ServiceNotices, 'reloading' | 'reloaded'>
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

  ask(reason: ReloadReason): void {
    const isLess = reason.kind === 'touch' && reason.asks === 'new-workers' && this.#waiting !== undefined
    if (!isLess) this.#waiting = reason
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

  async #reload(reason: ReloadReason): Promise<void> {
    const { events, log, apply, revert, life, notices } = this.#options
    notices.reloading()
    log.reopen() // first, so that everything about this reload is in the new file
    if (reason.kind === 'touch') events.emit('file-touched', { file: reason.file, asks: reason.asks })
    try {
      const isWhole = reason.kind === 'signal' || reason.asks === 'reload'
      const config = isWhole ? this.#readConfig() : null
      if (isWhole)
        events.emit('reload-began', { because: reason.kind === 'signal' ? reason.signal : reason.file })
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

/** Options that a running process cannot change. */
const FIXED = [
  'uid',
  'gid',
  'addGid',
  'masterAsRoot',
  'daemonize',
  'pidfile',
  'safePidfile',
  'logto',
  'logFormat',
  'logDate',
  'socket',
  'chmodSocket',
  'chownSocket',
  'listen',
  'spoolerControl',
  'masterFifo',
] as const satisfies ReadonlyArray<keyof Options>

/** The same, by their names in an ini. */
export const FIXED_OPTIONS: readonly string[] = FIXED.map(nameOf)

/** A warning about changed options that a reload cannot apply. */
export function unappliedWarning(before: Options, after: Options): string | undefined {
  const changed = FIXED.filter(name => String(before[name]) !== String(after[name])).map(nameOf)
  if (changed.length === 0) return undefined
  return `these options of the new configuration count only after a restart: ${changed.join(', ')}`
}

function nameOf(property: string): string {
  return property.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)
}

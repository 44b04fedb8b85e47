import type { Emitter } from '../../base/events/emitter.js'
import type { PidfileKind } from '../../base/events/event-map.js'
import { acquirePidfile, type Pidfile, type PidfileFiles } from './pidfile.js'

/** The pidfiles of this process: at most one of each kind. */
export class Pidfiles {
  readonly #events: Emitter
  readonly #files: PidfileFiles
  readonly #otherIn: (file: string) => number | undefined
  readonly #held = new Map<PidfileKind, Pidfile>()

  /** @param otherIn returns the pid of a running uWSGI that a file names: one ini may serve both programs */
  constructor(
    events: Emitter,
    files: PidfileFiles,
    otherIn: (file: string) => number | undefined = () => undefined,
  ) {
    this.#events = events
    this.#files = files
    this.#otherIn = otherIn
  }

  /** @throws SpooldError PIDFILE_HELD, START_FAILED */
  async acquire(kind: PidfileKind, file: string): Promise<void> {
    const other = this.#otherIn(file)
    if (other !== undefined) {
      const message = `${file} names a uWSGI that runs (pid ${other}), and is left alone; give spoold another ${kind}`
      return this.#events.emit('config-warning', { message })
    }
    const isOurs = [...this.#held.values()].some(each => each.isAt(file))
    if (!isOurs) this.#held.set(kind, await acquirePidfile(file, this.#files))
    this.#events.emit('pidfile-written', { file })
  }

  /** @param remove true after a failed start, or with `vacuum` */
  release(remove: boolean): void {
    for (const [kind, pidfile] of this.#held) {
      const error = pidfile.release(remove)
      if (error !== undefined) this.#events.emit('pidfile-left', { file: pidfile.path, error })
      else if (remove) this.#events.emit('pidfile-removed', { kind })
    }
    this.#held.clear()
  }
}

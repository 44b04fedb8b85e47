import type { Emitter } from '../../base/events/emitter.js'
import type { Master } from '../../runtime/supervisor/master.js'

/** A quiet daemon starts no task and no signal handler; what runs goes on. */
export class Quiet {
  readonly #master: Pick<Master, 'isQuiet' | 'setQuiet'>
  readonly #events: Emitter

  constructor(master: Pick<Master, 'isQuiet' | 'setQuiet'>, events: Emitter) {
    this.#master = master
    this.#events = events
    events.on('reload-done', () => this.set(false, 'reload')) // the workers are new, which is what it was quiet for
  }

  /** SIGTSTP, as for uWSGI's workers. */
  toggle(signal: string): void {
    this.set(!this.#master.isQuiet, signal)
  }

  /** @param because for people: a signal's name, or who asked */
  set(isQuiet: boolean, because: string): void {
    if (isQuiet === this.#master.isQuiet) return
    this.#master.setQuiet(isQuiet)
    this.#events.emit(isQuiet ? 'quiet-began' : 'quiet-ended', { because })
  }
}

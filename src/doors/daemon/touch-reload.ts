import { existsSync } from 'node:fs'
import type { Emitter } from '../../base/events/emitter.js'
import type { Options } from '../../formats/config/option-table.js'
import { watchTouches } from '../../system/files/directory-watch.js'

/** What touching a file requests. */
type TouchAsks = 'reload' | 'new-workers'

/** The files of `touch-reload` and `touch-spoolers-reload`. */
export class TouchReload {
  readonly #events: Emitter
  readonly #ask: (file: string, asks: TouchAsks) => void
  #watches: ReadonlyArray<{ close(): void }> = []

  constructor(events: Emitter, ask: (file: string, asks: TouchAsks) => void) {
    this.#events = events
    this.#ask = ask
  }

  /** Replaces the previous watches. */
  watch({ touchReload, touchSpoolersReload }: Options): void {
    this.stop()
    this.#watches = [
      watchTouches(touchReload, file => this.#ask(file, 'reload')),
      watchTouches(touchSpoolersReload, file => this.#ask(file, 'new-workers')),
    ]
    for (const file of [...touchReload, ...touchSpoolersReload])
      if (!existsSync(file)) this.#events.emit('file-awaited', { file })
  }

  stop(): void {
    for (const watch of this.#watches) watch.close()
    this.#watches = []
  }
}

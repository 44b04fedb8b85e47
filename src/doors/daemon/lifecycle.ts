import { existsSync } from 'node:fs'
import type { Emitter } from '../../base/events/emitter.js'
import type { Options } from '../../formats/config/option-table.js'
import { watchTouches } from '../../system/files/directory-watch.js'

type DaemonState = 'starting' | 'running' | 'reloading' | 'stopping' | 'stopped'

const NEXT: Readonly<Record<DaemonState, readonly DaemonState[]>> = {
  starting: ['running', 'stopping'],
  running: ['reloading', 'stopping'],
  reloading: ['running', 'stopping'],
  stopping: ['stopped'],
  stopped: [],
}

/** The state of a daemon. Transitions that come too late are ignored. A stop is possible in every state. */
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

/** What touching a file asks for. */
export type TouchAsks = 'reload' | 'new-workers'

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
 * `die-on-idle`: ends a daemon that has had nothing to do for a while, because something else starts it again, such as
 * systemd. Every task in a spool keeps the daemon, due or not: nothing else would run it.
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
    since = undefined // tasks came and went between two looks
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

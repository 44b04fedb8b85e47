type DaemonState = 'starting' | 'running' | 'reloading' | 'stopping' | 'stopped'

const NEXT: Readonly<Record<DaemonState, readonly DaemonState[]>> = {
  starting: ['running', 'stopping'],
  running: ['reloading', 'stopping'],
  reloading: ['running', 'stopping'],
  stopping: ['stopped'],
  stopped: [],
}

/** The one state of a daemon. What comes too late to change it is passed over: a stop is obeyed in each state. */
export class Lifecycle {
  #state: DaemonState = 'starting'
  #tellStopped = () => {}
  readonly whenStopped = new Promise<void>(resolve => {
    this.#tellStopped = resolve
  })

  get state(): DaemonState {
    return this.#state
  }

  /** Nothing new is begun any more. */
  get isStopping(): boolean {
    return this.#state === 'stopping' || this.#state === 'stopped'
  }

  /** @returns whether it did */
  become(state: DaemonState): boolean {
    if (!NEXT[this.#state].includes(state)) return false
    this.#state = state
    if (state === 'stopped') this.#tellStopped()
    return true
  }
}

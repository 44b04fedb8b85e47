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

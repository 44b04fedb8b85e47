/** The directory in which handlers run. A failure to enter one is not the task's fault, as in uWSGI. */
export interface WorkingDirectory {
  enter(path: string): void
  /** Call it between turns: the directory may have been removed and created again since it was entered. */
  forget(): void
}

/** The current directory of this process. Handlers may change it at any time. */
export class ProcessDirectory implements WorkingDirectory {
  #entered: string | undefined

  enter(path: string): void {
    try {
      if (this.#entered === path && process.cwd() === path) return
    } catch {} // a handler has left it, and removed the directory that it went to
    try {
      process.chdir(path)
      this.#entered = path
    } catch {}
  }

  forget(): void {
    this.#entered = undefined
  }
}

/** Where handlers run. A failure to enter a directory is not the task's fault, as in uWSGI. */
export interface WorkingDirectory {
  enter(path: string): void
  /** The directory may have been removed and made again since it was entered. */
  forget(): void
}

/** Of this process, which handlers may change behind our back. */
export class ProcessDirectory implements WorkingDirectory {
  #entered: string | undefined

  enter(path: string): void {
    try {
      if (this.#entered === path && process.cwd() === path) return
    } catch {} // a handler left it, and removed where it went
    try {
      process.chdir(path)
      this.#entered = path
    } catch {}
  }

  forget(): void {
    this.#entered = undefined
  }
}

import { resolve } from 'node:path'
import { messageOf, SpooldError } from '../base/errors.js'
import type { CheckedConfig } from '../config/check.js'

/**
 * What this process hands down to its children: environment, umask, current directory. A configuration changes them; the
 * next one is read, and its relative names are understood, as if no other had been there before.
 */
export class ProcessEnvironment {
  readonly #environment = { ...process.env }
  readonly #home = process.cwd()
  readonly #umask = currentUmask()

  /** A path as the configuration means it, wherever the process is now. */
  resolve(path: string): string {
    return resolve(this.#home, path)
  }

  /** `env`, `unenv` and `umask`: what matters from the first spool directory on. */
  enter({ options, environment }: CheckedConfig): void {
    this.#forget()
    for (const [name, value] of environment) setVariable(name, value)
    if (options.umask !== null) process.umask(options.umask)
  }

  /**
   * Goes to the configuration's `chdir`, or stays.
   *
   * @throws SpooldError START_FAILED
   */
  settle(directory: string | null): void {
    const path = directory === null ? this.#home : this.resolve(directory)
    if (process.cwd() === path) return // it may be one that we could not enter again
    try {
      process.chdir(path)
    } catch (error) {
      throw new SpooldError(
        'START_FAILED',
        `${path} cannot be entered by uid ${process.geteuid?.()} (${messageOf(error)}); name another chdir, or let it in`,
        { cause: error },
      )
    }
  }

  /**
   * As the process was started, to read a configuration.
   *
   * @throws SpooldError START_FAILED when it may no longer be where it was
   */
  leave(): void {
    this.settle(null)
    this.#forget()
  }

  #forget(): void {
    for (const name of Object.keys(process.env))
      if (!Object.hasOwn(this.#environment, name)) setVariable(name, undefined)
    for (const [name, value] of Object.entries(this.#environment)) setVariable(name, value)
    process.umask(this.#umask)
  }
}

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name]
  else process.env[name] = value
}

/** It cannot be asked for without being set, in a way that every version of Node likes. */
function currentUmask(): number {
  const umask = process.umask(0o077)
  process.umask(umask)
  return umask
}

import { resolve } from 'node:path'
import { messageOf, SpooldError } from '../../base/errors.js'
import type { CheckedConfig } from '../check/check.js'

/**
 * What child processes inherit: environment, umask, current directory. A configuration changes them. The next
 * configuration is read, and its relative paths are resolved, as if no other had been applied before.
 */
export class ProcessEnvironment {
  readonly #environment = { ...process.env }
  readonly #home = process.cwd()
  readonly #umask = currentUmask()

  /** Resolves a path of the configuration, whatever the current directory is. */
  readonly resolve = (path: string): string => resolve(this.#home, path)

  /** Applies `env`, `unenv` and `umask`, which matter from the first spool directory on. */
  enter({ options, environment }: CheckedConfig): void {
    this.#forget()
    for (const [name, value] of environment) setVariable(name, value)
    if (options.umask !== null) process.umask(options.umask)
  }

  /**
   * Changes to the configuration's `chdir`; null: to the directory of the start.
   *
   * @throws SpooldError START_FAILED
   */
  settle(directory: string | null): void {
    const path = directory === null ? this.#home : this.resolve(directory)
    if (process.cwd() === path) return // the process may not be permitted to enter it again
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
   * Restores the state of the process at its start, to read a configuration.
   *
   * @throws SpooldError START_FAILED when it may no longer enter its first directory
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

/** The umask cannot be read without setting it, in a way that works in every version of Node. */
function currentUmask(): number {
  const umask = process.umask(0o077)
  process.umask(umask)
  return umask
}

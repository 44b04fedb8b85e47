import { realpathSync } from 'node:fs'
import { describe, SpooldError } from '../base/errors.js'
import { DirectoryEnqueuer } from './directory-enqueuer.js'

/**
 * The spools that tasks may be put into: those of `spooler` and `spooler-external`, in their order. A task names one by
 * its path; without a name it goes to the first (core/spooler.c, uwsgi_spool_request).
 */
export class SpoolTargets {
  readonly #enqueuers: readonly DirectoryEnqueuer[]

  /**
   * @param directories one at least
   * @throws SpooldError SPOOL_UNUSABLE
   */
  constructor(directories: readonly string[], sync = true) {
    this.#enqueuers = directories.map(directory => new DirectoryEnqueuer(directory, sync))
  }

  get directories(): readonly string[] {
    return this.#enqueuers.map(({ directory }) => directory)
  }

  /**
   * @param name what the task's `spooler` says; compared by real path, so a link and a slash at the end are fine. Empty or
   *   undefined is the first.
   * @returns undefined when it is none of ours
   */
  find(name?: string | Uint8Array): DirectoryEnqueuer | undefined {
    if (name === undefined || name.length === 0) return this.#enqueuers[0]
    const text = typeof name === 'string' ? name : Buffer.from(name).toString()
    return this.#named(text) ?? this.#named(realPath(text))
  }

  /** @throws SpooldError SPOOLER_UNKNOWN */
  get(name?: string | Uint8Array): DirectoryEnqueuer {
    const found = this.find(name)
    if (found !== undefined) return found
    const got = describe(typeof name === 'string' ? name : Buffer.from(name ?? []).toString())
    throw new SpooldError(
      'SPOOLER_UNKNOWN',
      `spooler must be one of ${this.directories.join(', ')}, got ${got}`,
      { details: { key: 'spooler', got } },
    )
  }

  #named(directory: string | undefined): DirectoryEnqueuer | undefined {
    return this.#enqueuers.find(enqueuer => enqueuer.directory === directory)
  }
}

/** undefined for what does not exist, or cannot be a path at all. */
function realPath(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

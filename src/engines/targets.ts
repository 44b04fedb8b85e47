import { resolve } from 'node:path'
import { describe, SpooldError } from '../base/errors.js'
import { isRedisAddress, nameOfRedis, parseRedisAddress } from '../formats/protocol/redis-address.js'
import { realPathOf } from '../system/file-stats.js'
import { DeferredEnqueuer } from './deferred-enqueuer.js'
import { DirectoryEnqueuer } from './directory/enqueuer.js'
import type { Enqueuer } from './enqueuer.js'
import { openEngine } from './open-engine.js'

/** A spool that accepts tasks. */
export interface SpoolTarget {
  /** The path of the spool, or its address on Redis. */
  readonly directory: string
  /** True if a task has to be on disk before it counts as stored. */
  readonly sync: boolean
}

/**
 * The spools that accept tasks: those of `spooler` and `spooler-external`, in order. A task names one by its path;
 * without a name it goes to the first (core/spooler.c, uwsgi_spool_request).
 */
export class SpoolTargets {
  readonly #enqueuers: readonly Enqueuer[]
  /** The enqueuers, by real path and by configured path. */
  readonly #byName = new Map<string, Enqueuer>()

  /**
   * @param targets at least one
   * @throws SpooldError SPOOL_UNUSABLE, ADDRESS_INVALID
   */
  constructor(targets: readonly SpoolTarget[]) {
    this.#enqueuers = targets.map(open)
    for (const [i, enqueuer] of this.#enqueuers.entries())
      for (const name of [enqueuer.name, placeOf(targets[i]?.directory ?? '')])
        if (!this.#byName.has(name)) this.#byName.set(name, enqueuer)
  }

  get directories(): readonly string[] {
    return this.#enqueuers.map(({ name }) => name)
  }

  /**
   * Looks up a spool that an untrusted client named, by its real path or its path in the configuration. It does not access the
   * file system, so that a client cannot probe it.
   *
   * @param name the task's `spooler`; empty or undefined means the first spool
   * @returns undefined if it is not one of these spools
   */
  known(name?: Uint8Array): Enqueuer | undefined {
    if (name === undefined || name.length === 0) return this.#enqueuers[0]
    const text = Buffer.from(name).toString()
    if (isRedisAddress(text)) return this.#byName.get(text) ?? this.#byName.get(nameIn(text))
    return text.startsWith('/') ? this.#byName.get(resolve(text)) : undefined
  }

  /** As `known`, but accepts any path that leads to the spool. */
  find(name?: Uint8Array): Enqueuer | undefined {
    const known = this.known(name)
    if (known !== undefined || name === undefined) return known
    return this.#byName.get(realPathOf(Buffer.from(name).toString()) ?? '')
  }

  /** @throws SpooldError SPOOLER_UNKNOWN */
  get(name?: Uint8Array): Enqueuer {
    const found = this.find(name)
    if (found !== undefined) return found
    const got = describe(Buffer.from(name ?? []).toString())
    throw new SpooldError(
      'SPOOLER_UNKNOWN',
      `spooler must be one of ${this.directories.join(', ')}, got ${got}`,
      { details: { key: 'spooler', got } },
    )
  }
}

function open({ directory, sync }: SpoolTarget): Enqueuer {
  if (!isRedisAddress(directory)) return new DirectoryEnqueuer(directory, sync)
  return new DeferredEnqueuer(nameOfRedis(directory), () => openEngine(directory).enqueuer(sync))
}

/**
 * Returns the name in an address; empty if it is no valid address. A client may name a spool by an address with other settings.
 */
function nameIn(address: string): string {
  try {
    return parseRedisAddress(address).name
  } catch {
    return ''
  }
}

/** Returns what a spool is known by besides its name: its address, or its absolute path. */
function placeOf(directory: string): string {
  return isRedisAddress(directory) ? directory : resolve(directory)
}

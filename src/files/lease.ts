import fs, { type Stats } from 'node:fs'
import { errnoOf } from '../base/errors.js'
import { onDemand } from '../base/on-demand.js'
import { lstatSync } from './anchored-path.js'

/** The only file that knows the library; it is not loaded before it is used. */
export const loadLeases = onDemand<typeof import('proper-lockfile')>('proper-lockfile')

/** A lease whose holder does not refresh it for this long is taken over: longer than any pause of an event loop should be. */
const STALE_MS = 60_000

/**
 * Leases that are taken and given back at once, each a directory that its holder keeps renewing: for where record locks cannot
 * be trusted.
 */
export function openLeases() {
  const { lockSync, unlockSync } = loadLeases()
  const options = (path: string) => ({ realpath: false, lockfilePath: path, stale: STALE_MS })
  return {
    /** @param lost is called when another process has taken it over @returns false while another one has it */
    tryTake(path: string, lost: (error: Error) => void): boolean {
      try {
        lockSync(path, { ...options(path), update: STALE_MS / 6, onCompromised: lost })
        return true
      } catch (error) {
        if (errnoOf(error) === 'ELOCKED') return false
        throw error
      }
    },
    giveBack(path: string): void {
      unlockSync(path, options(path))
    },
  }
}

/** Is this the directory of an expired lease? Any process may take it over. */
export function isStale({ mtimeMs }: Stats): boolean {
  return mtimeMs < Date.now() - STALE_MS
}

/** Takes over an expired lease and releases it. @returns false if it is still renewed */
export async function clearLease(path: string): Promise<boolean> {
  const { lockSync, unlockSync } = loadLeases()
  const options = { realpath: false, lockfilePath: path, stale: STALE_MS }
  try {
    lockSync(path, options)
    unlockSync(path, options)
    return true
  } catch (error) {
    if (errnoOf(error) !== 'ELOCKED') throw error
    return false
  }
}

/** A lease that is kept for long. If its holder stops renewing it, another process may take it over. */
export interface Lease {
  /** Epoch ms. No other process takes it over before then. */
  readonly validUntilMs: number
  /** Taken over from a dead holder. Another process may have done the same; ownership is certain only after the first renewal. */
  readonly isTakenOver: boolean
  release(): Promise<void>
}

const LONG_STALE_MS = 5000
const LONG_RENEWAL_MS = 1000

/**
 * Takes a lease, or resolves with undefined while another process has it. A process that could not see the renewals may
 * take it over: then `lost` is called. `ended` is called once it is nobody's here, taken or not.
 */
export async function takeLease(
  path: string,
  { lost, renewed, ended }: { lost(): void; renewed(): void; ended(): void },
): Promise<Lease | undefined> {
  const { lock } = loadLeases()
  const isTakenOver = lstatSync(path) !== undefined
  let renewedAtMs = Date.now()
  // the library does not tell when it has renewed a lease, but it does so through these functions
  const watchedFs = {
    ...fs,
    utimes(at: string, atime: Date, mtime: Date, done: (error: Error | null) => void) {
      fs.utimes(at, atime, mtime, error => {
        if (error === null) renewedAtMs = mtime.getTime()
        done(error)
        if (error === null) renewed()
      })
    },
  }
  try {
    const release = await lock(path, {
      realpath: false,
      lockfilePath: path,
      stale: LONG_STALE_MS,
      update: LONG_RENEWAL_MS,
      onCompromised: lost,
      fs: watchedFs,
    })
    return {
      get validUntilMs() {
        return renewedAtMs + LONG_STALE_MS
      },
      isTakenOver,
      release: () => release().finally(ended),
    }
  } catch (error) {
    ended()
    if (errnoOf(error) === 'ELOCKED') return undefined
    throw error
  }
}

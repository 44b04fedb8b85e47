import fs, { type Stats } from 'node:fs'
import { errnoOf, SpooldError } from '../../base/errors.js'
import { onDemand } from '../../base/on-demand.js'
import type { Lease } from '../../base/task/schedule.js'
import { lstatSync, named } from './anchored-path.js'

/** Loads the library on first use. No other module uses it. */
export const loadLeases = onDemand<typeof import('proper-lockfile')>('proper-lockfile')

/** A lease not renewed for this long may be taken over; longer than any event loop should ever pause. */
const STALE_MS = 60_000
/** How long after a renewal nobody takes a lease over, whatever happens to its holder. */
const SURE_MS = STALE_MS / 2
/** How many leases are remembered at most: more would be those of leases that are gone. */
const MOST_SEEN = 10_000

/**
 * Returns true if the holder of a lease is dead, so that another process may take the lease over.
 *
 * @param lease the status of its directory
 */
export type JudgeLease = (lease: Pick<Stats, 'dev' | 'ino' | 'mtimeMs'>) => boolean

/**
 * Judges leases for a process that stays. The holder of a lease is dead if the time of the lease has not changed for
 * `staleMs`, by a clock that nobody sets. That time itself is of the holder's clock, which may be another host's, and may have
 * been set since.
 */
export class LeaseWatch {
  readonly #staleMs: number
  /**
   * The time of each lease, and since when the lease has been seen to have it, on the clock of `performance.now()`. Keyed by
   * device and inode.
   */
  readonly #seen = new Map<string, { readonly mtimeMs: number; readonly since: number }>()

  constructor(staleMs = STALE_MS) {
    this.#staleMs = staleMs
  }

  isDead({ dev, ino, mtimeMs }: Parameters<JudgeLease>[0], now = performance.now()): boolean {
    const key = `${dev} ${ino}`
    const seen = this.#seen.get(key)
    if (seen?.mtimeMs === mtimeMs) return now - seen.since > this.#staleMs
    if (this.#seen.size >= MOST_SEEN) this.#seen.clear() // a dead holder is then found dead later
    this.#seen.set(key, { mtimeMs, since: now })
    return false
  }
}

const watch = new LeaseWatch()

export const isNoLongerRenewed: JudgeLease = lease => watch.isDead(lease)

/**
 * Short-lived leases, for file systems whose record locks cannot be trusted. Each lease is a directory that its holder
 * keeps renewing.
 */
export function openLeases(isDead: JudgeLease) {
  const { lockSync, unlockSync } = loadLeases()
  /** The leases that this process has, as far as it knows. */
  const own = new Map<string, Renewal>()
  // the library judges by the wall clock: of a lease of another process, it is shown the time of now or of 1970
  const judging = {
    ...fs,
    mkdirSync(path: string) {
      fs.mkdirSync(path)
      own.set(path, { mtimeMs: undefined, since: performance.now() })
    },
    statSync(path: string) {
      const stats = fs.statSync(path)
      return own.has(path) ? stats : { mtime: new Date(isDead(stats) ? 0 : Date.now()) }
    },
    utimesSync(path: string, atime: Date, mtime: Date) {
      fs.utimesSync(path, atime, mtime)
      if (own.has(path)) own.set(path, { mtimeMs: mtime.getTime(), since: performance.now() })
    },
    rmdirSync(path: string) {
      own.delete(path)
      fs.rmdirSync(path)
    },
  }
  const forgetting = { ...judging, rmdirSync: (path: string) => own.delete(path) }
  const options = (path: string) => ({ realpath: false, lockfilePath: path, stale: STALE_MS, fs: judging })
  const holds = (path: string) => {
    const renewal = own.get(path)
    if (renewal === undefined) return false
    if (performance.now() - renewal.since < SURE_MS) return true
    return lstatSync(path)?.mtime.getTime() === renewal.mtimeMs
  }
  return {
    /**
     * Takes a lease. Once another process has taken it over, CLAIM_LOST is thrown from a timer.
     *
     * @param what the thing that is leased, for people
     * @returns false while another process has the lease
     */
    tryTake(path: string, what: string): boolean {
      const onCompromised = (error: Error) => {
        own.delete(path)
        throw new SpooldError('CLAIM_LOST', `the lease on ${what} was lost: ${error.message}`, {
          cause: error,
        })
      }
      try {
        lockSync(path, { ...options(path), update: STALE_MS / 6, onCompromised })
        return true
      } catch (error) {
        if (errnoOf(error) === 'ELOCKED') return false
        throw named(error)
      }
    },
    /** Returns false once another process has taken the lease over. A process that stood still learns of that first from here. */
    holds,
    /** Gives a lease back. One that was lost is left to the process that has it. */
    giveBack(path: string): void {
      if (own.has(path)) unlockSync(path, { ...options(path), fs: holds(path) ? judging : forgetting })
    },
  }
}

/** When a lease was renewed, on the clock of `performance.now()`, and the time that it was given. */
interface Renewal {
  readonly mtimeMs: number | undefined
  readonly since: number
}

/**
 * Judges leases for a command, which ends before it could see that nobody renews a lease. The time of the lease says so, as
 * far as the clocks of both processes agree.
 */
export const isExpired: JudgeLease = ({ mtimeMs }) => mtimeMs < Date.now() - STALE_MS

/** Takes over an expired lease and releases it. @returns false if it is still renewed */
export function clearLease(path: string): boolean {
  const leases = openLeases(isExpired)
  const isTaken = leases.tryTake(path, path)
  if (isTaken) leases.giveBack(path)
  return isTaken
}

const LONG_STALE_MS = 5000
const LONG_RENEWAL_MS = 1000
const longWatch = new LeaseWatch(LONG_STALE_MS)

/**
 * Takes a long-lived lease, or resolves with undefined while another process has it. If its holder stops renewing it, another
 * process may take it over, even if the lease has a time in the future because the clock was set back. `lost` is called when
 * another process has taken the lease over, for instance because it could not see the renewals. `ended` is called once this
 * process no longer has the lease, or has failed to take it.
 */
export async function takeLease(
  path: string,
  { lost, renewed, ended }: { lost(): void; renewed(): void; ended(): void },
): Promise<Lease | undefined> {
  const { lock } = loadLeases()
  const isTakenOver = lstatSync(path) !== undefined
  let renewedAtMs = Date.now()
  let isOwn = false
  // the library does not report renewals, but it makes them through these functions
  const watchedFs = {
    ...fs,
    mkdir(at: string, done: (error: Error | null) => void) {
      fs.mkdir(at, error => {
        isOwn = error === null
        done(error)
      })
    },
    stat(at: string, done: (error: Error | null, stats: Pick<Stats, 'mtime'>) => void) {
      fs.stat(at, (error, stats) => {
        const isDead = error === null && !isOwn && longWatch.isDead(stats)
        done(error, isDead ? { mtime: new Date(0) } : stats)
      })
    },
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
    let releasing: Promise<void> | undefined
    return {
      get validUntilMs() {
        return renewedAtMs + LONG_STALE_MS
      },
      isTakenOver,
      release() {
        releasing ??= release().finally(ended)
        return releasing
      },
    }
  } catch (error) {
    ended()
    if (errnoOf(error) === 'ELOCKED') return undefined
    throw error
  }
}

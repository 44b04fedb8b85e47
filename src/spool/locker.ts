import fs, { type Stats } from 'node:fs'
import { crypto } from '../base/crypto.js'
import { errnoOf, SpooldError } from '../base/errors.js'
import { onDemand } from '../base/on-demand.js'
import { type Directory, holdDirectory, lstatSync } from '../files/anchored-path.js'
import { isLocal } from '../files/local.js'
import { type Ref, toByteString, toFsPath } from '../task/ref.js'
import { STATE_DIRECTORY } from './names.js'
import { makeStateRoom, stateRoom } from './state-directory.js'

/** The only file that knows a lock library; none is loaded before it is used. */
const recordLocks = onDemand<typeof import('fs-native-extensions')>('fs-native-extensions')
const leaseFiles = onDemand<typeof import('proper-lockfile')>('proper-lockfile')

export type LockKind = 'ofd' | 'lockfile'
export type LockChoice = LockKind | 'auto'

/** How this daemon claims a task file. */
export interface Locker {
  readonly kind: LockKind
  /** The maximum skew between this process's clock and the clock that dates file changes. */
  readonly skewMs: number
  /** Never blocks: true when the caller now holds the claim on the file open at `fd`. */
  tryLock(fd: number, ref: Ref): boolean
  /** Releases the claim. Call it after the file is settled and before `fd` is closed. */
  unlock(ref: Ref): void
  /** Ends the claim for processes that inherited the descriptor, too: closing ours would leave the lock with them. */
  unshare(fd: number): void
}

export type TryOfdLock = (fd: number) => boolean

/** A non-blocking exclusive record lock on the whole file. Rejects on a platform for which nothing is prebuilt. */
export async function loadOfd(): Promise<TryOfdLock> {
  const { tryLock } = recordLocks()
  return fd => tryLock(fd)
}

/**
 * Open-file-description locks: they conflict with uWSGI's POSIX record locks both ways, die with the process, and unlike
 * those do not vanish when another descriptor of the same file is closed. `close` releases them.
 */
async function ofdLocker(skewMs: number): Promise<Locker> {
  const { tryLock, unlock } = recordLocks()
  return { kind: 'ofd', skewMs, tryLock: fd => tryLock(fd), unlock: () => {}, unshare: fd => unlock(fd) }
}

/** A lease whose holder does not refresh it for this long is taken over: longer than any pause of an event loop should be. */
const STALE_MS = 60_000

/** Leases in `.spoold/locks`, where record locks cannot be trusted (NFS without lockd). A plain uWSGI does not see them. */
async function leaseLocker(spool: string, skewMs: number): Promise<Locker> {
  const { lockSync, unlockSync } = leaseFiles()
  const { path: leases } = holdLeases(spool) // the library comes back to its paths for as long as we live
  const options = (ref: Ref) => ({
    realpath: false,
    lockfilePath: `${leases}/${leaseName(ref)}`,
    stale: STALE_MS,
    update: STALE_MS / 6,
    onCompromised: (error: Error) => {
      throw new SpooldError('CLAIM_LOST', `the lease on ${ref} was lost: ${error.message}`, { cause: error })
    },
  })
  return {
    kind: 'lockfile',
    skewMs,
    tryLock(_fd, ref) {
      try {
        lockSync(ref, options(ref))
        return true
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'ELOCKED') return false
        throw error
      }
    },
    unlock(ref) {
      unlockSync(ref, options(ref))
    },
    unshare() {},
  }
}

export function leasesOf(spool: string): string {
  return stateRoom(spool, 'locks')
}

function leaseName(ref: Ref): string {
  return `${crypto().createHash('sha1').update(ref, 'latin1').digest('hex')}.lock`
}

/** Is it leased? @param spool a byte string */
export function isLeased(spool: string, ref: Ref): boolean {
  const stats = lstatSync(toFsPath(`${leasesOf(spool)}/${leaseName(ref)}`))
  return stats !== undefined && !isStale(stats)
}

/** Is this the directory of an expired lease? Any process may take it over. */
export function isStale({ mtimeMs }: Stats): boolean {
  return mtimeMs < Date.now() - STALE_MS
}

/** Takes over an expired lease and releases it. @returns false if it is still renewed */
export async function clearLease(path: string): Promise<boolean> {
  const { lockSync, unlockSync } = leaseFiles()
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

/** A file's times are those of the kernel's last tick. */
const TICKS_MS = 50
/** Than the clocks of a network's hosts are apart. */
const HOSTS_MS = 2000

export async function openLocker(spool: string, kind: LockKind): Promise<Locker> {
  const skewMs = (await isLocal(toByteString(spool))) ? TICKS_MS : HOSTS_MS
  return kind === 'ofd' ? ofdLocker(skewMs) : leaseLocker(spool, skewMs)
}

/** Whatever of them is there. */
export async function loadLockLibraries(): Promise<void> {
  for (const load of [recordLocks, leaseFiles])
    try {
      load()
    } catch {} // nothing is prebuilt for this platform
}

/** Locks a descriptor that is no task (the pidfile): held until the process ends or closes it. */
export async function tryHold(fd: number): Promise<boolean> {
  return (await loadOfd())(fd)
}

/** A lease that is not bound to a task. If its holder stops renewing it, another process may take it over. */
export interface Lease {
  /** Epoch ms. No other process takes it over before then. */
  readonly validUntilMs: number
  /** Taken over from a dead holder. Another process may have done the same; ownership is certain only after the first renewal. */
  readonly isTakenOver: boolean
  release(): Promise<void>
}

const LEASE_STALE_MS = 5000
const LEASE_RENEWAL_MS = 1000

/**
 * Takes the lease of this name in a spool, or resolves with undefined while another process has it. A process that could
 * not see the renewals may take it over: then `lost` is called.
 */
export async function takeLease(
  spool: string,
  name: string,
  { lost, renewed }: { lost(): void; renewed(): void },
): Promise<Lease | undefined> {
  const { lock } = leaseFiles()
  const leases = holdLeases(spool)
  const path = `${leases.path}/${name}.lock`
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
      stale: LEASE_STALE_MS,
      update: LEASE_RENEWAL_MS,
      onCompromised: lost,
      fs: watchedFs,
    })
    return {
      get validUntilMs() {
        return renewedAtMs + LEASE_STALE_MS
      },
      isTakenOver,
      release: () => release().finally(leases.release),
    }
  } catch (error) {
    leases.release()
    if (errnoOf(error) === 'ELOCKED') return undefined
    throw error
  }
}

function holdLeases(spool: string): Directory {
  const path = makeStateRoom(toByteString(spool), 'locks', '')
  return holdDirectory(path, `${toByteString(spool)}/${STATE_DIRECTORY}/locks`)
}

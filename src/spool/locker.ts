import { crypto } from '../base/crypto.js'
import { SpooldError } from '../base/errors.js'
import { type Directory, holdDirectory, lstatSync } from '../files/anchored-path.js'
import { isStale, type Lease, loadLeases, openLeases, takeLease } from '../files/lease.js'
import { isLocal } from '../files/local.js'
import { loadRecordLocks } from '../files/record-lock.js'
import { type Ref, toByteString, toFsPath } from '../task/ref.js'
import { STATE_DIRECTORY } from './names.js'
import { makeStateRoom, stateRoom } from './state-directory.js'

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

/** A file's times are those of the kernel's last tick. */
const TICKS_MS = 50
/** Than the clocks of a network's hosts are apart. */
const HOSTS_MS = 2000

export async function openLocker(spool: string, kind: LockKind): Promise<Locker> {
  const skewMs = (await isLocal(toByteString(spool))) ? TICKS_MS : HOSTS_MS
  return kind === 'ofd' ? recordLocker(skewMs) : leaseLocker(spool, skewMs)
}

/** They conflict with uWSGI's POSIX record locks both ways, and die with the process; `close` releases them. */
function recordLocker(skewMs: number): Locker {
  const { tryLock, unlock } = loadRecordLocks()
  return { kind: 'ofd', skewMs, tryLock: fd => tryLock(fd), unlock: () => {}, unshare: fd => unlock(fd) }
}

/** Leases in `.spoold/locks`, where record locks cannot be trusted (NFS without lockd). A plain uWSGI does not see them. */
function leaseLocker(spool: string, skewMs: number): Locker {
  const { path: directory } = holdLeases(spool) // the library comes back to its paths for as long as we live
  const pathOf = (ref: Ref) => `${directory}/${leaseName(ref)}`
  const leases = openLeases()
  const lost = (ref: Ref) => (error: Error) => {
    throw new SpooldError('CLAIM_LOST', `the lease on ${ref} was lost: ${error.message}`, { cause: error })
  }
  return {
    kind: 'lockfile',
    skewMs,
    tryLock: (_fd, ref) => leases.tryTake(pathOf(ref), lost(ref)),
    unlock: ref => leases.giveBack(pathOf(ref)),
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

/** The lease of this name in a spool, which is bound to no task; undefined while another process has it. */
export function takeSpoolLease(
  spool: string,
  name: string,
  events: { lost(): void; renewed(): void },
): Promise<Lease | undefined> {
  const leases = holdLeases(spool)
  return takeLease(`${leases.path}/${name}.lock`, { ...events, ended: leases.release })
}

/** Whatever of the libraries is there. */
export async function loadLockLibraries(): Promise<void> {
  for (const load of [loadRecordLocks, loadLeases])
    try {
      load()
    } catch {} // nothing is prebuilt for this platform
}

function holdLeases(spool: string): Directory {
  const path = makeStateRoom(toByteString(spool), 'locks', '')
  return holdDirectory(path, `${toByteString(spool)}/${STATE_DIRECTORY}/locks`)
}

import { crypto } from '../../base/on-demand.js'
import { type Ref, toByteString, toFsPath } from '../../base/task/ref.js'
import type { Lease } from '../../base/task/schedule.js'
import { type Directory, holdDirectory, lstatSync } from '../../system/files/anchored-path.js'
import {
  isExpired,
  isNoLongerRenewed,
  type JudgeLease,
  loadLeases,
  openLeases,
  takeLease,
} from '../../system/files/lease.js'
import { isLocal } from '../../system/files/stamps.js'
import { libc } from '../../system/libc.js'
import { STATE_DIRECTORY } from './names.js'
import { makeStateRoom, stateRoom } from './state-directory.js'

export type LockKind = 'ofd' | 'lockfile'
export type LockChoice = LockKind | 'auto'

/** The way in which a task file is locked. */
export interface TaskLock {
  /** The maximum skew between this process's clock and the clock that dates file changes. */
  readonly skewMs: number
  /** True if other hosts change the files, too: the kernel may then show a file as it was some seconds ago. */
  readonly isRemote: boolean
  /** Never blocks. Returns true if the caller now holds the claim on the file open at `fd`. */
  tryLock(fd: number, ref: Ref): boolean
  /** Releases the claim. Call it after the file is settled and before `fd` is closed. */
  unlock(ref: Ref): void
}

/** The lock of a process that runs the task while it holds the lock. */
export interface Locker extends TaskLock {
  readonly kind: LockKind
  /** False if another process may have the claim, because this one could not keep it. */
  holds(ref: Ref): boolean
  /** Releases the claim even if other processes inherited the descriptor: closing only ours would leave them the lock. */
  unshare(fd: number): void
}

/** File times are as coarse as the kernel's timer ticks. */
const TICKS_MS = 50
/** The assumed clock skew between hosts of a network. */
const HOSTS_MS = 2000

/**
 * @param isDead judges whether the lease of another process has ended; the default is for a process that stays, and sees
 *   renewals
 */
export async function openLocker(
  spool: string,
  kind: LockKind,
  isDead: JudgeLease = isNoLongerRenewed,
): Promise<Locker> {
  const isRemote = !(await isLocal(toByteString(spool)))
  const locker = kind === 'ofd' ? recordLocker() : leaseLocker(spool, isDead)
  return { ...locker, skewMs: isRemote ? HOSTS_MS : TICKS_MS, isRemote }
}

/** How a kind of lock is taken, wherever the files are. */
type LockWay = Omit<Locker, 'skewMs' | 'isRemote'>

/** OFD locks. They conflict with uWSGI's POSIX record locks both ways; `close` or the end of the process releases them. */
function recordLocker(): LockWay {
  const { tryLock, unlock } = libc()
  return {
    kind: 'ofd',
    tryLock: fd => tryLock(fd),
    holds: () => true,
    unlock: () => {},
    unshare: fd => unlock(fd),
  }
}

/** Leases in `.spoold/locks`, if record locks cannot be trusted (NFS without lockd). A plain uWSGI does not see them. */
function leaseLocker(spool: string, isDead: JudgeLease): LockWay {
  const leases = openLeases(isDead)
  /** The leases that this process has. The library uses the path of a lease until it is given back. */
  const held = new Map<Ref, { readonly directory: Directory; readonly path: string }>()
  return {
    kind: 'lockfile',
    tryLock(_fd, ref) {
      const directory = holdLeases(spool)
      const path = `${directory.path}/${leaseName(ref)}`
      let isTaken = false
      try {
        isTaken = leases.tryTake(path, ref)
      } finally {
        if (isTaken) held.set(ref, { directory, path })
        else directory.release()
      }
      return isTaken
    },
    holds(ref) {
      const lease = held.get(ref)
      return lease !== undefined && leases.holds(lease.path)
    },
    unlock(ref) {
      const lease = held.get(ref)
      if (lease === undefined) return
      held.delete(ref)
      leases.giveBack(lease.path)
      lease.directory.release()
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

/** True if the file is leased, as far as a command can tell. @param spool a byte string */
export function isLeased(spool: string, ref: Ref): boolean {
  const stats = lstatSync(toFsPath(`${leasesOf(spool)}/${leaseName(ref)}`))
  return stats !== undefined && !isExpired(stats)
}

/** Takes a named lease of the spool, which belongs to no task; undefined while another process has it. */
export function takeSpoolLease(
  spool: string,
  name: string,
  events: { lost(): void; renewed(): void },
): Promise<Lease | undefined> {
  const leases = holdLeases(spool)
  return takeLease(`${leases.path}/${name}.lock`, { ...events, ended: () => leases.release() })
}

/** Loads the lock libraries that are available. */
export async function loadLockLibraries(): Promise<void> {
  for (const load of [libc, loadLeases])
    try {
      load()
    } catch {} // no prebuilt binary for this platform
}

function holdLeases(spool: string): Directory {
  const path = makeStateRoom(toByteString(spool), 'locks', '')
  return holdDirectory(path, `${toByteString(spool)}/${STATE_DIRECTORY}/locks`)
}

import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { SpooldError } from '../base/errors.js'
import type { Ref } from '../task/ref.js'
import { STATE_DIRECTORY } from './file-name.js'

/** The only file that knows a lock library; none is loaded before it is used. */

export type LockKind = 'ofd' | 'lockfile'
export type LockChoice = LockKind | 'auto'

/** How this daemon claims a task file. */
export interface Locker {
  readonly kind: LockKind
  /** Never blocks: true when the caller now holds the claim on the file open at `fd`. */
  tryLock(fd: number, ref: Ref): boolean
  /** Gives the claim up. To be called after the file was settled and before `fd` is closed. */
  unlock(ref: Ref): void
}

export type TryOfdLock = (fd: number) => boolean

/** A non-blocking exclusive record lock on the whole file. Rejects on a platform for which nothing is prebuilt. */
export async function loadOfd(): Promise<TryOfdLock> {
  const { tryLock } = await import('fs-native-extensions')
  return fd => tryLock(fd)
}

/**
 * Open-file-description locks: they conflict with uWSGI's POSIX record locks both ways, die with the process, and unlike
 * those do not vanish when another descriptor of the same file is closed. `close` releases them.
 */
function ofdLocker(tryOfdLock: TryOfdLock): Locker {
  return { kind: 'ofd', tryLock: fd => tryOfdLock(fd), unlock: () => {} }
}

/** A lease whose holder does not refresh it for this long is taken over: longer than any pause of an event loop should be. */
const STALE_MS = 60_000

/** Leases in `.spoold/locks`, where record locks cannot be trusted (NFS without lockd). A plain uWSGI does not see them. */
async function leaseLocker(spool: string): Promise<Locker> {
  const { lockSync, unlockSync } = await import('proper-lockfile')
  const locks = join(spool, STATE_DIRECTORY, 'locks')
  mkdirSync(locks, { recursive: true, mode: 0o700 })
  const options = (ref: Ref) => ({
    realpath: false,
    lockfilePath: join(locks, `${createHash('sha1').update(ref, 'latin1').digest('hex')}.lock`),
    stale: STALE_MS,
    update: STALE_MS / 6,
    onCompromised: (error: Error) => {
      throw new SpooldError('CLAIM_LOST', `the lease on ${ref} was lost: ${error.message}`, { cause: error })
    },
  })
  return {
    kind: 'lockfile',
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
  }
}

export async function openLocker(spool: string, kind: LockKind): Promise<Locker> {
  return kind === 'ofd' ? ofdLocker(await loadOfd()) : leaseLocker(spool)
}

/** Locks a descriptor that is no task (the pidfile): held until the process ends or closes it. */
export async function tryHold(fd: number): Promise<boolean> {
  return (await loadOfd())(fd)
}

import { closeSync, constants } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { crypto } from '../base/crypto.js'
import { messageOf, SpooldError } from '../base/errors.js'
import { openSync, unlinkSync } from '../files/anchored-path.js'
import { loadRecordLocks } from '../files/record-lock.js'
import { toByteString, toFsPath } from '../task/ref.js'
import type { LockChoice, LockKind } from './locker.js'
import { makeState } from './state-directory.js'

/** What the file system under a spool can be trusted with. */
interface Capabilities {
  readonly locks: LockKind
  /** Why it is not record locks, under `auto`. */
  readonly because?: string
}

/**
 * File systems on which the kernel of this machine alone decides about locks: ext2 to ext4, XFS, Btrfs, tmpfs,
 * overlayfs, F2FS, bcachefs, ZFS, VFAT, exFAT, NTFS (statfs f_type).
 */
const LOCKING = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0xf2f52010, 0xca451a4e, 0x2fc12fc1, 0x4d44,
  0x2011bab0, 0x7366746e,
])

/**
 * Finds out how tasks are claimed in a spool: by the kind of its file system, and where that is not known by files in
 * `.spoold`. Nothing is written in the first case: a full disk keeps nobody from running or removing tasks.
 *
 * @param choice `spooler-lock`; `auto` takes record locks where two descriptors exclude each other
 * @throws SpooldError LOCKS_UNUSABLE when `ofd` was asked for and does not work
 */
export async function probeSpool(spool: string, choice: LockChoice): Promise<Capabilities> {
  if (choice === 'lockfile') return { locks: 'lockfile' }
  const fault = await ofdFault(spool)
  if (fault === undefined) return { locks: 'ofd' }
  if (choice === 'auto') return { locks: 'lockfile', because: fault }
  throw new SpooldError(
    'LOCKS_UNUSABLE',
    `spooler-lock = ofd does not work in ${spool}: ${fault}. Use spooler-lock = lockfile there, or mount it with locking`,
  )
}

/** undefined when OFD locks work in this directory, else why they do not. */
async function ofdFault(spool: string): Promise<string | undefined> {
  try {
    const { tryLock } = loadRecordLocks()
    if (LOCKING.has((await statfs(spool)).type)) return undefined
    return exclusionFault(spool, tryLock)
  } catch (error) {
    return messageOf(error)
  }
}

const TRIES = 3

/** Who takes leases while others take record locks excludes nobody: so a doubt is no fault. */
function exclusionFault(spool: string, tryLock: (fd: number) => boolean): string | undefined {
  for (let n = 1; n <= TRIES; n++) {
    const files = openProbe(spool)
    if (files === undefined) return undefined
    try {
      if (!tryLock(files.first)) continue // a fresh file under a random name: a scanner of viruses, perhaps
      return tryLock(files.second) ? 'two holders get the same lock' : undefined
    } finally {
      files.close()
    }
  }
  return 'a fresh file is already locked'
}

interface ProbeFiles {
  readonly first: number
  readonly second: number
  close(): void
}

/** undefined when no file can be made, which says nothing about locks. */
function openProbe(spool: string): ProbeFiles | undefined {
  const name = `probe-${crypto().randomBytes(8).toString('hex')}`
  let first: number | undefined
  try {
    const path = toFsPath(`${makeState(toByteString(spool))}/${name}`)
    first = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600)
    const opened = { first, second: openSync(path, constants.O_RDWR) }
    const close = () => {
      closeSync(opened.second)
      closeSync(opened.first)
      unlinkSync(path)
    }
    return { ...opened, close }
  } catch {
    if (first !== undefined) closeSync(first)
    return undefined
  }
}

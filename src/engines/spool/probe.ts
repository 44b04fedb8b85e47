import { closeSync, constants } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { messageOf, quietly, SpooldError } from '../../base/errors.js'
import { crypto } from '../../base/on-demand.js'
import { toByteString, toFsPath } from '../../base/task/ref.js'
import { openSync, readFileSync, unlinkSync } from '../../system/files/anchored-path.js'
import { libc, libcFault } from '../../system/libc.js'
import type { LockChoice, LockKind } from './locker.js'
import { STATE_DIRECTORY } from './names.js'
import { neighboursOf } from './neighbours.js'
import { findState, makeState, writeWhole } from './state-directory.js'

/** The capabilities of a spool's file system. */
interface Capabilities {
  readonly locks: LockKind
  /** With `auto`: why record locks are not used. */
  readonly because?: string
}

/**
 * File systems whose locks are managed by this machine's kernel alone: ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS,
 * bcachefs, ZFS, VFAT, exFAT, NTFS (statfs f_type).
 */
const LOCKING = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0xf2f52010, 0xca451a4e, 0x2fc12fc1, 0x4d44,
  0x2011bab0, 0x7366746e,
])

/**
 * Determines how tasks in a spool are claimed: from the type of its file system or, for an unknown type, by a test with a
 * file in `.spoold`. For a known type nothing is written, so tasks can be run and removed even on a full disk.
 *
 * @param choice `spooler-lock`; `auto` uses record locks if two descriptors exclude each other
 * @throws SpooldError LOCKS_UNUSABLE if `ofd` was requested and does not work; or with `auto`, if record locks cannot be taken
 *   here, and somebody else claims by them
 */
export async function probeSpool(spool: string, choice: LockChoice): Promise<Capabilities> {
  if (choice === 'lockfile') return { locks: 'lockfile' }
  const fault = await ofdFault(spool)
  if (fault === undefined) return { locks: 'ofd' }
  if (choice === 'auto')
    return { locks: 'lockfile', because: libcFault() === undefined ? fault : refuseBesideLocks(spool, fault) }
  throw new SpooldError(
    'LOCKS_UNUSABLE',
    `spooler-lock = ofd does not work in ${spool}: ${fault}. Use spooler-lock = lockfile there, or mount it with locking`,
  )
}

/**
 * Refuses leases where tasks are claimed with record locks: where libc cannot be called, leases exclude only processes that
 * take leases, too.
 *
 * @returns why leases are used, for people
 * @throws SpooldError LOCKS_UNUSABLE
 */
function refuseBesideLocks(spool: string, fault: string): string {
  const noted = notedLocks(spool)
  const other = neighboursOf(toByteString(spool)).find(({ isUwsgi }) => isUwsgi || noted !== 'lockfile')
  if (noted === 'ofd' || other !== undefined) {
    const who =
      other === undefined ? `${STATE_DIRECTORY}/format says so` : `process ${other.pid}, ${other.command}`
    throw new SpooldError(
      'LOCKS_UNUSABLE',
      `the tasks in ${spool} are claimed with record locks (${who}), which cannot be taken here: ${fault}. Install koffi; or stop all that runs tasks there, and set spooler-lock = lockfile`,
    )
  }
  return `${fault}; no daemon may claim with record locks there, either`
}

/** Returns why OFD locks do not work in this directory; undefined if they do. */
async function ofdFault(spool: string): Promise<string | undefined> {
  try {
    const { tryLock } = libc()
    if (LOCKING.has((await statfs(spool)).type)) return undefined
    return exclusionFault(spool, tryLock)
  } catch (error) {
    return messageOf(error)
  }
}

const TRIES = 3

/**
 * Returns why two descriptors do not exclude each other; undefined if they do, or in doubt: record locks are then used, because
 * a process with leases and another with record locks would not exclude each other.
 */
function exclusionFault(spool: string, tryLock: (fd: number) => boolean): string | undefined {
  for (let n = 1; n <= TRIES; n++) {
    const files = openProbe(spool)
    if (files === undefined) return undefined
    try {
      if (!tryLock(files.first)) continue // a new file with a random name: perhaps a virus scanner has locked it
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

/** Opens a new file twice; undefined if no file can be created, which proves nothing about locks. */
function openProbe(spool: string): ProbeFiles | undefined {
  const name = `probe-${crypto().randomBytes(8).toString('hex')}`
  const path = quietly(() => toFsPath(`${makeState(toByteString(spool))}/${name}`))
  if (path === undefined) return undefined
  let first: number | undefined
  try {
    first = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600)
    const opened = { first, second: openSync(path, constants.O_RDWR) }
    const close = () => {
      closeSync(opened.second)
      closeSync(opened.first)
      unlinkSync(path)
    }
    return { ...opened, close }
  } catch {
    if (first !== undefined) {
      closeSync(first)
      quietly(() => unlinkSync(path))
    }
    return undefined
  }
}

/** The version of spoold's files in a spool. 1: spoold 0.1.0, which wrote no number; 2: see docs/spool-format.md. */
const FORMAT = 2
const LOCKS = /^locks (ofd|lockfile)$/

/**
 * Adds our format version to those already used in the spool, one per line, in `.spoold/format`, and says how its tasks are
 * claimed now. It is meant for people, for future versions, and for a process that cannot take record locks. A failed write
 * does not prevent tasks from running.
 *
 * @param spool its real path
 */
export function noteFormat(spool: string, locks: LockKind): void {
  try {
    const path = `${makeState(toByteString(spool))}/format`
    const seen = read(path)
    const others = seen.filter(line => !LOCKS.test(line) && line !== String(FORMAT))
    const noted = [...others, String(FORMAT), `locks ${locks}`]
    if (noted.every(line => seen.includes(line)) && noted.length === seen.length) return
    writeWhole(path, `${noted.join('\n')}\n`, { flush: false })
  } catch {}
}

/** Returns how the last daemon claimed tasks of the spool; undefined if that is not known. */
function notedLocks(spool: string): LockKind | undefined {
  const state = findState(toByteString(spool))
  const [, locks] =
    (state === undefined ? [] : read(`${state}/format`)).map(line => LOCKS.exec(line)).find(Boolean) ?? []
  return locks === 'ofd' || locks === 'lockfile' ? locks : undefined
}

function read(path: string): string[] {
  return quietly(() => readFileSync(toFsPath(path)), '')
    .split('\n')
    .filter(Boolean)
}

import { constants } from 'node:fs'
import { errnoOf, messageOf, quietly } from '../../../base/errors.js'
import { epochNowMs } from '../../../base/own-clock.js'
import { baseName, type Ref } from '../../../base/task/ref.js'
import type { ReportKind } from '../../../base/task/report.js'
import { MAX_PACKET_BYTES } from '../../../formats/protocol/header.js'
import { type FileStatus, shownBelow, systemError } from '../../../system/calls.js'
import { type Directory, named } from '../../../system/files/anchored-path.js'
import { isStillThere, mayHaveMoved } from '../../../system/files/exact-move.js'
import { systemCalls } from '../../../system/libc.js'
import type { TaskLock } from '../locker.js'
import type { TaskDirectories } from '../priority-directory.js'
import { dueAtMsOf, EAGER_BODY_BYTES, type LockedFile, packetIn, readBody } from '../spool-file.js'
import { ClaimedTask, type OpenFile } from './claimed-task.js'

/** Why a ref was not claimed. Nothing is locked any more. */
export interface Refusal {
  readonly kind: Extract<
    ReportKind,
    'gone' | 'locked' | 'later' | 'incomplete' | 'malformed' | 'unreadable' | 'set-aside' | 'untouched'
  >
  /** `later`: when the task is due. `incomplete`: when the file changed last. `malformed`: when its grace time ends. Epoch ms. */
  readonly atMs?: number
  readonly detail?: string
}

/** A file that cannot be a task, or not yet. */
export interface Unfit extends LockedFile {
  readonly kind: 'incomplete' | 'malformed'
  readonly detail: string
  /** When its bytes or its inode changed last, epoch ms. */
  readonly changedAtMs: number
}

/** Handles an unfit file while it is locked. */
export type HandleUnfit = (file: Unfit) => Refusal

// O_NONBLOCK: a FIFO under a task's name must not stop us. O_NOFOLLOW: a link must not lead us out of the spool.
const OPEN_FLAGS = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK
const scratch = Buffer.allocUnsafeSlow(MAX_PACKET_BYTES)

const GONE: Refusal = { kind: 'gone' }
const LOCKED: Refusal = { kind: 'locked' }

/**
 * Claims a task by the steps of spooler_manage_task (core/spooler.c): open, lock without waiting, check that the file was not
 * removed in between, read, decode, compare with the clock. Synchronous on purpose: it is several times faster than promises.
 */
export function claimFile(
  ref: Ref,
  directories: TaskDirectories,
  locker: TaskLock,
  nowMs: number,
  handleUnfit: HandleUnfit,
): ClaimedTask | Refusal {
  const openedAtMs = epochNowMs()
  const file = open(ref, directories)
  if ('kind' in file) return file
  let isLocked = false
  try {
    isLocked = locker.tryLock(file.fd, ref)
    const found = isLocked ? examine(file, nowMs, openedAtMs - locker.skewMs, locker.isRemote) : LOCKED
    if ('vars' in found) return found
    const refusal = 'fd' in found ? handleUnfit(found) : found
    letGo(file, locker, isLocked)
    return refusal
  } catch (error) {
    letGo(file, locker, isLocked)
    return refusalOf(named(error))
  }
}

/**
 * Returns the refusal if a task is for later by the mtime of its file, which is not opened. Where one task is for later, a
 * whole day's schedule may be.
 *
 * @returns undefined if a claim has to find out
 */
export function laterOf(ref: Ref, directories: TaskDirectories, nowMs: number): Refusal | undefined {
  let held: Directory | undefined
  try {
    held = directories.hold(ref)
    const status = systemCalls().statusAt(held.fd, baseName(ref))
    return status?.isFile === true ? laterBy(status, nowMs) : undefined
  } catch {
    return undefined
  } finally {
    held?.release()
  }
}

/** Returns the refusal if the mtime is later than now: strictly, as in uWSGI. */
function laterBy({ mtimeMs }: FileStatus, nowMs: number): Refusal | undefined {
  const dueAtMs = dueAtMsOf(mtimeMs)
  return dueAtMs > nowMs ? { kind: 'later', atMs: dueAtMs } : undefined
}

function open(ref: Ref, directories: TaskDirectories): OpenFile | Refusal {
  const name = baseName(ref)
  try {
    for (;;) {
      const held = directories.hold(ref)
      const fd = systemCalls().tryOpenat(held.fd, name, OPEN_FLAGS)
      if (fd >= 0)
        return {
          ref,
          fd,
          directory: held.fd,
          name,
          state: 0,
          held,
          spool: directories.shown,
          isNameless: false,
        }
      held.release()
      // if the spool was moved away, its tasks are gone; the directory in its place has others
      const isGone = fd === ENOENT
      if (isGone && directories.check()) continue
      return isGone ? GONE : refusalOfOpen(named(systemError(fd, 'open', shownBelow(held.fd, name))))
    }
  } catch (error) {
    return refusalOfOpen(error)
  }
}

/** The error number of a missing file, negated. */
export const ENOENT = -2

/** Ends the claim; the lock is released last. */
export function letGo({ ref, fd, held, isNameless }: OpenFile, locker: TaskLock, isLocked = true): void {
  if (isLocked) locker.unlock(ref)
  if (isNameless) closeLater(fd)
  else systemCalls().close(fd)
  held.release()
}

/**
 * The maximum number of descriptors of removed files that stay open: more would keep much memory, and many descriptors, from
 * others.
 */
const MOST_UNCLOSED = 16

/**
 * The open descriptors of removed files. One call closes a run of consecutive numbers, all of which are in this list. Most are
 * consecutive, because the kernel gives the lowest free number. Until then the files stay locked, which nobody sees, because no
 * name leads to them.
 */
const removed: number[] = []

function closeLater(fd: number): void {
  if (removed.push(fd) >= MOST_UNCLOSED) closeRemoved()
}

/** Closes the descriptors of removed files that are still open. */
export function closeRemoved(): void {
  if (removed.length === 0) return
  const fds = removed.splice(0).sort((a, b) => a - b)
  let [first = 0] = fds
  for (const [i, fd] of fds.entries())
    if (fds[i + 1] !== fd + 1) {
      systemCalls().closeRun(first, fd)
      first = fds[i + 1] ?? fd
    }
}

function refusalOfOpen(error: unknown): Refusal {
  switch (errnoOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EISDIR': // an event does not distinguish a priority directory from a task of that name
      return GONE
    case 'ELOOP':
      return { kind: 'unreadable', detail: 'it is a symbolic link' }
    case 'ENXIO':
      return { kind: 'unreadable', detail: 'it is a socket, a FIFO or a device' }
    default:
      return refusalOf(error)
  }
}

/** Errors of a process or machine that has run out of a resource: they say nothing about the file. */
const LIMITS = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOLCK'])

/** True if the process or the machine has run out of a resource. */
export function isShortage(error: unknown): boolean {
  return LIMITS.has(errnoOf(error) ?? '')
}

/**
 * Returns the refusal for an error: `untouched` if a resource has run out, so that nothing can be claimed here, `unreadable`
 * otherwise.
 */
function refusalOf(error: unknown): Refusal {
  if (errnoOf(error) === 'ESTALE') return GONE // another host has removed the file
  const isOurs = isShortage(error)
  const advice = errnoOf(error) === 'EACCES' ? '; run spoold fsck --repair as root' : ''
  return { kind: isOurs ? 'untouched' : 'unreadable', detail: messageOf(error) + advice }
}

type Found = ClaimedTask | Unfit | Refusal

/** @param sinceMs the earliest time at which the file was opened, by the clock of its file system */
function examine(file: OpenFile, nowMs: number, sinceMs: number, isRemote: boolean): Found {
  const { fd } = file
  const status = isRemote ? askedStatus(file) : systemCalls().status(fd)
  if (status === undefined || status.links === 0) return GONE // removed by its last runner between our open and our lock
  if (!status.isFile) return { kind: 'unreadable', detail: 'it is not a regular file' }
  if (mayHaveMoved(status, sinceMs) && !isStillThere(file, status)) return GONE // moved between our open and our lock
  const later = laterBy(status, nowMs)
  if (later !== undefined) return later
  const read = systemCalls().pread(fd, scratch, Math.min(status.size, MAX_PACKET_BYTES), 0)
  return decode(file, read, status, nowMs)
}

/**
 * Returns what the server says of the file. Over a network, fstat and lstat answer from memory for some seconds, also of a file
 * that its last runner has removed; an open asks the server. Closing the second descriptor costs no lock, because the locks
 * belong to the first.
 *
 * @returns undefined if the name is gone, or is that of another file
 */
function askedStatus({ fd, directory, name }: OpenFile): FileStatus | undefined {
  const again = systemCalls().tryOpenat(directory, name, OPEN_FLAGS)
  if (again === ENOENT) return undefined
  if (again < 0) throw systemError(again, 'open', shownBelow(directory, name))
  try {
    const status = systemCalls().status(again)
    return status.isSame(systemCalls().status(fd)) ? status : undefined
  } finally {
    systemCalls().close(again)
  }
}

/** @param read the number of bytes of the file in `scratch` */
function decode(file: OpenFile, read: number, status: FileStatus, nowMs: number): Found {
  const packet = packetIn(scratch, read)
  if ('kind' in packet) {
    const { ref, fd, directory, name } = file
    return { ...packet, ref, fd, directory, name, changedAtMs: Math.max(status.mtimeMs, status.ctimeMs) }
  }
  const dueAtMs = dueAtMsOf(status.mtimeMs, packet)
  if (dueAtMs > nowMs) return { kind: 'later', atMs: dueAtMs }
  file.state = packet.state
  const task = new ClaimedTask(file, status, packet, Math.max(dueAtMs, Math.min(status.mtimeMs, nowMs)))
  const { bodyBytes, bodyOffset } = task
  if (bodyBytes > 0 && bodyBytes <= EAGER_BODY_BYTES)
    task.body = smallBody(file.fd, bodyOffset, bodyBytes, read)
  return task
}

/** Returns a small body. One that cannot be read now is read again during the run, which then fails and counts. */
function smallBody(fd: number, offset: number, bytes: number, read: number): Buffer | undefined {
  if (offset + bytes <= read) return Buffer.from(scratch.subarray(offset, offset + bytes))
  return quietly(() => readBody(fd, offset, bytes))
}

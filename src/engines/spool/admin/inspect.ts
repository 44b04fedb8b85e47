import { accessSync, closeSync, constants, fstatSync, lstatSync, readSync, type Stats } from 'node:fs'
import { errnoOf, messageOf } from '../../../base/errors.js'
import { toFsPath } from '../../../base/task/ref.js'
import {
  HEADER_BYTES,
  MAX_PACKET_BYTES,
  modifier2Of,
  packetBytesOf,
} from '../../../formats/protocol/header.js'
import { lastValue, parseVars, type Vars } from '../../../formats/protocol/vars.js'
import { openSafely } from '../../../system/files/anchored-path.js'
import type { Locks } from '../../../system/files/lock-table.js'
import { dueAtMsOf, packetFault } from '../spool-file.js'
import { KICKED, ownState, STARTED } from '../state-byte.js'

/** The state of a file in a spool, as far as it can be determined without changing anything. */
export type FileState = 'due' | 'waiting' | 'running' | 'incomplete' | 'malformed' | 'unreadable' | 'gone'

export interface Inspection {
  readonly state: FileState
  readonly bytes: number
  /** Epoch ms. */
  readonly mtimeMs: number
  /** Epoch ms; the mtime if there is no packet. */
  readonly dueAtMs: number
  /** Epoch ms: the earliest of the file's times; undefined if none is known. */
  readonly sinceMs: number | undefined
  /** modifier2, our state byte; 0 if there is no packet. */
  readonly mark: number
  readonly vars: Vars | undefined
  readonly bodyOffset: number
  /** The reason, for states that have one. */
  readonly detail?: string
  /** A regular file that could not be read, so it may or may not be a task. */
  readonly isUnread?: true
  /** The process that holds its lock. */
  readonly pid?: number
  /** When the run began, epoch ms. Known only if spoold runs it. */
  readonly startedAtMs?: number
}

const buffer = Buffer.allocUnsafeSlow(MAX_PACKET_BYTES)

/**
 * Inspects a file without locking it: even a short lock could make a uWSGI skip the file for half a minute. The lock's
 * holder is looked up in `locks`.
 */
export function inspectFile(path: string, locks: Locks, nowMs: number): Inspection {
  let fd: number
  try {
    fd = openSafely(path, constants.O_RDONLY)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return nothing('gone', messageOf(error))
    const isLink = errnoOf(error) === 'ELOOP'
    return unreadable(path, isLink ? 'it is a symbolic link, which is never run' : messageOf(error))
  }
  try {
    return inspectOpen(fd, locks, nowMs)
  } catch (error) {
    return unreadable(path, messageOf(error))
  } finally {
    closeSync(fd)
  }
}

/** Why nobody can write there, whatever the rights: the file is immutable, or the file system is read-only. */
export function unwritable(path: string): string | undefined {
  try {
    accessSync(toFsPath(path), constants.W_OK)
  } catch (error) {
    if (['EPERM', 'EROFS'].includes(errnoOf(error) ?? '')) return messageOf(error).replace(/, access .*/, '')
  }
  return undefined
}

function nothing(state: FileState, detail: string): Inspection {
  return {
    state,
    bytes: 0,
    mtimeMs: 0,
    dueAtMs: 0,
    sinceMs: undefined,
    mark: 0,
    vars: undefined,
    bodyOffset: 0,
    detail,
  }
}

/** The facts that lstat knows about an unreadable file. */
function unreadable(path: string, detail: string): Inspection {
  const none = nothing('unreadable', detail)
  try {
    const stats = lstatSync(toFsPath(path))
    const { size: bytes, mtimeMs } = stats
    const isUnread = stats.isFile() ? { isUnread: true as const } : {}
    return { ...none, ...isUnread, bytes, mtimeMs, dueAtMs: mtimeMs, sinceMs: sinceMsOf(stats) }
  } catch {
    return none
  }
}

/** Ignores times of 0: file systems without a birth time report it as 0. */
function sinceMsOf({ birthtimeMs, mtimeMs, ctimeMs }: Stats): number | undefined {
  const known = [birthtimeMs, mtimeMs, ctimeMs].filter(ms => ms > 0)
  return known.length === 0 ? undefined : Math.min(...known)
}

function inspectOpen(fd: number, locks: Locks, nowMs: number): Inspection {
  const stats = fstatSync(fd)
  if (!stats.isFile())
    return {
      ...nothing('unreadable', 'it is not a regular file, so it is never run'),
      sinceMs: sinceMsOf(stats),
    }
  const { size: bytes, mtimeMs, ctimeMs, dev, ino } = stats
  const read = readSync(fd, buffer, 0, Math.min(bytes, MAX_PACKET_BYTES), 0)
  const isHeld = locks.isHeld(dev, ino)
  const pid = isHeld ? locks.pidOf(dev, ino) : undefined
  const known = { bytes, mtimeMs, sinceMs: sinceMsOf(stats), ...(pid === undefined ? {} : { pid }) }
  const bare = { ...known, dueAtMs: mtimeMs, mark: 0, vars: undefined, bodyOffset: 0 }
  const fail = (state: FileState, detail: string): Inspection => ({
    ...bare,
    state: isHeld ? 'running' : state,
    detail,
  })
  const fault = packetFault(buffer, read)
  if (fault !== undefined) return fail(fault.kind, fault.detail)
  const bodyOffset = packetBytesOf(buffer)
  const vars = parseVars(buffer.toString('latin1', 0, bodyOffset), HEADER_BYTES, bodyOffset)
  if ('fault' in vars) return fail('malformed', vars.fault)
  const mark = modifier2Of(buffer)
  const isKicked = (ownState(mark) & KICKED) !== 0
  const dueAtMs = dueAtMsOf(mtimeMs, isKicked ? undefined : lastValue(vars, 'at'))
  const state = isHeld ? 'running' : dueAtMs > nowMs ? 'waiting' : 'due'
  // the byte is written when the run starts, and nothing else in the file changes during it
  const startedAtMs = isHeld && (ownState(mark) & STARTED) !== 0 ? { startedAtMs: ctimeMs } : {}
  return { ...known, ...startedAtMs, state, dueAtMs, mark, vars, bodyOffset }
}

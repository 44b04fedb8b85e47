import { futimesSync, readSync } from 'node:fs'
import { counted } from '../../base/counted.js'
import { errnoOf, SpooldError } from '../../base/errors.js'
import type { Ref } from '../../base/task/ref.js'
import { isPlainNumber, LAST_SECOND } from '../../base/time-text.js'
import {
  blockBytesOf,
  HEADER_BYTES,
  modifier1Of,
  modifier2Of,
  packetBytesOf,
  SPOOL_MODIFIER,
} from '../../formats/protocol/header.js'
import { lastValue, parseVars, type Vars } from '../../formats/protocol/vars.js'
import type { Place } from '../../system/files/anchored-path.js'
import { systemCalls } from '../../system/libc.js'
import { KICKED, ownState } from './state-byte.js'

/** Bodies of at most this size are read with the packet; larger ones when the handler asks for them. */
export const EAGER_BODY_BYTES = 1024 * 1024

/** A file that this process has open and locked. */
export interface LockedFile extends Place {
  readonly ref: Ref
  readonly fd: number
  /** modifier2 when the file was locked (spool/state-byte); undefined if there is no packet. */
  readonly state?: number
}

/** What a spool file begins with. */
export interface SpoolPacket {
  readonly vars: Vars
  /** modifier2 as our mark (spool/state-byte). */
  readonly state: number
  /** Where the packet ends. */
  readonly bodyOffset: number
}

/** Why a file does not begin with a spool packet. */
export interface PacketFault {
  readonly kind: 'incomplete' | 'malformed'
  readonly detail: string
}

/** @param bytes the beginning of a file @param read the number of valid bytes */
export function packetIn(bytes: Buffer, read: number): SpoolPacket | PacketFault {
  if (read < HEADER_BYTES)
    return { kind: 'incomplete', detail: `it has ${read} of the header's ${HEADER_BYTES} bytes` }
  const modifier1 = modifier1Of(bytes)
  if (modifier1 !== SPOOL_MODIFIER)
    return { kind: 'malformed', detail: `modifier1 is ${modifier1}, expected ${SPOOL_MODIFIER}` }
  const bodyOffset = packetBytesOf(bytes)
  if (read < bodyOffset) {
    const there = counted(read - HEADER_BYTES, 'is', 'are')
    const detail = `its header announces ${counted(blockBytesOf(bytes), 'byte')}, ${there} there`
    return { kind: 'incomplete', detail }
  }
  const vars = parseVars(bytes.toString('latin1', 0, bodyOffset), HEADER_BYTES, bodyOffset)
  if ('fault' in vars) return { kind: 'malformed', detail: vars.fault }
  return { vars, state: ownState(modifier2Of(bytes)), bodyOffset }
}

const header = Buffer.alloc(HEADER_BYTES)

/** Returns modifier2 of a file, which holds our mark; undefined if the file does not begin with a spool packet. */
export function packetState(fd: number): number | undefined {
  const read = systemCalls().pread(fd, header, HEADER_BYTES, 0)
  if (read < HEADER_BYTES || modifier1Of(header) !== SPOOL_MODIFIER) return undefined
  return ownState(modifier2Of(header))
}

/**
 * Reads a body of any size that fits into a Buffer.
 *
 * @throws SpooldError PACKET_MALFORMED if the file has become shorter since it was claimed
 */
export function readBody(fd: number, offset: number, bytes: number): Buffer {
  const body = Buffer.allocUnsafe(bytes)
  let filled = 0
  while (filled < bytes) {
    // one read(2) returns at most 2 GiB
    const got = readSync(fd, body, filled, Math.min(bytes - filled, 2 ** 30), offset + filled)
    if (got === 0)
      throw new SpooldError(
        'PACKET_MALFORMED',
        `the body ends after ${filled} of ${counted(bytes, 'byte')}: the file was cut while it ran`,
      )
    filled += got
  }
  return body
}

/** Sets the mtime (and the atime, which has no meaning here). @returns false if only the file's owner may do that */
export function setTime(fd: number, mtimeMs: number): boolean {
  try {
    futimesSync(fd, mtimeMs / 1000, mtimeMs / 1000)
    return true
  } catch (error) {
    if (errnoOf(error) !== 'EPERM') throw error
    return false
  }
}

/**
 * Returns when a task is due, epoch ms: the later of the file's mtime, in whole seconds as in uWSGI, and the packet's `at`,
 * because enqueuers in other languages rarely set the mtime. The `at` is ignored if it is not a plain number, or if the task
 * was kicked, and says the end of the year 9999 if it says a later time: enough digits are an infinite number.
 *
 * @param packet if undefined, the mtime alone decides
 */
export function dueAtMsOf(mtimeMs: number, packet?: Pick<SpoolPacket, 'vars' | 'state'>): number {
  const mtimeDueMs = Math.floor(mtimeMs / 1000) * 1000
  const at = packet === undefined || (packet.state & KICKED) !== 0 ? undefined : lastValue(packet.vars, 'at')
  if (at === undefined || !isPlainNumber(at)) return mtimeDueMs
  return Math.max(mtimeDueMs, Math.min(Number(at), LAST_SECOND) * 1000)
}

/** The mtime of a held task: the year 2400 (ext4, XFS, tmpfs) or, failing that, the end of 32-bit time in 2038. */
export const HELD_UNTIL_MS = [Date.UTC(2400, 0, 1), (2 ** 31 - 1) * 1000]

/** If a held task's record could not be written, its mtime is this plus the original mtime. */
const HELD_FROM_MS = Date.UTC(2300, 0, 1)

export function heldTimeFor(mtimeMs: number): number {
  return HELD_FROM_MS + mtimeMs
}

/** True if this is when a held task is due: nobody else's is, unless somebody wants it to run after the year 2300. */
export function isHeldUntil(dueAtMs: number): boolean {
  return HELD_UNTIL_MS.includes(dueAtMs) || heldMtimeOf(dueAtMs) !== undefined
}

/** Returns the original mtime of a task held without a record; undefined if the task is not held that way. */
export function heldMtimeOf(mtimeMs: number): number | undefined {
  const [recordedMs = 0] = HELD_UNTIL_MS
  return mtimeMs >= HELD_FROM_MS && mtimeMs < recordedMs ? mtimeMs - HELD_FROM_MS : undefined
}

import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs'
import { errnoOf, messageOf } from '../base/errors.js'
import { HEADER_BYTES, MAX_PACKET_BYTES, MODIFIER2_OFFSET, SPOOL_MODIFIER } from '../protocol/packet.js'
import { lastValue, parseVars, type Vars } from '../protocol/vars.js'
import { toFsPath } from '../task/ref.js'
import { dueAtMsOf } from './claim.js'

/** What a file in a spool is, as far as can be told without touching it. */
export type FileState = 'due' | 'waiting' | 'running' | 'incomplete' | 'malformed' | 'unreadable' | 'gone'

export interface Inspection {
  readonly state: FileState
  readonly bytes: number
  /** Epoch ms. */
  readonly mtimeMs: number
  /** Epoch ms; mtime's when there is no packet. */
  readonly dueAtMs: number
  /** modifier2, our state byte; 0 when there is no packet. */
  readonly mark: number
  readonly vars: Vars | undefined
  readonly bodyOffset: number
  /** Why, for the states that have one. */
  readonly detail?: string
}

const buffer = Buffer.allocUnsafeSlow(MAX_PACKET_BYTES)

/**
 * Looks at one file without locking it: a lock held for a moment would make a uWSGI skip the file for half a minute.
 * Who holds a lock is read from `locks`.
 */
export function inspectFile(path: string, locks: Locks, nowMs: number): Inspection {
  let fd: number
  try {
    fd = openSync(toFsPath(path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (errnoOf(error) === 'ELOOP') return nothing('unreadable', 'it is a symbolic link, which is never run')
    return nothing(errnoOf(error) === 'ENOENT' ? 'gone' : 'unreadable', messageOf(error))
  }
  try {
    return inspectOpen(fd, locks, nowMs)
  } catch (error) {
    return nothing('unreadable', messageOf(error))
  } finally {
    closeSync(fd)
  }
}

function nothing(state: FileState, detail: string): Inspection {
  return { state, bytes: 0, mtimeMs: 0, dueAtMs: 0, mark: 0, vars: undefined, bodyOffset: 0, detail }
}

function inspectOpen(fd: number, locks: Locks, nowMs: number): Inspection {
  const stats = fstatSync(fd)
  if (!stats.isFile()) return nothing('unreadable', 'it is no regular file, which is never run')
  const { size: bytes, mtimeMs, dev, ino } = stats
  const read = readSync(fd, buffer, 0, Math.min(bytes, MAX_PACKET_BYTES), 0)
  const isHeld = locks.isHeld(dev, ino)
  const bare = { bytes, mtimeMs, dueAtMs: mtimeMs, mark: 0, vars: undefined, bodyOffset: 0 }
  const fail = (state: FileState, detail: string): Inspection => ({
    ...bare,
    state: isHeld ? 'running' : state,
    detail,
  })
  if (read < HEADER_BYTES) return fail('incomplete', `${read} of the header's ${HEADER_BYTES} bytes`)
  if (buffer[0] !== SPOOL_MODIFIER)
    return fail('malformed', `modifier1 is ${buffer[0]}, expected ${SPOOL_MODIFIER}`)
  const bodyOffset = HEADER_BYTES + buffer.readUInt16LE(1)
  if (read < bodyOffset)
    return fail('incomplete', `${read - HEADER_BYTES} of the block's ${bodyOffset - HEADER_BYTES} bytes`)
  const vars = parseVars(buffer.toString('latin1', 0, bodyOffset), HEADER_BYTES, bodyOffset)
  if ('fault' in vars) return fail('malformed', vars.fault)
  const dueAtMs = dueAtMsOf(mtimeMs, lastValue(vars, 'at'))
  const state = isHeld ? 'running' : dueAtMs > nowMs ? 'waiting' : 'due'
  return { state, bytes, mtimeMs, dueAtMs, mark: buffer[MODIFIER2_OFFSET] ?? 0, vars, bodyOffset }
}

/** Who holds record locks, of either kind, by device and inode. */
export interface Locks {
  isHeld(device: number, inode: number): boolean
}

/** Reads /proc/locks, which is a Linux file; elsewhere nothing seems to be held. */
export function readLocks(): Locks {
  const held = new Set<string>()
  try {
    for (const line of readFileSync('/proc/locks', 'utf8').split('\n')) {
      // "1: OFDLCK ADVISORY  WRITE -1 00:1b:3405 0 EOF"; waiters begin with "1: ->"
      const [, device] =
        /^\d+: (?:POSIX|OFDLCK)\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+:[0-9a-f]+:\d+)/.exec(line) ?? []
      if (device !== undefined) held.add(device)
    }
  } catch {}
  return { isHeld: (device, inode) => held.has(`${hex(major(device))}:${hex(minor(device))}:${inode}`) }
}

const hex = (number: number) => number.toString(16).padStart(2, '0')
/** The bits of a Linux dev_t, as glibc's major() and minor() take them apart. */
const major = (device: number) => (device >>> 8) & 0xfff
const minor = (device: number) => (device & 0xff) | ((device >>> 12) & 0xfff00)

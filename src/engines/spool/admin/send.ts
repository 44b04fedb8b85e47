import { randomUUID } from 'node:crypto'
import { readSync } from 'node:fs'
import { baseName, prefixOf } from '../../../base/task/ref.js'
import {
  HEADER_BYTES,
  MAX_PACKET_BYTES,
  MODIFIER2_OFFSET,
  packetBytesOf,
} from '../../../formats/protocol/header.js'
import { lastValue, parseVars } from '../../../formats/protocol/vars.js'
import { createdAtMicros } from '../names.js'
import { isCounted, Records, type TaskRecord } from '../records.js'
import { dueAtMsOf, packetFault } from '../spool-file.js'
import { KICKED, type Past, pastOf } from '../state-byte.js'
import { type Changed, type OpenSpool, refused, type TargetFile } from './change.js'
import { heldMtimeOf } from './held-time.js'
import { hold, isWorthKeeping, NO_PACKET, recordOf, restoreTime, withoutTimes } from './hold.js'
import { type Journey, type Parcel, type UnfinishedRun, whyNoJourney } from './parcel.js'

const PIECE_BYTES = 1024 * 1024

/** A task that is held for a move. */
interface Sent {
  readonly key: string
  readonly parcel: Parcel
  /** Nothing of it is in the other spool: it is again as it was before. */
  takeBack(): void
}

/**
 * Holds a task, with a note of where it goes, so that no daemon runs it from now on: not even if this process dies, and
 * nobody knows whether the task has arrived. What an earlier move has begun is gone on with.
 *
 * @param file stays locked until the move is over
 */
export function send(from: OpenSpool, file: TargetFile, to: string): Sent | Changed {
  if (file.state === undefined) return NO_PACKET
  const packet = readPacket(file.fd)
  if (typeof packet === 'string') return refused(`${packet}: nothing could run it`)
  const records = new Records(from.spool)
  const before = recordOf(records, file)
  const past = pastOf(file.state)
  const refusal = whyNot(past, before) ?? whyNoWay(before, to)
  if (refusal !== undefined) return refused(refusal)
  if (before?.moveKey === undefined) {
    const wasHeld = before?.heldMtime !== undefined || heldMtimeOf(file.stats.mtimeMs) !== undefined
    const note = { movedTo: to, moveKey: randomUUID(), movedAt: Date.now(), wasHeld }
    const held = hold(from, file, note)
    if (held.kind !== 'done') return held
  }
  const record = records.read(file.ref)
  const { moveKey, heldMtime, wasHeld = false } = record ?? {}
  if (record === undefined || moveKey === undefined || heldMtime === undefined)
    return refused('its record cannot be read')
  const held = { ...record, heldMtime }
  return {
    key: moveKey,
    parcel: parcelOf(file, packet, { ...held, wasHeld }, past),
    takeBack: () => takeBack(from, file, held),
  }
}

/** Why a task cannot go anywhere, whatever the other spool is. */
export function whyNot(past: Past, record: TaskRecord | undefined): string | undefined {
  if (past === 'done') return 'it has run, and only waits to be removed'
  if (past === 'to-bury' || record?.burial !== undefined) return 'it has failed, and only waits to be buried'
  return undefined
}

/** Why a journey that has begun does not end there; undefined: it does, or none has begun. */
export function whyNoWay(record: TaskRecord | undefined, to: string): string | undefined {
  if (record?.movedTo === undefined) return undefined
  const { movedTo, moveKey: key = '', movedAt: since = 0, wasHeld = false } = record
  return whyNoJourney({ to: movedTo, key, since, wasHeld } satisfies Journey, to)
}

function takeBack(
  from: OpenSpool,
  file: TargetFile,
  record: TaskRecord & { readonly heldMtime: number },
): void {
  if (record.wasHeld !== true) return restoreTime(from, file, record)
  const { movedTo: _to, moveKey: _key, movedAt: _at, wasHeld: _was, ...rest } = record
  new Records(from.spool).write(file.ref, rest)
}

function parcelOf(
  { ref, fd, stats, state = 0 }: TargetFile,
  { packet, at }: Packet,
  record: TaskRecord & { readonly heldMtime: number; readonly wasHeld: boolean },
  past: Past,
): Parcel {
  const { heldMtime: mtimeMs, wasHeld: isHeld } = record
  const failures = withoutTimes(record)
  const created = (createdAtMicros(ref) ?? Number.NaN) / 1000
  const [priority = ''] = prefixOf(ref).split('/')
  return {
    ...{ packet, isHeld, bodyBytes: stats.size - packet.length },
    body: () => pieces(fd, packet.length, stats.size),
    priority: /^[0-9]+$/.test(priority) ? priority : undefined,
    dueAtMs: dueAtMsOf(mtimeMs, (state & KICKED) === 0 ? at : undefined),
    arrivedAtMs: created <= Date.now() ? created : undefined,
    past: isCounted(record, mtimeMs) ? 'none' : unfinished(past),
    record: isWorthKeeping(failures) ? failures : undefined,
    file: { name: baseName(ref), mode: stats.mode & 0o7777, mtimeMs },
  }
}

function unfinished(past: Past): UnfinishedRun {
  return past === 'died-alone' || past === 'died-beside' || past === 'died-once' ? past : 'none'
}

interface Packet {
  readonly packet: Buffer
  /** Its key `at`. */
  readonly at: string | undefined
}

/** @returns why it is none */
function readPacket(fd: number): Packet | string {
  const bytes = Buffer.alloc(MAX_PACKET_BYTES)
  const read = readSync(fd, bytes, 0, MAX_PACKET_BYTES, 0)
  const fault = packetFault(bytes, read)
  if (fault !== undefined) return fault.detail
  const packet = Buffer.from(bytes.subarray(0, packetBytesOf(bytes)))
  packet[MODIFIER2_OFFSET] = 0
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  return 'fault' in vars ? vars.fault : { packet, at: lastValue(vars, 'at') }
}

function* pieces(fd: number, from: number, to: number): Generator<Buffer> {
  for (let at = from; at < to; ) {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, to - at))
    const got = readSync(fd, piece, 0, piece.length, at)
    if (got === 0) throw new Error(`its body ends after ${at - from} of ${to - from} bytes`)
    yield piece.subarray(0, got)
    at += got
  }
}

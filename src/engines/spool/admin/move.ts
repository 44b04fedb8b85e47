import { randomUUID } from 'node:crypto'
import { fchmodSync, fstatSync, readSync } from 'node:fs'
import { counted } from '../../../base/counted.js'
import { errnoOf, messageOf } from '../../../base/errors.js'
import { Queue } from '../../../base/queue.js'
import { baseName, displayName, prefixOf, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import { MAX_PACKET_BYTES, MODIFIER2_OFFSET } from '../../../formats/protocol/header.js'
import { lstatSync, unlinkSync } from '../../../system/files/anchored-path.js'
import { syncData, syncDirectory } from '../../../system/files/disk-sync.js'
import type { Past as UnfinishedRun } from '../../contracts/verdict.js'
import { createdAtMicros, createTaskName, isUwsgiName } from '../names.js'
import { isCounted, Records, type TaskRecord } from '../records.js'
import {
  dueAtMsOf,
  heldMtimeOf,
  type PacketFault,
  packetIn,
  type SpoolPacket,
  setTime,
} from '../spool-file.js'
import { KICKED, type Past, pastOf, RECORDED, STATES, writeState } from '../state-byte.js'
import { Draft, findId, idLink, idsDirectory, publishPromised } from '../store/draft.js'
import { bring, type Changed, forget, type OpenSpool, refused, type TargetFile } from './change.js'
import {
  hold,
  isWorthKeeping,
  NO_PACKET,
  recordOf,
  restoreTime,
  withoutJourney,
  withoutTimes,
} from './hold.js'

/** A task on its way to another spool, as it was before it set out. */
export interface Parcel {
  /** With modifier2 as uWSGI writes it. */
  readonly packet: Buffer
  readonly bodyBytes: number
  /** Yields the body in pieces. @throws why it cannot be read */
  body(): Iterable<Buffer>
  /** Digits; undefined if the task has none. */
  readonly priority: string | undefined
  /** Epoch ms. */
  readonly dueAtMs: number
  /** Epoch ms; undefined if nothing says when the task arrived. */
  readonly arrivedAtMs: number | undefined
  /** True if people hold the task. */
  readonly isHeld: boolean
  /** The mark that the task's last run left, if that run never ended. */
  readonly past: UnfinishedRun
  /** Undefined if the task has not failed. */
  readonly record: FailureRecord | undefined
  /** The name, mode and mtime of the task's file, if it comes from a directory. */
  readonly file?: { readonly name: string; readonly mode: number; readonly mtimeMs: number }
}

type FailureRecord = Omit<TaskRecord, 'heldMtime' | 'movedTo' | 'moveKey' | 'movedAt' | 'wasHeld'>

/** `refused`: nothing of the task is in the other spool. */
export type Received =
  | { readonly kind: 'received'; readonly ref: Ref }
  | { readonly kind: 'refused'; readonly detail: string }

/** A task that is held for a move. */
interface Sent {
  /** The key by which the other spool recognizes the task: of two tasks with the same key, it stores one. */
  readonly key: string
  readonly parcel: Parcel
  /** Makes the task what it was before. For a move that left nothing in the other spool. */
  takeBack(): void
}

/**
 * Holds a task, with a note of where it goes, so that no daemon runs it from now on, even if this process dies and nobody
 * knows whether the task has arrived. A move that was begun earlier is continued.
 *
 * @param file stays locked until the move is over
 */
export function send(from: OpenSpool, file: TargetFile, to: string): Sent | Changed {
  if (file.state === undefined) return NO_PACKET
  const packet = readPacket(file.fd)
  if ('kind' in packet) return refused(`${packet.detail}: nothing could run it`)
  const records = new Records(from.spool)
  const before = recordOf(records, file)
  const past = pastOf(file.state)
  const refusal = whyNot(past, before, to)
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

function takeBack(
  from: OpenSpool,
  file: TargetFile,
  record: TaskRecord & { readonly heldMtime: number },
): void {
  if (record.wasHeld !== true) return restoreTime(from, file, record)
  new Records(from.spool).write(file.ref, withoutJourney(record))
}

function parcelOf(
  { ref, fd, stats }: TargetFile,
  read: ReadPacket,
  record: TaskRecord & { readonly heldMtime: number; readonly wasHeld: boolean },
  past: Past,
): Parcel {
  const { packet } = read
  const { heldMtime: mtimeMs, wasHeld: isHeld } = record
  const failures = withoutTimes(record)
  const created = (createdAtMicros(ref) ?? Number.NaN) / 1000
  const [priority = ''] = prefixOf(ref).split('/')
  return {
    ...{ packet, isHeld, bodyBytes: stats.size - packet.length },
    body: () => pieces(fd, packet.length, stats.size),
    priority: /^[0-9]+$/.test(priority) ? priority : undefined,
    dueAtMs: dueAtMsOf(mtimeMs, read),
    arrivedAtMs: created <= Date.now() ? created : undefined,
    past: isCounted(record, mtimeMs) ? 'none' : unfinished(past),
    record: isWorthKeeping(failures) ? failures : undefined,
    file: { name: baseName(ref), mode: stats.mode & 0o7777, mtimeMs },
  }
}

function unfinished(past: Past): UnfinishedRun {
  return past === 'died-alone' || past === 'died-beside' || past === 'died-once' ? past : 'none'
}

interface ReadPacket extends SpoolPacket {
  /** With modifier2 as uWSGI writes it. */
  readonly packet: Buffer
}

function readPacket(fd: number): ReadPacket | PacketFault {
  const bytes = Buffer.alloc(MAX_PACKET_BYTES)
  const found = packetIn(bytes, readSync(fd, bytes, 0, MAX_PACKET_BYTES, 0))
  if ('kind' in found) return found
  const packet = Buffer.from(bytes.subarray(0, found.bodyOffset))
  packet[MODIFIER2_OFFSET] = 0
  return { ...found, packet }
}

const PIECE_BYTES = 1024 * 1024

function* pieces(fd: number, from: number, to: number): Generator<Buffer> {
  for (let at = from; at < to; ) {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, to - at))
    const got = readSync(fd, piece, 0, piece.length, at)
    if (got === 0) throw new Error(`its body ends after ${at - from} of ${counted(to - from, 'byte')}`)
    yield piece.subarray(0, got)
    at += got
  }
}

const STRICT = { ordered: false, strictNames: true }

/**
 * Stores a task of another spool, once per key. The key is a promise, as an id is: first the whole task is on disk under a
 * hidden name, then the key leads to it, then it gets its name. If a process dies in between, the next one that brings the
 * task continues from there.
 *
 * @throws the error that leaves it unknown whether the task is there
 */
export async function receive(to: OpenSpool, parcel: Parcel, key: string): Promise<Received> {
  const { spool } = to
  const known = findId(spool, key)
  if (known !== undefined) return published(spool, known)
  let draft: Draft | undefined
  let ref: Ref
  try {
    draft = openDraft(spool, parcel)
    write(to, draft, parcel)
    await syncData(draft.fd)
    if (draft.isDirectoryNew) await syncDirectory(spool)
    await syncDirectory(draft.heldDirectory)
    draft.renew()
    ref = draft.promise(key)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return { kind: 'refused', detail: `${displayName(spool)}: ${messageOf(error)}` }
  } finally {
    draft?.end()
  }
  return published(spool, ref)
}

async function published(spool: string, ref: Ref): Promise<Received> {
  await syncDirectory(idsDirectory(spool))
  publishPromised(spool, ref)
  await syncDirectory(`${spool}/${prefixOf(ref)}`.replace(/\/$/, ''))
  return { kind: 'received', ref }
}

/** Opens the draft under the task's own name if that is free, and one that no program uses twice; else under a new name. */
function openDraft(spool: string, { file, priority, arrivedAtMs = Date.now() }: Parcel): Draft {
  const place = priority === undefined ? {} : { priority }
  const fresh = () =>
    new Draft(spool, { ...place, name: displayName(createTaskName(Math.round(arrivedAtMs * 1000))) })
  if (file === undefined || !isUwsgiName(file.name, STRICT)) return fresh()
  const ref = priority === undefined ? file.name : `${priority}/${file.name}`
  const name = displayName(file.name)
  if (toByteString(name) !== file.name || lstatSync(toFsPath(`${spool}/${ref}`)) !== undefined) return fresh()
  try {
    return new Draft(spool, { ...place, name })
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST' && errnoOf(error) !== 'ENAMETOOLONG') throw error
    return fresh()
  }
}

/** Writes the task as it was: packet, body, mark, record, mode and time, and held if it was held. */
function write(to: OpenSpool, draft: Draft, parcel: Parcel): void {
  const { packet, record, past, file, isHeld } = parcel
  const { fd, ref } = draft
  draft.append(packet)
  for (const piece of parcel.body()) draft.append(piece)
  const [mark = 0] = STATES.find(([, each]) => each === past) ?? []
  const state = mark | (record === undefined ? 0 : RECORDED) | (isBeforeAt(parcel) ? KICKED : 0)
  if (state !== 0) writeState(fd, state)
  if (record === undefined) new Records(to.spool).remove(ref)
  else new Records(to.spool).write(ref, record)
  if (file !== undefined) fchmodSync(fd, file.mode)
  setTime(fd, mtimeOf(parcel))
  if (!isHeld) return
  const held = hold(to, { ref, fd, directory: -1, name: '', stats: fstatSync(fd), state })
  if (held.kind === 'refused') throw Object.assign(new Error(held.detail), { code: 'EINVAL' })
}

/** True if the task's packet names a later time, which no longer holds. */
function isBeforeAt({ packet, dueAtMs }: Parcel): boolean {
  const found = packetIn(packet, packet.length)
  return !('kind' in found) && dueAtMsOf(0, found) > dueAtMs
}

/**
 * Returns the mtime for the task's file. Whole seconds count there, so a time to come is rounded up: the task must not run
 * too early.
 */
function mtimeOf({ file, dueAtMs }: Parcel): number {
  if (file !== undefined) return file.mtimeMs
  return dueAtMs > Date.now() ? Math.ceil(dueAtMs / 1000) * 1000 : dueAtMs
}

/**
 * How long a key outlives its move: another process may have found the task where it came from, shortly before it was
 * removed there, and be about to bring it, too.
 */
const FORGET_AFTER_MS = 60_000

/** Keys of moves that are over. A key is forgotten after a while, when a later one is added; the last keys expire as ids do. */
export class OldKeys {
  readonly #spool: string
  readonly #keys = new Queue<{ readonly key: string; readonly atMs: number }>()

  constructor(spool: string) {
    this.#spool = spool
  }

  add(key: string): void {
    const now = performance.now()
    this.#keys.push({ key, atMs: now + FORGET_AFTER_MS })
    for (let next = this.#keys.peek(); next !== undefined && next.atMs < now; next = this.#keys.peek()) {
      this.#keys.pop()
      try {
        unlinkSync(idLink(this.#spool, next.key))
      } catch {} // it expires as ids do
    }
  }
}

/**
 * Moves a task to another spool on the same file system by a rename, with its time, state byte and record. The task stays
 * locked until it has arrived.
 *
 * After a kill before the rename, the task is in the source (and an empty file or a record, which no daemon runs, in the
 * target); after it, in the target (and its record in the source, where fsck finds it).
 *
 * @returns undefined if the file systems are different, or if a move in steps has begun
 */
export function rename(from: OpenSpool, to: OpenSpool, file: TargetFile): Changed | undefined {
  const record = recordOf(new Records(from.spool), file)
  const refusal = whyNot(pastOf(file.state ?? 0), record, displayName(to.spool))
  if (refusal !== undefined) return refused(refusal)
  if (record?.movedTo !== undefined) return undefined
  try {
    const ref = bring(to, file, file.ref, record)
    forget(from, file.ref)
    return { kind: 'done', to: ref }
  } catch (error) {
    if (errnoOf(error) !== 'EXDEV') throw error
    return undefined
  }
}

/** Returns why a task cannot go to that spool; undefined if it can, or if a journey that was begun ends there. */
function whyNot(past: Past, record: TaskRecord | undefined, to: string): string | undefined {
  if (past === 'done') return 'it has run, and only waits to be removed'
  if (past === 'to-bury' || record?.burial !== undefined) return 'it has failed, and only waits to be buried'
  return whyNoJourney(record, to)
}

/**
 * How long after the beginning of a move whoever ends it can know whether the task has arrived: shorter than either engine
 * remembers keys. @see spooler-id-ttl
 */
const KNOWN_FOR_MS = 86_400_000

/**
 * Returns why a task whose journey has begun cannot go to `wanted`; undefined if going there ends the journey, or if none
 * has begun. The spool of a task that is held for a journey notes the journey first, so that whoever ends the move knows
 * what was begun.
 */
export function whyNoJourney(
  record: Pick<TaskRecord, 'movedTo' | 'movedAt'> | undefined,
  wanted: string,
): string | undefined {
  const { movedTo: to, movedAt = 0 } = record ?? {}
  if (to === undefined) return undefined
  if (to !== wanted) return `a move to ${to} did not end: move it there again, which ends that`
  if (Date.now() - movedAt < KNOWN_FOR_MS) return undefined
  return `a move to ${to} did not end, more than a day ago: it may be there, or have run; then rm it here, else kick it`
}

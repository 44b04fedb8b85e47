import { fchmodSync, fstatSync } from 'node:fs'
import { errnoOf, messageOf } from '../../../base/errors.js'
import { Queue } from '../../../base/queue.js'
import { displayName, prefixOf, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import { HEADER_BYTES } from '../../../formats/protocol/header.js'
import { lastValue, parseVars } from '../../../formats/protocol/vars.js'
import { lstatSync, unlinkSync } from '../../../system/files/anchored-path.js'
import { syncData, syncDirectory } from '../../../system/files/disk-sync.js'
import { createTaskName, isUwsgiName } from '../names.js'
import { Records } from '../records.js'
import { dueAtMsOf, setTime } from '../spool-file.js'
import { KICKED, RECORDED, STATES, writeState } from '../state-byte.js'
import { Draft } from '../store/draft.js'
import { findId, idLink, idsDirectory, publishPromised, takeId } from '../store/ids.js'
import type { OpenSpool } from './change.js'
import { hold } from './hold.js'
import type { Parcel, Received } from './parcel.js'

const STRICT = { ordered: false, strictNames: true }

/**
 * Stores a task that another spool has, once per key. It is a promise as that of an id: first the whole task is on disk under a
 * hidden name, then the key leads to it, then it gets its name. Whoever comes after a death in between goes on from there.
 *
 * @throws why it cannot be known whether it is there
 */
export async function receive(to: OpenSpool, parcel: Parcel, key: string): Promise<Received> {
  const { spool } = to
  const known = findId(spool, key)
  if (known !== undefined) return published(spool, known)
  let draft: Draft | undefined
  let ref: Ref | undefined
  try {
    draft = openDraft(spool, parcel)
    write(to, draft, parcel)
    await syncData(draft.fd)
    if (draft.isDirectoryNew) await syncDirectory(spool)
    await syncDirectory(draft.directory)
    ref = takeId(spool, key, draft.ref)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return { kind: 'refused', detail: `${displayName(spool)}: ${messageOf(error)}` }
  } finally {
    if (ref !== draft?.ref) draft?.discard(false)
    draft?.end()
  }
  return published(spool, ref)
}

/** Somebody else may be about to bring the same task, who found it where it came from just before it was removed there. */
const FORGET_AFTER_MS = 60_000

/** Keys that nobody asks for any more. They are forgotten later, while more follow; the last ones go with time. */
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
      forget(idLink(this.#spool, next.key))
      this.#keys.pop()
    }
  }
}

function forget(link: string): void {
  try {
    unlinkSync(link)
  } catch {} // it goes with time
}

async function published(spool: string, ref: Ref): Promise<Received> {
  await syncDirectory(idsDirectory(spool))
  publishPromised(spool, ref)
  await syncDirectory(`${spool}/${prefixOf(ref)}`.replace(/\/$/, ''))
  return { kind: 'received', ref }
}

/** Under its own name, if that is one that no program uses twice. */
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

/** As it was: packet, body, mark, record, mode and time, and held if it was. */
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
  const stats = fstatSync(fd)
  const held = hold(to, { ref, fd, directory: -1, name: '', stats, inode: stats.ino, state })
  if (held.kind === 'refused') throw Object.assign(new Error(held.detail), { code: 'EINVAL' })
}

/** Its packet says a later time, which no longer holds. */
function isBeforeAt({ packet, dueAtMs }: Parcel): boolean {
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  const at = 'fault' in vars ? undefined : lastValue(vars, 'at')
  return dueAtMsOf(0, at) > dueAtMs
}

/** In a file whole seconds count: it is not to run too early. */
function mtimeOf({ file, dueAtMs }: Parcel): number {
  if (file !== undefined) return file.mtimeMs
  return dueAtMs > Date.now() ? Math.ceil(dueAtMs / 1000) * 1000 : dueAtMs
}

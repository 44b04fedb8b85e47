import { fstatSync } from 'node:fs'
import type { Ref } from '../../task/ref.js'
import { ownRecord, Records, type TaskRecord } from '../records.js'
import { setTime } from '../spool-file.js'
import { KICKED, RECORDED, writeState } from '../state-byte.js'
import { type Changed, DONE, type LockedFile, type OpenSpool, refused } from './change.js'
import { HELD_UNTIL_MS, heldMtimeOf, heldTimeFor } from './held-time.js'

const DAY_MS = 86_400_000
const NO_PACKET = refused('it is not a spool packet')

/**
 * Keeps a task from being run until it is released or kicked: its record says so to us, its mtime to a plain uWSGI.
 *
 * The record comes first, because to write the state byte makes the mtime now. After a kill behind the record the task
 * is as it was; behind the byte it is held, but a plain uWSGI would run it, and `hold` again fixes that.
 */
export function hold(
  { spool }: OpenSpool,
  file: LockedFile,
  note: Pick<TaskRecord, 'movedTo'> = {},
): Changed {
  const { ref, fd, stats, state } = file
  if (state === undefined) return NO_PACKET
  if (!isOwner(stats.uid)) return refused(`only its owner, uid ${stats.uid}, can hold it`)
  const records = new Records(spool)
  const before = recordOf(records, file)
  const heldMtime = before?.heldMtime ?? heldMtimeOf(stats.mtimeMs) ?? timeOf(file, before)
  const [nextRunAt = 0] = HELD_UNTIL_MS
  // whatever the mtime says
  const times = { heldMtime, nextRunAt, isTimeUnset: true }
  try {
    records.write(ref, { attempts: 0, crashes: 0, ...before, ...note, ...times })
  } catch (error) {
    if (note.movedTo === undefined && holdByTime(file, heldMtime)) return DONE
    throw error
  }
  if ((state & RECORDED) === 0) writeState(fd, state | RECORDED)
  if (HELD_UNTIL_MS.some(untilMs => reaches(file, untilMs))) return DONE
  setTime(fd, stats.mtimeMs)
  if (before === undefined) records.remove(ref)
  else records.write(ref, before)
  return refused('its file system takes no time that is far enough')
}

/** A file system that cannot count so far takes its last time, or any other. */
function reaches({ fd }: LockedFile, untilMs: number): boolean {
  setTime(fd, untilMs)
  return fstatSync(fd).mtimeMs > Date.now() + DAY_MS
}

/** Without a record, for which the disk has no room. */
function holdByTime({ fd, stats }: LockedFile, heldMtime: number): boolean {
  setTime(fd, heldTimeFor(heldMtime))
  const isHeld = heldMtimeOf(fstatSync(fd).mtimeMs) !== undefined
  if (!isHeld) setTime(fd, stats.mtimeMs)
  return isHeld
}

/**
 * Lets a held task run at the time at which it would have run.
 *
 * The mtime comes first: after a kill behind it the task is still held, and can be released again. A record stays, even
 * one that tells of no failure: to clear the bit that announces it would make the mtime now.
 */
export function release({ spool }: OpenSpool, file: LockedFile): Changed {
  const records = new Records(spool)
  const record = recordOf(records, file)
  const { heldMtime, movedTo } = record ?? {}
  const bareMtime = heldMtimeOf(file.stats.mtimeMs)
  if (bareMtime !== undefined && heldMtime === undefined) {
    setTime(file.fd, bareMtime)
    return DONE
  }
  if (record === undefined || heldMtime === undefined) return refused('it is not held')
  if (movedTo !== undefined)
    return refused(
      `it is held because a move to ${movedTo} did not end: it may be there, or have run; then rm it here, else kick it`,
    )
  const isSet = setTime(file.fd, heldMtime)
  const unset = isSet ? {} : { isTimeUnset: true }
  records.write(file.ref, { ...withoutTimes(record), nextRunAt: heldMtime, ...unset })
  return DONE
}

/**
 * Lets a task run now, whatever its mtime, its `at` and its record say.
 *
 * The byte comes first: to write it makes the mtime now, also where only the file's owner may set it. After a kill behind
 * it a held task is still held, and any other is kicked.
 */
export function kick({ spool }: OpenSpool, file: LockedFile): Changed {
  if (file.state === undefined) return NO_PACKET
  const nowMs = Date.now()
  const records = new Records(spool)
  const record = recordOf(records, file)
  const rest = record === undefined ? undefined : withoutTimes(record)
  const isKept = rest !== undefined && isWorthKeeping(rest)
  writeState(file.fd, (file.state & ~RECORDED) | KICKED | (isKept ? RECORDED : 0))
  setTime(file.fd, nowMs) // by our clock, which a server's may be ahead of
  if (!isKept || !hasWritten(records, file.ref, rest)) records.remove(file.ref) // also another's of that name: from now on it would count
  return DONE
}

/** Where there is no room for it, the count is lost, and the task runs. */
function hasWritten(records: Records, ref: Ref, record: TaskRecord): boolean {
  try {
    records.write(ref, record)
    return true
  } catch {
    return false
  }
}

/** As a claim sees it. */
export function recordOf(records: Records, { ref, state = 0, stats }: LockedFile): TaskRecord | undefined {
  return state === 0 ? undefined : ownRecord(records.read(ref), { state, mtimeMs: stats.mtimeMs })
}

/** What it waits for. */
function timeOf({ stats }: LockedFile, record: TaskRecord | undefined): number {
  return record?.isTimeUnset === true ? (record.nextRunAt ?? stats.mtimeMs) : stats.mtimeMs
}

function withoutTimes(record: TaskRecord): TaskRecord {
  const { heldMtime: _held, movedTo: _moved, nextRunAt: _next, isTimeUnset: _unset, ...rest } = record
  return rest
}

function isWorthKeeping({ attempts, crashes, ...more }: TaskRecord): boolean {
  return attempts > 0 || crashes > 0 || Object.keys(more).length > 0
}

function isOwner(uid: number): boolean {
  const me = process.geteuid?.()
  return me === uid || me === 0
}

import { fstatSync } from 'node:fs'
import type { Ref } from '../../../base/task/ref.js'
import { Records, type TaskRecord } from '../records.js'
import { HELD_UNTIL_MS, heldMtimeOf, heldTimeFor, setTime } from '../spool-file.js'
import { KICKED, RECORDED, writeState } from '../state-byte.js'
import { type Changed, DONE, type OpenSpool, refused, type TargetFile } from './change.js'

const DAY_MS = 86_400_000
/** The note of a move in a task's record. @see whyNoJourney */
type MoveNote = Pick<TaskRecord, 'movedTo' | 'moveKey' | 'movedAt' | 'wasHeld'>
export const NO_PACKET = refused('it is not a spool packet')

/**
 * Keeps a task from running until it is released or kicked. spoold sees that from the record, a plain uWSGI from the mtime.
 *
 * The record is written first, because writing the state byte sets the mtime to now. A kill after the record leaves the
 * task unchanged. A kill after the byte leaves it held, but a plain uWSGI would run it; another `hold` fixes that.
 */
export function hold({ spool }: OpenSpool, file: TargetFile, note: MoveNote = {}): Changed {
  const { ref, fd, stats, state } = file
  if (state === undefined) return NO_PACKET
  if (!isOwner(stats.uid)) return refused(`only its owner, uid ${stats.uid}, can hold it`)
  const records = new Records(spool)
  const before = recordOf(records, file)
  const heldMtime = before?.heldMtime ?? heldMtimeOf(stats.mtimeMs) ?? timeOf(file, before)
  const [nextRunAt = 0] = HELD_UNTIL_MS
  // with `isTimeUnset`, `nextRunAt` takes precedence over the mtime
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

/** Sets the mtime and checks it: a file system with a smaller range stores its last time, or an arbitrary one. */
function reaches({ fd }: TargetFile, untilMs: number): boolean {
  setTime(fd, untilMs)
  return fstatSync(fd).mtimeMs > Date.now() + DAY_MS
}

/** Holds a task by its mtime alone, if the disk has no space for the record. */
function holdByTime({ fd, stats }: TargetFile, heldMtime: number): boolean {
  setTime(fd, heldTimeFor(heldMtime))
  const isHeld = heldMtimeOf(fstatSync(fd).mtimeMs) !== undefined
  if (!isHeld) setTime(fd, stats.mtimeMs)
  return isHeld
}

/**
 * Lets a held task run at its original time.
 *
 * The mtime is set first: after a kill at that point the task is still held, and can be released again. The record stays,
 * even without any failure: clearing the bit that announces it would set the mtime to now.
 */
export function release({ spool }: OpenSpool, file: TargetFile): Changed {
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
      `it is held because a move to ${movedTo} did not end: move it there again, which ends that; or, if it has not arrived, kick it`,
    )
  restoreTime({ spool }, file, { ...record, heldMtime })
  return DONE
}

/** Ends a hold: the task gets the time that it had before. */
export function restoreTime(
  { spool }: Pick<OpenSpool, 'spool'>,
  { ref, fd }: TargetFile,
  record: TaskRecord & { readonly heldMtime: number },
): void {
  const isSet = setTime(fd, record.heldMtime)
  const unset = isSet ? {} : { isTimeUnset: true }
  new Records(spool).write(ref, { ...withoutTimes(record), nextRunAt: record.heldMtime, ...unset })
}

/**
 * Lets a task run now, regardless of its mtime, `at` and record.
 *
 * The byte is written first: that sets the mtime to now, even if only the file's owner may set it explicitly. After a kill
 * at that point, a held task is still held; any other is kicked.
 */
export function kick({ spool }: OpenSpool, file: TargetFile): Changed {
  if (file.state === undefined) return NO_PACKET
  const nowMs = Date.now()
  const records = new Records(spool)
  const record = recordOf(records, file)
  const rest = record === undefined ? undefined : withoutTimes(record)
  const isKept = rest !== undefined && isWorthKeeping(rest)
  writeState(file.fd, (file.state & ~RECORDED) | KICKED | (isKept ? RECORDED : 0))
  setTime(file.fd, nowMs) // on our clock: that of a file server may be ahead
  // this also removes a stale record of that name, which might now count as this file's
  if (!isKept || !hasWritten(records, file.ref, rest)) records.remove(file.ref)
  return DONE
}

/** Returns false if the disk has no room for the record: then its counts are lost, and the task runs. */
function hasWritten(records: Records, ref: Ref, record: TaskRecord): boolean {
  try {
    records.write(ref, record)
    return true
  } catch {
    return false
  }
}

/** The task's record, as a claim would read it. */
export function recordOf(records: Records, { ref, state = 0, stats }: TargetFile): TaskRecord | undefined {
  return records.of(ref, state, stats.mtimeMs)
}

/** The time that the task waits for; epoch ms. */
function timeOf({ stats }: TargetFile, record: TaskRecord | undefined): number {
  return record?.isTimeUnset === true ? (record.nextRunAt ?? stats.mtimeMs) : stats.mtimeMs
}

/** Returns what is left of the record of a task that gets another time and stays in its spool. */
export function withoutTimes(record: TaskRecord): TaskRecord {
  const { heldMtime: _held, nextRunAt: _next, isTimeUnset: _unset, ...rest } = record
  return withoutJourney(rest)
}

export function withoutJourney(record: TaskRecord): TaskRecord {
  const { movedTo: _to, moveKey: _key, movedAt: _at, wasHeld: _was, ...rest } = record
  return rest
}

export function isWorthKeeping({ attempts, crashes, ...more }: TaskRecord): boolean {
  return attempts > 0 || crashes > 0 || Object.keys(more).length > 0
}

function isOwner(uid: number): boolean {
  const me = process.geteuid?.()
  return me === uid || me === 0
}

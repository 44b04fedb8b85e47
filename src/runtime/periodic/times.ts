import type { PeriodicEntry, PeriodicTask, Rhythm } from '../../base/task/schedule.js'
import { openCron } from '../schedule/cron.js'

/** Now, on both clocks. */
export interface Moment {
  readonly epochMs: number
  /** From `machineNowMs`, a clock that cannot be set and starts over with the machine. */
  readonly machineMs: number
  /** The id of the start of the machine that `machineMs` counts from. */
  readonly boot: string
}

/**
 * A time that passed longer ago than this, in ms, has been missed. A shorter delay is that of a busy machine, or of a restart.
 */
const LATE_MS = 60_000
/** If the clock is set back by less than this, in ms, no cron time repeats. By more, it was wrong before, and all starts over. */
const REPEAT_MS = 3_600_000

/**
 * Returns the entry of a task that is registered now, or whose time has come. The next run is one period, or one cron time, away.
 */
export function entryFrom(
  { name, when }: Pick<PeriodicTask, 'name' | 'when'>,
  { epochMs, machineMs, boot }: Moment,
): PeriodicEntry {
  if (!('everyMs' in when))
    return { name, when, sinceMs: epochMs, nextMs: nextCron(when, epochMs) ?? Number.MAX_SAFE_INTEGER }
  const { everyMs } = when
  const machine = { boot, nextMs: Math.round(machineMs + everyMs) }
  return { name, when, sinceMs: epochMs, nextMs: Math.round(epochMs + everyMs), machine }
}

/** Returns the ms until the time of the entry; 0 or less once it has come. */
export function leftMs(entry: PeriodicEntry, now: Moment): number {
  const byEpoch = entry.nextMs - now.epochMs
  if (!('everyMs' in entry.when)) return byEpoch
  return machineLeftMs(entry, now) ?? Math.min(byEpoch, entry.when.everyMs)
}

/** True if the clock was set back so far that the entry's times mean nothing any more, and the task has to start over. */
export function isAstray(entry: PeriodicEntry, now: Moment): boolean {
  const { when, sinceMs, nextMs } = entry
  if (!('everyMs' in when)) return now.epochMs < sinceMs - REPEAT_MS
  return machineLeftMs(entry, now) === undefined && nextMs > now.epochMs + when.everyMs
}

/** Returns the ms left by the clock that cannot be set; undefined if the machine was started again, or is another one by now. */
function machineLeftMs({ when, machine }: PeriodicEntry, now: Moment): number | undefined {
  if (machine === undefined || machine.boot !== now.boot || !('everyMs' in when)) return undefined
  const left = machine.nextMs - now.machineMs
  return left > when.everyMs + 1 ? undefined : left
}

/** True if the time of the entry has been missed, because no daemon was there. */
export function isMissed(entry: PeriodicEntry, now: Moment): boolean {
  const { when } = entry
  return -leftMs(entry, now) > ('everyMs' in when ? Math.min(LATE_MS, when.everyMs) : LATE_MS)
}

/** Returns the next cron time, epoch ms; undefined if there is none. @throws SpooldError SCHEDULE_INVALID */
function nextCron({ expression, zone }: Exclude<Rhythm, { everyMs: number }>, epochMs: number) {
  return openCron(expression, zone).next(epochMs)
}

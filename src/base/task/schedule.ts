import { crypto } from '../crypto.js'
import type { PeriodicTask } from './periodic.js'

/** uWSGI's signals: a byte that any code can raise, and that a function registered for it handles. */
export const MAX_SIGNAL = 255

/** What raises a signal automatically. Equal schedules are one, whoever asks for them. */
export type Schedule = Timer | CronTimes | CronCommand | FileMonitor

export type SignalSchedule = Exclude<Schedule, CronCommand>

export interface Timer {
  readonly kind: 'timer'
  readonly number: number
  readonly everyMs: number
  /** How many times it fires; 0 means no limit. */
  readonly iterations: number
}

export interface CronTimes {
  readonly kind: 'cron'
  readonly number: number
  /** uWSGI's five numbers or an ordinary cron expression; runtime/schedule/cron.ts understands both. */
  readonly expression: string
  /** The IANA name of the time zone; null means the daemon's. */
  readonly zone: string | null
}

/** A cron schedule that runs a command. */
export interface CronCommand {
  readonly kind: 'command'
  readonly command: string
  readonly expression: string
  readonly zone: string | null
  /** Skip it while its previous run continues. */
  readonly isUnique: boolean
  /** Kill it after this long; 0 means never. */
  readonly harakiriMs: number
}

export interface FileMonitor {
  /** Any change to it or, if it is a directory, to its entries; or a touch in the sense of uWSGI's touch-* options. */
  readonly kind: 'monitor' | 'touch'
  readonly number: number
  readonly path: string
}

/**
 * What code has done to its interpreter where uWSGI's master would have loaded it, so that crons and their commands would have it, too. Null: it
 * left that as it was.
 */
export interface LoadedProcess {
  readonly kind: 'process'
  readonly directory: string | null
  readonly umask: number | null
  /** Variables that it set; null: that it removed. */
  readonly environment: ReadonlyArray<readonly [name: string, value: string | null]>
}

/** What a worker reports to the master about signals; and, once it is ready, of periodic tasks. */
export type SignalNews =
  | LoadedProcess
  | PeriodicTask
  | { readonly kind: 'handler'; readonly number: number; readonly target: string }
  | { readonly kind: 'raise'; readonly number: number }
  | SignalSchedule

export function scheduleKey(schedule: Schedule): string {
  return JSON.stringify(Object.values(schedule))
}

/** What tells a schedule from all others of its spool, over restarts: a hash, in hex. Of a periodic task, its rhythm is no part of it. */
export function scheduleHash(schedule: Schedule | PeriodicTask): string {
  return hashOf(schedule.kind === 'periodic' ? schedule.name : scheduleKey(schedule))
}

/** What people call a schedule that has no name. @param key its `scheduleKey`; a timer with an end has one of its own */
export function scheduleId(key: string): string {
  return hashOf(key).slice(0, 12)
}

function hashOf(text: string): string {
  return crypto().createHash('sha256').update(text).digest('hex')
}

/**
 * What a spool remembers of schedules that people have paused. Any number of daemons read it, and none of them fires what is paused.
 */
export interface SchedulePauses {
  /** Since when, epoch ms, by `scheduleHash`. */
  read(): ReadonlyMap<string, number> | Promise<ReadonlyMap<string, number>>
  /** It survives power loss, when this resolves. One that is paused already stays as it is. @throws why it cannot be remembered */
  pause(hash: string): Promise<void>
  /** @returns false if it was not paused */
  resume(hash: string): Promise<boolean>
}

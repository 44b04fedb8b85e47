import { hasFields } from '../json-guard.js'
import { crypto } from '../on-demand.js'

/** uWSGI's signals: a byte that any code can raise, and that a function registered for it handles. */
export const MAX_SIGNAL = 255

/**
 * A timer, a time or a change that raises a signal automatically, or runs a command. Equal schedules are one, whoever asks
 * for them.
 */
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
  /**
   * `monitor`: any change to the file or, in a directory, to its entries. `touch`: a touch in the sense of uWSGI's touch-*
   * options.
   */
  readonly kind: 'monitor' | 'touch'
  readonly number: number
  readonly path: string
}

/**
 * The changes that code has made to its interpreter, if uWSGI's master would have loaded that code: in uWSGI, crons and
 * their commands would have the same. Null: the code left that as it was.
 */
export interface LoadedProcess {
  readonly kind: 'process'
  readonly directory: string | null
  readonly umask: number | null
  /** Variables that the code set; null: it removed the variable. */
  readonly environment: ReadonlyArray<readonly [name: string, value: string | null]>
}

/** A worker's report to the master about signals; and, once the worker is ready, about periodic tasks. */
export type SignalNews =
  | LoadedProcess
  | PeriodicTask
  | { readonly kind: 'handler'; readonly number: number; readonly target: string }
  | { readonly kind: 'raise'; readonly number: number }
  | SignalSchedule

export function scheduleKey(schedule: Schedule): string {
  return JSON.stringify(Object.values(schedule))
}

/**
 * Returns a hash, in hex, that tells a schedule from all others of its spool, over restarts. The rhythm of a periodic task
 * is no part of it.
 */
export function scheduleHash(schedule: Schedule | PeriodicTask): string {
  return hashOf(schedule.kind === 'periodic' ? schedule.name : scheduleKey(schedule))
}

/**
 * Returns what people call a schedule that has no name.
 *
 * @param key its `scheduleKey`; a timer with an end has a key of its own
 */
export function scheduleId(key: string): string {
  return hashOf(key).slice(0, 12)
}

function hashOf(text: string): string {
  return crypto().createHash('sha256').update(text).digest('hex')
}

/**
 * A spool's memory of schedules that people have paused. Any number of daemons read it, and none of them fires a schedule
 * that is paused.
 */
export interface SchedulePauses {
  /** Returns since when each schedule is paused, epoch ms, by its `scheduleHash`. */
  read(): ReadonlyMap<string, number> | Promise<ReadonlyMap<string, number>>
  /**
   * Pauses a schedule. The pause survives power loss once this resolves. A schedule that is paused already stays as it is.
   *
   * @throws why the pause cannot be remembered
   */
  pause(hash: string): Promise<void>
  /** @returns false if the schedule was not paused */
  resume(hash: string): Promise<boolean>
}

/** An exclusive right of one process, such as the right to fire schedules. It has to be renewed. */
export interface Lease {
  /** Epoch ms. No other process gets the lease before then. */
  readonly validUntilMs: number
  /**
   * True if the lease was taken over from a dead holder. Another process may have done the same, so ownership is certain only
   * after the first renewal.
   */
  readonly isTakenOver: boolean
  release(): Promise<void>
}

/** Events of a lease while it is held. */
export interface LeaseListener {
  /** Aborted when the caller no longer waits for the lease. */
  readonly givenUp?: AbortSignal
  /** The lease could not be renewed: another process may have it. */
  lost(): void
  renewed(): void
}

/** How often a task is scheduled, or when. */
export type Rhythm =
  | { readonly everyMs: number }
  /** A cron expression. `zone`: an IANA name; null: the daemon's. */
  | { readonly expression: string; readonly zone: string | null }

/** A named task that the daemon schedules by itself, again and again. Plain JSON: workers declare it to the master. */
export interface PeriodicTask {
  readonly kind: 'periodic'
  readonly name: string
  readonly queue: string
  readonly when: Rhythm
  /** How the times at which no daemon ran are made up for: by one run for all of them, or not at all. */
  readonly missed: 'one' | 'skip'
  /** True if the task is scheduled again although its last run has not ended; but not before that run has begun. */
  readonly overlap: boolean
}

/** A spool's memory of one periodic task. Times are epoch ms. */
export interface PeriodicEntry {
  readonly name: string
  readonly when: Rhythm
  /** When the task was scheduled last or, before the first time, registered. */
  readonly sinceMs: number
  readonly nextMs: number
  /** For a period: `nextMs` on the clock that cannot be set, which is valid until the machine is started again. */
  readonly machine?: { readonly boot: string; readonly nextMs: number }
  /** The task that was stored last, or that a daemon was about to store when it wrote this. */
  readonly task?: string
}

/** A plain value where an engine has one. */
type Maybe<T> = T | Promise<T>

/** An entry, and how often it was replaced. */
export interface PeriodicState {
  readonly version: number
  /** Undefined if it is damaged. */
  readonly entry: PeriodicEntry | undefined
}

/**
 * A spool's memory of periodic tasks. Any number of daemons read it. Of those that want to replace the same version of an
 * entry, one succeeds, and that one stores the task. Every method throws, or rejects with, why it cannot.
 */
export interface PeriodicStates {
  /** The clock that daemons on several machines share, as of the last `read`; epoch ms. Absent: that of this machine. */
  nowMs?(): number
  /** Returns the latest entries, by key. @param givenUp aborted when the caller no longer waits @throws also because of that */
  read(givenUp?: AbortSignal): Maybe<ReadonlyMap<string, PeriodicState>>
  keyOf(name: string): string
  /** Returns a name for a task to be stored, which no other task of this spool has had. */
  newTask(): string
  /**
   * Replaces the version `from` of an entry, 0 if there is none, by `from + 1`.
   *
   * @param isLasting true if the entry must survive power loss once this resolves
   * @returns false if somebody else was faster; then nothing has changed
   */
  advance(entry: PeriodicEntry, from: number, isLasting: boolean): Promise<boolean>
  /** Forgets an entry, unless it is newer than this version. */
  forget(key: string, version: number): Maybe<void>
  /**
   * Returns what became of a task in this spool. `gone`: it is no longer there. `waiting`: it waits for a run, perhaps
   * another one. `begun`: it runs.
   */
  fateOf(task: string): Maybe<'gone' | 'waiting' | 'begun'>
}

export function isSameRhythm(a: Rhythm, b: Rhythm): boolean {
  if ('everyMs' in a || 'everyMs' in b) return 'everyMs' in a && 'everyMs' in b && a.everyMs === b.everyMs
  return a.expression === b.expression && a.zone === b.zone
}

const OPTIONAL = { machine: 'object', task: 'text' } as const

/** True if a value parsed from JSON is an entry. */
export function isPeriodicEntry(value: unknown): value is PeriodicEntry {
  if (!hasFields(value, { name: 'text', when: 'object', sinceMs: 'time', nextMs: 'time' }, OPTIONAL))
    return false
  const { when, machine, task } = value as PeriodicEntry
  const isRhythm =
    hasFields(when, { everyMs: 'time' }, {}) ||
    (hasFields(when, { expression: 'text' }, {}) && 'zone' in when && isTextOrNull(when.zone))
  const isMachine = machine === undefined || hasFields(machine, { boot: 'text', nextMs: 'time' }, {})
  return isRhythm && isMachine && (task === undefined || /^[^/]+$/.test(task))
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string'
}

interface ScheduleText {
  /** The thing that is scheduled: `signal 1`, `task clear-sessions`. */
  readonly what: string
  /** `every 60 s` */
  readonly when: string
}

/** Describes a schedule for people. @param zone the time zone that applies if the schedule names none; null: it is not shown */
export function scheduleText(schedule: Schedule | PeriodicTask, zone: string | null = null): ScheduleText {
  switch (schedule.kind) {
    case 'periodic': {
      const { name, when } = schedule
      return {
        what: `task ${name}`,
        when: 'everyMs' in when ? everyText(when.everyMs) : cronText(when, zone),
      }
    }
    case 'timer':
      return { what: `signal ${schedule.number}`, when: everyText(schedule.everyMs) }
    case 'cron':
      return { what: `signal ${schedule.number}`, when: cronText(schedule, zone) }
    case 'command':
      return { what: `command ${schedule.command}`, when: cronText(schedule, zone) }
    case 'monitor':
    case 'touch':
      return { what: `signal ${schedule.number}`, when: `when ${schedule.path} changes` }
  }
}

function everyText(ms: number): string {
  return `every ${ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`}`
}

function cronText(
  { expression, zone }: { expression: string; zone: string | null },
  otherwise: string | null,
): string {
  const shown = zone ?? otherwise
  return shown === null ? expression : `${expression} (${shown})`
}

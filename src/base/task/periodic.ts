import { hasFields } from '../json-guard.js'

/** How often, or when. */
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
  /** What becomes of the times at which no daemon ran: one run makes up for all of them, or none does. */
  readonly missed: 'one' | 'skip'
  /** It is scheduled again although its last run has not ended; but not before that has begun. */
  readonly overlap: boolean
}

/** What a spool remembers of a periodic task. Times are epoch ms. */
export interface PeriodicEntry {
  readonly name: string
  readonly when: Rhythm
  /** When it was scheduled last or, before that, registered. */
  readonly sinceMs: number
  readonly nextMs: number
  /** Of a period: the same on the clock that cannot be set, which is valid until the machine is started again. */
  readonly machine?: { readonly boot: string; readonly nextMs: number }
  /** The task that was stored last, or that a daemon was about to store when it wrote this. */
  readonly task?: string
}

/** A plain value where an engine has one. */
type Maybe<T> = T | Promise<T>

/** An entry, and how often it was replaced. */
export interface PeriodicState {
  readonly version: number
  /** Undefined: it is damaged. */
  readonly entry: PeriodicEntry | undefined
}

/**
 * What a spool remembers of periodic tasks. Any number of daemons read it, and of those that want to replace the same version of
 * an entry one does: it stores the task. Every method throws, or rejects with, why it cannot.
 */
export interface PeriodicStates {
  /** The clock that daemons on several machines share, as of the last `read`; epoch ms. Absent: that of this machine. */
  nowMs?(): number
  /** The latest entries, by key. */
  read(): Maybe<ReadonlyMap<string, PeriodicState>>
  keyOf(name: string): string
  /** A name for a task to be stored, which no other task of this spool has had. */
  newTask(): string
  /**
   * Replaces the version `from` of an entry, 0 if there is none, by `from + 1`.
   *
   * @param isLasting it survives power loss, when this resolves
   * @returns false if somebody else was faster; nothing has changed then
   */
  advance(entry: PeriodicEntry, from: number, isLasting: boolean): Promise<boolean>
  /** Forgets an entry, unless it is newer than this version. */
  forget(key: string, version: number): Maybe<void>
  /** What became of a task in this spool: it is there no more; it waits for a run, maybe another one; or runs. */
  fateOf(task: string): Maybe<'gone' | 'waiting' | 'begun'>
}

export function isSameRhythm(a: Rhythm, b: Rhythm): boolean {
  if ('everyMs' in a || 'everyMs' in b) return 'everyMs' in a && 'everyMs' in b && a.everyMs === b.everyMs
  return a.expression === b.expression && a.zone === b.zone
}

const OPTIONAL = { machine: 'object', task: 'text' } as const

/** True for what JSON made of an entry. */
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

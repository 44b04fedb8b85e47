/** uWSGI's signals: a byte, raised by anybody, handled by a function that was registered for it. */
export const MAX_SIGNAL = 255

/** What raises a signal by itself. Two that are equal are one, whoever asks for them. */
export type Schedule = Timer | CronTimes | CronCommand | FileMonitor

export type SignalSchedule = Exclude<Schedule, CronCommand>

export interface Timer {
  readonly kind: 'timer'
  readonly number: number
  readonly everyMs: number
  /** How often it fires; 0: for ever. */
  readonly iterations: number
}

export interface CronTimes {
  readonly kind: 'cron'
  readonly number: number
  /** uWSGI's five numbers or an ordinary cron expression; schedule/cron.ts understands both. */
  readonly expression: string
  /** IANA's name of the time zone; null: the daemon's. */
  readonly zone: string | null
}

/** By the calendar, too, but it runs a command. */
export interface CronCommand {
  readonly kind: 'command'
  readonly command: string
  readonly expression: string
  readonly zone: string | null
  /** It is left out while its last run goes on. */
  readonly isUnique: boolean
  /** It is killed after this long; 0: never. */
  readonly harakiriMs: number
}

export interface FileMonitor {
  /** Anything that happens to it and, when it is a directory, to its entries; or a touch as uWSGI's touch-* mean it. */
  readonly kind: 'monitor' | 'touch'
  readonly number: number
  readonly path: string
}

/** What a worker tells the master about signals. */
export type SignalNews =
  | { readonly kind: 'handler'; readonly number: number; readonly target: string }
  | { readonly kind: 'raise'; readonly number: number }
  | SignalSchedule

export function scheduleKey(schedule: Schedule): string {
  return JSON.stringify(Object.values(schedule))
}

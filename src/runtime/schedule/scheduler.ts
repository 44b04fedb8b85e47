import { Alarm } from '../../base/clock.js'
import {
  type CronCommand,
  type CronTimes,
  type FileMonitor,
  type Schedule,
  scheduleKey,
} from '../../base/task/schedule.js'
import { openCron } from './cron.js'
import { CalendarTicks, type Ticks, TimerTicks } from './ticks.js'

interface SchedulerOptions {
  /**
   * True while the leader that fires the schedule is not known: the schedule neither fires nor advances. `restart` follows once
   * the leader is known.
   */
  isHeld(schedule: Schedule): boolean
  /** Fires a schedule. @param instantMs epoch ms of the occurrence of a cron schedule; undefined for all others */
  fire(schedule: Schedule, instantMs: number | undefined): void
  /** Calls back whenever the file changes. */
  watch(monitor: FileMonitor, changed: () => void): { close(): void }
  /**
   * Returns the zone of schedules that name none. Called only once such a schedule exists, because the answer takes Node 14 ms.
   */
  zone(): string
  /** Called when a schedule is not added because the limit is reached. */
  refused(schedule: Schedule, limit: number): void
}

interface Entry {
  readonly schedule: Schedule
  /**
   * True if the entry is removed once it has ended. Others stay, so that they do not start over when their code is loaded again.
   */
  readonly isTemporary: boolean
  readonly owners: Set<string>
  ticks?: Ticks
  readonly watch?: { close(): void }
}

interface Planned {
  /** The `scheduleKey` of the schedule. A timer with an end that running code has added has a key of its own. */
  readonly key: string
  readonly schedule: Schedule
  /** Epoch ms; Infinity: no time is known. */
  readonly nextAtMs: number
  /** Those who asked for the schedule. */
  readonly owners: ReadonlySet<string>
  /** True if only running code asked for the schedule. */
  readonly isOfCode: boolean
}

/** The longest sleep before a cron time, in ms, because the wall clock may be set meanwhile. */
const LONGEST_SLEEP_MS = 1000
/** The most schedules of all kinds together. uWSGI's limit is 64 of each kind. */
const MAX_SCHEDULES = 1024
/** The owner of the schedules that running code adds. A reload drops them. */
const CODE = 'code'

/** Fires all schedules. A schedule exists as long as it has an owner, which is somebody who asked for it. */
export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #entries = new Map<string, Entry>()
  readonly #alarm = new Alarm(() => this.#ring())
  #added = 0
  /** The zone of schedules that name none. Undefined: no schedule has needed it yet. */
  #zone: string | undefined

  constructor(options: SchedulerOptions) {
    this.#options = options
  }

  /**
   * Asks again for the zone of schedules that name none. If it has changed, these schedules are in the new zone from now on:
   * what was due before has been fired by the old one.
   */
  rezone(): void {
    const before = this.#zone
    this.#zone = undefined
    if (before === undefined || this.#ownZone === before) return
    for (const entry of this.#entries.values())
      if (isOnCalendar(entry.schedule) && entry.schedule.zone === null)
        entry.ticks = this.#calendarOf(entry.schedule)
    this.#alarm.clear()
    this.#sleep()
  }

  get #ownZone(): string {
    this.#zone ??= this.#options.zone()
    return this.#zone
  }

  get schedules(): Schedule[] {
    return [...this.#entries.values()].map(({ schedule }) => schedule)
  }

  /** Returns all schedules, each with its owners and its next time. */
  get plan(): Planned[] {
    return [...this.#entries].map(([key, { schedule, ticks, owners }]) => {
      const leftMs = (ticks?.nextAtMs ?? Number.POSITIVE_INFINITY) - clockOf(schedule)
      const isOfCode = owners.size === 1 && owners.has(CODE)
      return { key, schedule, nextAtMs: Math.round(Date.now() + leftMs), owners, isOfCode }
    })
  }

  /** Replaces the schedules of an owner. Schedules that the owner keeps continue undisturbed. */
  set(owner: string, schedules: readonly Schedule[]): void {
    const wanted = new Map(schedules.map(schedule => [scheduleKey(schedule), schedule]))
    for (const [key, entry] of this.#entries) {
      if (wanted.has(key) || !entry.owners.delete(owner) || entry.owners.size > 0) continue
      entry.watch?.close()
      this.#entries.delete(key)
    }
    for (const [key, schedule] of wanted) this.#own(key, schedule, owner)
    this.#sleep()
  }

  /**
   * Adds a schedule for running code. A timer with an end is always new. Any other schedule that exists already is kept as it is.
   */
  add(schedule: Schedule): void {
    const isTemporary = schedule.kind === 'timer' && schedule.iterations > 0
    const key = scheduleKey(schedule)
    this.#own(isTemporary ? `${key} ${this.#added++}` : key, schedule, CODE, isTemporary)
    this.#sleep()
  }

  /** Removes a schedule that running code has added and nobody else has asked for. @returns false if there is none */
  remove(key: string): boolean {
    const entry = this.#entries.get(key)
    if (entry === undefined || entry.owners.size > 1 || !entry.owners.has(CODE)) return false
    entry.watch?.close()
    return this.#entries.delete(key)
  }

  /** Removes the schedules that running code has added. */
  reload(): void {
    this.set(CODE, [])
  }

  /** Restarts the matching schedules from now on. None of their past occurrences was fired, and none will be. */
  restart(matches: (schedule: Schedule) => boolean): void {
    for (const { schedule, ticks } of this.#entries.values())
      if (matches(schedule)) ticks?.restart(clockOf(schedule))
    this.#alarm.clear()
    this.#sleep()
  }

  close(): void {
    this.#alarm.clear()
    for (const { watch } of this.#entries.values()) watch?.close()
    this.#entries.clear()
  }

  #own(key: string, schedule: Schedule, owner: string, isTemporary = false): void {
    const known = this.#entries.get(key)
    if (known !== undefined) return void known.owners.add(owner)
    if (this.#entries.size >= MAX_SCHEDULES) return this.#options.refused(schedule, MAX_SCHEDULES)
    this.#entries.set(key, { schedule, isTemporary, owners: new Set([owner]), ...this.#open(schedule) })
  }

  #open(schedule: Schedule): Pick<Entry, 'ticks' | 'watch'> {
    switch (schedule.kind) {
      case 'timer':
        return { ticks: new TimerTicks(schedule.everyMs, schedule.iterations, clockOf(schedule)) }
      case 'cron':
      case 'command':
        return { ticks: this.#calendarOf(schedule) }
      case 'monitor':
      case 'touch':
        return { watch: this.#options.watch(schedule, () => this.#options.fire(schedule, undefined)) }
    }
  }

  #calendarOf(schedule: CronTimes | CronCommand): Ticks {
    return new CalendarTicks(openCron(schedule.expression, schedule.zone ?? this.#ownZone), clockOf(schedule))
  }

  #ring(): void {
    for (const [key, { schedule, isTemporary, ticks }] of this.#entries) {
      if (this.#options.isHeld(schedule)) continue
      const instant = ticks?.take(clockOf(schedule))
      if (isTemporary && ticks?.nextAtMs === Number.POSITIVE_INFINITY) this.#entries.delete(key)
      if (instant !== undefined) this.#options.fire(schedule, isOnCalendar(schedule) ? instant : undefined)
    }
    this.#sleep()
  }

  #sleep(): void {
    for (const { schedule, ticks } of this.#entries.values()) {
      if (ticks === undefined || this.#options.isHeld(schedule)) continue
      const leftMs = ticks.nextAtMs - clockOf(schedule)
      const longestMs = isOnCalendar(schedule) ? LONGEST_SLEEP_MS : Number.POSITIVE_INFINITY
      this.#alarm.wakeAt(performance.now() + Math.min(leftMs, longestMs))
    }
  }
}

export function isOnCalendar(schedule: Schedule): schedule is CronTimes | CronCommand {
  return schedule.kind === 'cron' || schedule.kind === 'command'
}

/**
 * Returns now on the clock of the schedule. Cron follows the wall clock. Timers do not, so that setting it does not affect them.
 */
function clockOf(schedule: Schedule): number {
  return isOnCalendar(schedule) ? Date.now() : performance.now()
}

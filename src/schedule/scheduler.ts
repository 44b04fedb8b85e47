import { Alarm } from '../base/clock.js'
import { type FileMonitor, type Schedule, scheduleKey } from '../task/schedule.js'
import { openCron } from './cron.js'
import { CalendarTicks, type Ticks, TimerTicks } from './ticks.js'

export interface SchedulerOptions {
  /** It is not known yet who fires it: its time does not pass. It has to be restarted when that is known. */
  isHeld(schedule: Schedule): boolean
  /** @param instantMs epoch ms, of what is due by the calendar; undefined for all else */
  fire(schedule: Schedule, instantMs: number | undefined): void
  /** Calls back when the file changes. */
  watch(monitor: FileMonitor, changed: () => void): { close(): void }
  /** There are too many: this one is not taken. */
  refused(schedule: Schedule, limit: number): void
}

interface Entry {
  readonly schedule: Schedule
  /** It is forgotten once it has ended. Else it would begin again when the code that asked for it is loaded again. */
  readonly isTemporary: boolean
  readonly owners: Set<string>
  readonly ticks?: Ticks
  readonly watch?: { close(): void }
}

/** The wall clock may be set while we sleep: how often to check it. */
const LONGEST_SLEEP_MS = 1000
/** uWSGI has room for 64 of each kind. */
const MAX_SCHEDULES = 1024
/** Asked for by code that runs; a reload forgets it. */
const CODE = 'code'

/** All that raises signals by itself. Whoever asks for a schedule owns it; it lives as long as it has an owner. */
export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #entries = new Map<string, Entry>()
  readonly #alarm = new Alarm(() => this.#ring())
  #added = 0

  constructor(options: SchedulerOptions) {
    this.#options = options
  }

  get schedules(): Schedule[] {
    return [...this.#entries.values()].map(({ schedule }) => schedule)
  }

  /** What this owner wants from now on. What it wanted before goes on undisturbed. */
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

  /** Wanted by code while it runs. A timer that ends is a new one each time; all else that is there already is the same. */
  add(schedule: Schedule): void {
    const isTemporary = schedule.kind === 'timer' && schedule.iterations > 0
    const key = scheduleKey(schedule)
    this.#own(isTemporary ? `${key} ${this.#added++}` : key, schedule, CODE, isTemporary)
    this.#sleep()
  }

  /** Forgets what code that is gone has added. */
  reload(): void {
    this.set(CODE, [])
  }

  /** Nothing of what these had in mind until now was fired: they begin anew. */
  restart(isMeant: (schedule: Schedule) => boolean): void {
    for (const { schedule, ticks } of this.#entries.values())
      if (isMeant(schedule)) ticks?.restart(clockOf(schedule))
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
        return {
          ticks: new CalendarTicks(openCron(schedule.expression, schedule.zone), clockOf(schedule)),
        }
      case 'monitor':
      case 'touch':
        return { watch: this.#options.watch(schedule, () => this.#options.fire(schedule, undefined)) }
    }
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

function isOnCalendar({ kind }: Schedule): boolean {
  return kind === 'cron' || kind === 'command'
}

/** The calendar is the wall clock's; timers do not care when that is set. */
function clockOf(schedule: Schedule): number {
  return isOnCalendar(schedule) ? Date.now() : performance.now()
}

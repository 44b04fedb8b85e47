import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { printable } from '../../base/printable.js'
import { LastKnown } from '../../base/rationed.js'
import {
  type LoadedProcess,
  type PeriodicTask,
  type Schedule,
  type SchedulePauses,
  scheduleHash,
  scheduleId,
} from '../../base/task/schedule.js'
import { openEngine } from '../../engines/open-engine.js'
import type { SpoolTarget } from '../../engines/targets.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { Commands } from '../../runtime/schedule/commands.js'
import { schedulesOf } from '../../runtime/schedule/ini-schedules.js'
import { Leadership } from '../../runtime/schedule/leadership.js'
import { isOnCalendar, Scheduler } from '../../runtime/schedule/scheduler.js'
import { ownZone, zoneNamed, zoneOrigin } from '../../runtime/schedule/zone.js'
import type { ScheduleSnapshot } from '../../runtime/stats/snapshot.js'
import { SignalRouter } from '../../runtime/supervisor/signal-router.js'
import { watchEntry, watchTouches } from '../../system/files/directory-watch.js'
import { PeriodicSpools } from './periodic.js'

const INI = 'ini'

type Unpaused = Omit<ScheduleSnapshot, 'pausedSinceMs'>

/**
 * Connects what raises signals, the options and the schedules of handlers, to the processes that handle the
 * signals.
 */
export class Schedules {
  readonly router: SignalRouter
  readonly #events: Emitter
  readonly #scheduler: Scheduler
  readonly #commands: Commands
  readonly #periodic: PeriodicSpools
  readonly pauses = new PausedSchedules()
  /** By spool, the election among daemons that run it: only the leader fires its schedules. */
  readonly #leaderships = new Map<string, Leadership>()
  /** By spool, what its code has changed in its processes. */
  readonly #loaded = new Map<string, readonly LoadedProcess[]>()
  #surroundings: LoadedProcess = { kind: 'process', directory: null, umask: null, environment: [] }
  /** The time zone of schedules that name none; null: that of this process. */
  #zone: string | null = null
  /** Why schedules are in their zone, in words for people: what the configuration says, and what the code does. */
  #why = { configured: '', loaded: '' }
  #told = ''
  #isFiring = false
  /**
   * The spool whose leader fires the schedules that belong to no spool; undefined: this daemon runs no tasks, and
   * competes with no other.
   */
  #home: string | undefined

  /** @param logFd the descriptor to which the output of scheduled commands goes */
  constructor(events: Emitter, logFd: () => number) {
    this.#events = events
    this.#commands = new Commands({ events, logFd, surroundings: () => this.#surroundings })
    this.#periodic = new PeriodicSpools(events)
    this.#scheduler = new Scheduler({
      isHeld: schedule => this.#isHeld(schedule),
      fire: (schedule, instantMs) => void this.#fire(schedule, instantMs),
      watch: ({ kind, path }, changed) =>
        kind === 'touch'
          ? watchTouches([path], changed)
          : watchEntry(path, changed, error =>
              events.emit('schedule-watch-failed', { path, error: messageOf(error) }),
            ),
      zone: () => this.#zone ?? ownZone(),
      refused: ({ kind }, limit) => events.emit('schedules-full', { kind, limit }),
    })
    this.router = new SignalRouter(events, {
      declared: (spool, schedules, periodic, processes) => {
        this.#surround(spool, processes)
        this.#change(() => this.#scheduler.set(spool, schedules))
        this.#periodic.declared(
          spool,
          periodic.map(each => this.#zoned(each)),
        )
      },
      added: schedule => this.#change(() => this.#scheduler.add(schedule)),
    })
  }

  /** Applies a new configuration. @param spools the real paths of the spools that the daemon runs */
  serve(
    { options, environment }: Pick<ResolvedOptions, 'options' | 'environment'>,
    spools: readonly SpoolTarget[],
  ): void {
    if (options.drain) return
    this.#why.configured = zoneOrigin(environment).why
    this.#scheduler.rezone()
    const isReload = this.#isFiring
    this.#isFiring = true
    this.#home = spools[0]?.directory
    this.#periodic.serve(options, spools)
    this.#change(() => {
      // The code of the first start has begun to add its own, in workers that were ready before.
      if (isReload) this.#scheduler.reload()
      this.#scheduler.set(INI, schedulesOf(options))
    })
  }

  /** For people and monitoring. */
  async plan(): Promise<ScheduleSnapshot[]> {
    const fired = this.#scheduler.plan.map(
      ({ key, schedule, nextAtMs, owners, isOfCode }): Unpaused => ({
        id: scheduleId(key),
        schedule,
        origin: isOfCode ? 'code' : owners.has(INI) ? 'configuration' : 'handlers',
        spool: this.#placeOf(schedule) ?? null,
        zone: isOnCalendar(schedule) ? (schedule.zone ?? this.#zone ?? ownZone()) : null,
        nextAtMs: Number.isFinite(nextAtMs) ? nextAtMs : null,
      }),
    )
    const periodic = this.#periodic.plan.map(
      (each): Unpaused => ({
        ...each,
        id: each.schedule.name,
        zone: 'zone' in each.schedule.when ? (each.schedule.when.zone ?? ownZone()) : null,
        origin: 'handlers',
      }),
    )
    return Promise.all([...fired, ...periodic].map(each => this.#withPause(each)))
  }

  async #withPause(each: Unpaused): Promise<ScheduleSnapshot> {
    const sinceMs =
      each.spool === null ? undefined : (await this.pauses.of(each.spool)).get(scheduleHash(each.schedule))
    return sinceMs === undefined
      ? { ...each, pausedSinceMs: null }
      : { ...each, nextAtMs: null, pausedSinceMs: sinceMs }
  }

  /**
   * Fires a schedule because a person asks for it; its next regular time stays.
   *
   * @returns what was done, in words for people
   * @throws Error why nothing was done
   */
  async run({ schedule, spool }: ScheduleSnapshot): Promise<string> {
    if (!this.#isFiring) throw new Error('this daemon fires nothing: it drains or stops')
    if (schedule.kind === 'periodic')
      return `stored as ${await this.#periodic.run(spool ?? '', schedule.name)}`
    if (schedule.kind !== 'command') {
      if (this.router.raise(schedule.number)) return `signal ${schedule.number} is raised`
      throw new Error(`there is no room for signal ${schedule.number}: too many wait`)
    }
    const why = this.#commands.run(schedule)
    if (why !== undefined) throw new Error(why)
    return 'the command is started'
  }

  /** Removes a schedule that running code has added. @returns false if the configuration or the handlers have it, too */
  remove({ id }: ScheduleSnapshot): boolean {
    const found = this.#scheduler.plan.find(({ key }) => scheduleId(key) === id)
    let isRemoved = false
    this.#change(() => {
      isRemoved = found !== undefined && this.#scheduler.remove(found.key)
    })
    return isRemoved
  }

  /** True if the spool's schedules are fired by this daemon; null: it has none. */
  leadershipOf(spool: string): Leadership['state'] | null {
    return this.#leaderships.get(spool)?.state ?? null
  }

  /** True if no signal waits or runs, and none is to come. */
  get isIdle(): boolean {
    const isToCome = this.#isFiring && !(this.#scheduler.schedules.length === 0 && this.#periodic.isEmpty)
    return this.router.isIdle && !isToCome
  }

  /** Stops firing. */
  async stop(): Promise<void> {
    this.#isFiring = false
    this.#scheduler.close()
    await Promise.all([this.#periodic.stop(), this.#follow()])
  }

  /**
   * uWSGI has one master, in which the code of all languages is loaded. Where the code of two spools differs, the first one counts.
   */
  #surround(spool: string, processes: readonly LoadedProcess[]): void {
    this.#loaded.set(spool, processes)
    const all = [...this.#loaded.values()].flat()
    const environment = new Map(all.toReversed().flatMap(each => each.environment))
    this.#surroundings = {
      kind: 'process',
      directory: all.find(({ directory }) => directory !== null)?.directory ?? null,
      umask: all.find(({ umask }) => umask !== null)?.umask ?? null,
      environment: [...environment],
    }
    const tz = environment.get('TZ')
    this.#zone = zoneOfCode(tz)
    this.#why.loaded = `because the code that was loaded has set TZ=${printable(tz ?? '')}`
    this.#scheduler.rezone()
  }

  /** Logs the time zone once something depends on it, and again whenever it changes. */
  #tellZone(): void {
    const isAsked = this.#scheduler.schedules.some(each => isOnCalendar(each) && each.zone === null)
    if (!this.#isFiring || !isAsked) return
    const zone = this.#zone ?? ownZone()
    const why = this.#zone === null ? this.#why.configured : this.#why.loaded
    if (this.#told === `${zone} ${why}`) return
    this.#told = `${zone} ${why}`
    this.#events.emit('schedules-zoned', { zone, why })
  }

  #zoned(task: PeriodicTask): PeriodicTask {
    const { when } = task
    return 'zone' in when ? { ...task, when: { ...when, zone: when.zone ?? this.#zone } } : task
  }

  #change(change: () => void): void {
    change()
    this.#tellZone()
    void this.#follow()
  }

  /** Takes part in the election for a spool only while there is something to fire for it. */
  async #follow(): Promise<void> {
    const schedules = this.#isFiring ? this.#scheduler.schedules : []
    const places = new Set(schedules.map(schedule => this.#placeOf(schedule)))
    for (const place of places)
      if (place !== undefined && !this.#leaderships.has(place))
        this.#leaderships.set(place, this.#stand(place))
    const gone = [...this.#leaderships].filter(([place]) => !places.has(place))
    for (const [place] of gone) this.#leaderships.delete(place)
    await Promise.all(gone.map(([, leadership]) => leadership.stop()))
  }

  #stand(spool: string): Leadership {
    const events = this.#events
    return new Leadership({
      async take(listener) {
        const upkeep = await openEngine(spool).upkeep()
        return upkeep.takeLease('schedules', listener)
      },
      changed: isLeading => {
        events.emit('schedules-led', { spool, isLeading })
        this.#scheduler.restart(schedule => this.#placeOf(schedule) === spool)
      },
      failed: error => events.emit('schedule-lease-failed', { spool, error }),
    })
  }

  #placeOf(schedule: Schedule): string | undefined {
    return (schedule.kind === 'command' ? undefined : this.router.spoolOf(schedule.number)) ?? this.#home
  }

  #isHeld(schedule: Schedule): boolean {
    const place = this.#placeOf(schedule)
    return !this.#isFiring || (place !== undefined && this.#leaderships.get(place)?.isDecided !== true)
  }

  async #fire(schedule: Schedule, instantMs = Date.now()): Promise<void> {
    const place = this.#placeOf(schedule)
    if (place !== undefined && (await this.pauses.of(place)).has(scheduleHash(schedule))) return
    if (place !== undefined && this.#leaderships.get(place)?.leadsAt(instantMs) !== true) return
    if (schedule.kind === 'command') return void this.#commands.run(schedule)
    this.#events.emit('schedule-fired', schedule)
    this.router.raise(schedule.number, true)
  }
}

/** @param tz the `TZ` of the code that was loaded; null: it removed it; undefined: it left it alone. libc takes what it does not know for UTC */
function zoneOfCode(tz: string | null | undefined): string | null {
  return tz === undefined || tz === null ? null : (zoneNamed(tz) ?? 'UTC')
}

/** Within this time, a change by another daemon or a person takes effect here. */
const KNOWN_MS = 1000
const ANSWER_WITHIN_MS = 800

type Since = ReadonlyMap<string, number>

interface Known {
  readonly pauses: Promise<SchedulePauses>
  readonly since: LastKnown<Since>
}

/** The schedules of some spools that people have paused. */
class PausedSchedules {
  readonly #spools = new Map<string, Known>()

  /**
   * Since when each schedule is paused, epoch ms, by `scheduleHash`. While the spool cannot be read, the last known times.
   *
   * @param spool its real path
   */
  of(spool: string): Promise<Since> {
    return this.#open(spool).since.get()
  }

  async pause(spool: string, hash: string): Promise<void> {
    const { pauses, since } = this.#open(spool)
    await (await pauses).pause(hash)
    since.changed()
  }

  /** @returns false if the schedule was not paused */
  async resume(spool: string, hash: string): Promise<boolean> {
    const { pauses, since } = this.#open(spool)
    const wasPaused = await (await pauses).resume(hash)
    since.changed()
    return wasPaused
  }

  #open(spool: string): Known {
    const known = this.#spools.get(spool) ?? knownOf(spool)
    this.#spools.set(spool, known)
    return known
  }
}

function knownOf(spool: string): Known {
  const pauses = openEngine(spool)
    .upkeep()
    .then(({ schedulePauses }) => schedulePauses)
  const nothing: Since = new Map()
  return {
    pauses,
    since: new LastKnown(async () => (await pauses).read(), nothing, ANSWER_WITHIN_MS, KNOWN_MS),
  }
}

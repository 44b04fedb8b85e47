import type { Emitter } from '../../base/events/emitter.js'
import { Rationed, RationedPart } from '../../base/rationed.js'
import {
  type FeedReason,
  PARK_REASONS,
  type ParkedGroup,
  type ParkedPart,
  parkedByReason,
} from '../../base/task/parked.js'
import { type Ref, toByteString } from '../../base/task/ref.js'
import type { Looker, Report } from '../../base/task/report.js'
import type { NamedSlots } from '../../base/task/terms.js'
import type { WatchChoice } from '../../system/files/directory-watch.js'
import { isToldByName, MOST_GROUPS, MOST_PARKED_NAMED } from '../control/parked-tasks.js'
import { MOST_NAMED, MOST_REACHED } from '../control/task-names.js'
import type { FeedLoss, FeedNews, FeedState, FeedStats, LookHint, PriorityStats, Source } from '../feed.js'
import { BacklogCount, type Census, type CountedBacklog, censusOf } from '../spool/index/backlog-count.js'
import { Scanner } from '../spool/index/scanner.js'
import { SlotWatch } from '../spool/index/slot-watch.js'
import { TaskIndex } from '../spool/index/task-index.js'
import type { NameRules } from '../spool/names.js'
import { isHeldUntil } from '../spool/spool-file.js'
import { COMPARE_TASKS, compareVersions, type TaskOrder } from '../spool/task-order.js'
import { SortedWindow } from '../spool/window.js'
import { LongLocks } from './long-locks.js'

export interface DirectoryFeedOptions {
  /** The spool's real path. */
  readonly spool: string
  readonly rules: NameRules
  readonly order: TaskOrder
  /** How often the directory is scanned without a hint. */
  readonly frequencyMs: number
  readonly watch: WatchChoice
}

/**
 * How many times as long as a look takes, the master waits before the next one: each look visits all refs of a window, up to
 * 120,000.
 */
const CENSUS_PAUSE = 200
const BEST_PAUSE = 20
/** How many refs of each slot queue are tried with new handlers, whose number of slots is not known yet. */
const MOST_TRIES = 64

/** The task files of a directory, as in uWSGI's spool. A ref is a path relative to that directory. */
export class DirectoryFeed implements Source {
  readonly isByArrival: boolean
  readonly #options: DirectoryFeedOptions
  readonly #index: TaskIndex
  readonly #scanner: Scanner
  readonly #slotWatch: SlotWatch
  readonly #longLocks: LongLocks
  readonly #census: Rationed<Census>
  readonly #best: Rationed<readonly Ref[]>
  readonly #later: Rationed<readonly Ref[]>
  readonly #furtherBest: RationedPart<readonly Ref[]>
  readonly #furtherLater: RationedPart<readonly Ref[]>
  readonly #parked: Rationed<readonly ParkedGroup[]>
  readonly #backlog: BacklogCount
  #wakeUp = () => {}

  constructor(options: DirectoryFeedOptions, events: Emitter) {
    const { rules, order, frequencyMs, watch } = options
    const spool = toByteString(options.spool)
    this.#options = options
    this.isByArrival = order === 'arrival'
    this.#index = new TaskIndex({ order, frequencyMs })
    this.#scanner = new Scanner({ spool, rules, frequencyMs, watch }, this.#index, events, () =>
      this.#wakeUp(),
    )
    this.#slotWatch = new SlotWatch(spool, this.#index, () => this.#wakeUp())
    this.#longLocks = new LongLocks(options.spool, events)
    this.#census = new Rationed(() => censusOf(this.#index), CENSUS_PAUSE)
    const best = reachable((from, count) => bestReady(this.#index, order, from, count))
    const later = reachable((from, count) => this.#index.later.soonest(from, count, Date.now()))
    this.#best = new Rationed(() => best(0), BEST_PAUSE)
    this.#later = new Rationed(() => later(0), BEST_PAUSE)
    this.#furtherBest = new RationedPart(best, BEST_PAUSE)
    this.#furtherLater = new RationedPart(later, BEST_PAUSE)
    this.#parked = new Rationed(() => parkedGroups(this.#index), BEST_PAUSE)
    this.#backlog = new BacklogCount(spool, rules)
  }

  async open(wakeUp: () => void): Promise<void> {
    this.#wakeUp = wakeUp
    await this.#scanner.start()
  }

  lookBy(looker: Looker): void {
    this.#scanner.lookBy(looker)
    this.#slotWatch.lookBy(looker)
    this.#longLocks.lookBy(looker)
  }

  take(limit: number, from?: FeedReason | NamedSlots): readonly Ref[] {
    if (from === undefined) return this.#index.take(limit)
    if (typeof from === 'object') return this.#index.slots.takeFirst(from, limit)
    const refs = this.#index.takeParked(from, limit)
    if (refs.length === 0 && this.#index.parkedFor(from) > 0) this.changed(from) // their names are not known: a scan finds them
    return refs
  }

  changed(what: FeedReason | 'handlers'): void {
    if (what === 'handlers') {
      for (const queue of this.#index.slots.queues()) this.#index.slots.next(queue, MOST_TRIES)
      this.#index.unpark('unknown-name')
    } else this.#index.unpark(what)
    this.#scanner.scanIfLow()
    this.#wakeUp()
  }

  report({ done = [], returned = [] }: FeedNews): void {
    if (done.length > 0) this.#done(done)
    if (returned.length > 0) this.#returned(returned)
  }

  #done(refs: readonly Ref[]): void {
    this.#index.done(refs)
    this.#backlog.ended(refs.length)
    this.#scanner.tasksEnded(refs.length, false)
  }

  #returned(reports: readonly Report[]): void {
    const nowMs = Date.now()
    for (const report of reports) {
      this.#index.returned(report, nowMs)
      this.#longLocks.reported(report)
    }
    this.#slotWatch.watch()
    const isAnyGone = reports.some(({ kind }) => kind === 'gone')
    this.#scanner.tasksEnded(reports.length, isAnyGone)
  }

  lose({ refs = [] }: FeedLoss): void {
    for (const ref of refs) this.#index.abandoned(ref)
  }

  look({ stored, isForNew, everyMs }: LookHint = {}): void {
    if (everyMs !== undefined) this.#scanner.setFrequency(everyMs ?? this.#options.frequencyMs)
    else if (isForNew === true) this.#scanner.lookForNew()
    else if (stored === undefined) this.#scanner.scanNow()
    else if (stored.startsWith(`${this.#options.spool}/`))
      this.#stored(toByteString(stored.slice(this.#options.spool.length + 1)))
  }

  /** Makes a stored ref ready, but only without a watch: otherwise an event reports the file. */
  #stored(ref: Ref): void {
    const { watch, rules } = this.#options
    const isVisited = rules.ordered || !ref.includes('/')
    if (watch === 'off' && isVisited && this.#index.stored(ref)) this.#wakeUp()
  }

  get state(): FeedState {
    const { ready, busy, waiting, slots } = this.#index
    const parked = parkedByReason(reason => this.#index.parkedFor(reason))
    return {
      ...{ ready, busy, waiting, parked, slots },
      isDrained: this.#scanner.isDrained && parked.alone + parked.crashed + parked.slot === 0,
      stalledMs: this.#scanner.stalledMs,
    }
  }

  stats(): FeedStats {
    const { busy, knowsAll, unreadable, unseen, later, slots } = this.#index
    const { wakesAtMs } = later
    const waiting = this.#index.waiting + unreadable.ready
    const census = this.#census.get()
    const ready = Math.max(0, this.#index.ready - census.surplus)
    const counted = knowsAll ? undefined : this.#backlog.ask()
    const parked = PARK_REASONS.map(reason => [reason, this.#index.parkedFor(reason)] as const)
    return {
      ...{ ready, busy, waiting },
      unseen: Math.min(ready, unseen.count),
      unseenSinceMs: unseen.sinceMs,
      later: later.size - unreadable.later,
      held: later.held,
      elsewhere: 0,
      unreadable: unreadable.later + unreadable.ready,
      isWhole: knowsAll,
      tasks: knowsAll ? ready + busy + waiting : (counted?.total ?? null),
      countedAtMs: counted?.atMs ?? null,
      ...prioritiesOf((counted ?? census).byPrefix),
      parked: Object.fromEntries(parked.filter(([, count]) => count > 0)),
      slotQueues: slots.stats,
      oldestDueMs: census.oldestMs ?? null,
      nextDueMs: Number.isFinite(wakesAtMs) && !isHeldUntil(wakesAtMs) ? wakesAtMs : null,
      look: this.#scanner.stats,
    }
  }

  async next(limit: number, from = 0): Promise<readonly Ref[]> {
    const given = [...this.#index.busyRefs]
    const bestFrom = Math.max(0, from - given.length)
    const best = bestFrom === 0 ? this.#best.get() : await this.#furtherBest.get(bestFrom)
    const isGiven = new Set(given)
    return [...given.slice(from), ...best.filter(ref => !isGiven.has(ref))].slice(0, limit)
  }

  async later(limit: number, from = 0): Promise<readonly Ref[]> {
    const refs = from === 0 ? this.#later.get() : await this.#furtherLater.get(from)
    return refs.slice(0, limit)
  }

  parked(limit: number, part?: ParkedPart): readonly ParkedGroup[] {
    const groups = this.#parked.get()
    return part === undefined ? limited(groups, limit) : partOf(groups, limit, part)
  }

  close(): void {
    this.#wakeUp = () => {}
    this.#scanner.close()
    this.#slotWatch.close()
  }
}

/** Limits `part` to the names that may be told: MOST_NAMED at once, and none beyond place MOST_REACHED. */
function reachable(part: (from: number, count: number) => readonly Ref[]): (from: number) => readonly Ref[] {
  return from => (from < MOST_REACHED ? part(from, Math.min(MOST_NAMED, MOST_REACHED - from)) : [])
}

/**
 * How many priorities are listed, because anyone who may write to a spool can make directories in it. The others are only
 * counted.
 */
const MOST_PRIORITIES = 100

function prioritiesOf(
  byPrefix: CountedBacklog['byPrefix'],
): Pick<FeedStats, 'priorities' | 'prioritiesLeftOut'> {
  const all = [...byPrefix].filter(([prefix]) => prefix !== '')
  const listed = all.sort(([a], [b]) => compareVersions(a, b)).slice(0, MOST_PRIORITIES)
  const priorities: PriorityStats[] = listed.map(([prefix, due]) => ({ priority: prefix.slice(0, -1), due }))
  const none = byPrefix.get('')
  return {
    priorities: none === undefined ? priorities : [...priorities, { priority: null, due: none }],
    prioritiesLeftOut: all.length - listed.length,
  }
}

/** How many refs are told, over all groups together. */
const MOST_TOLD = 2000

/**
 * Returns the parked groups of an index: first those whose tasks can be told only by name, and within each kind the largest
 * first.
 */
export function parkedGroups(index: TaskIndex): ParkedGroup[] {
  const groups = [...index.parked.groups(MOST_PARKED_NAMED), ...index.slots.groups(MOST_PARKED_NAMED)]
  const isFirst = (group: ParkedGroup) => Number(isToldByName(group))
  return groups.sort((a, b) => isFirst(b) - isFirst(a) || b.count - a.count).slice(0, MOST_GROUPS)
}

/** Cuts the refs of each group to `limit`, and those of all groups together to MOST_TOLD. */
export function limited(groups: readonly ParkedGroup[], limit: number): ParkedGroup[] {
  let left = MOST_TOLD
  return groups.map(({ tasks, ...group }) => {
    const told = tasks.slice(0, Math.min(limit, left))
    left -= told.length
    return { ...group, tasks: told }
  })
}

/** Returns the group of that reason and name, with the wanted part of its refs; empty if there is no such group. */
export function partOf(
  groups: readonly ParkedGroup[],
  limit: number,
  { reason, name, from }: ParkedPart,
): ParkedGroup[] {
  return groups
    .filter(group => group.reason === reason && group.name === name)
    .map(({ tasks, ...group }) => ({ ...group, tasks: tasks.slice(from, from + limit) }))
}

/** Returns part of the ready refs, in the order in which an index would give them. The refs stay in the index. */
export function bestReady(index: TaskIndex, order: TaskOrder, from: number, count: number): Ref[] {
  const best = new SortedWindow(COMPARE_TASKS[order], from + count)
  index.eachReady((ref, time) => best.add(ref, time), Date.now())
  best.seal(undefined)
  const refs: Ref[] = []
  for (let ref = best.next(); ref !== undefined && refs.length < from + count; ref = best.next())
    refs.push(ref)
  return refs.slice(from)
}

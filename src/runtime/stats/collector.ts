import type { Emitter } from '../../base/events/emitter.js'
import { LastKnown } from '../../base/rationed.js'
import { Histogram } from '../../base/task/histogram.js'
import { NO_PAUSES } from '../../base/task/pause.js'
import { displayName, type Ref, toByteString } from '../../base/task/ref.js'
import type { SlotQueueStats } from '../../base/task/terms.js'
import type { UpkeepStats } from '../../engines/contracts/upkeep.js'
import { openEngine } from '../../engines/open-engine.js'
import type { Hide } from '../../formats/protocol/hide.js'
import type { Sight } from '../../formats/protocol/sight.js'
import { memoryOf } from '../../system/process-usage.js'
import type { SpoolWorkersStats } from '../supervisor/master.js'
import type { WorkerStats } from '../supervisor/worker-pool.js'
import { NamedCounters } from './named-counters.js'
import { seenSnapshot } from './seen-snapshot.js'
import {
  type DaemonFacts,
  type DaemonSnapshot,
  type Distribution,
  type Processes,
  type RunningTask,
  type ScheduleSnapshot,
  SNAPSHOT_VERSION,
  type SocketSnapshot,
  type SpoolSnapshot,
  type TaskCounts,
  type Times,
  type WorkerSnapshot,
} from './snapshot.js'
import { SpoolCounters } from './spool-counters.js'

/** Where the collector gets what it does not count itself. */
interface Sources {
  daemon(): Omit<DaemonFacts, 'stored' | 'refused'>
  /** The spools whose tasks run now. */
  spools(): readonly SpoolWorkersStats[]
  leadershipOf(spool: string): SpoolSnapshot['leadership']
  schedules(): Promise<readonly ScheduleSnapshot[]>
  sockets(): readonly SocketSnapshot[]
  /** The values that no snapshot shows. */
  hide(): Hide
}

/** A snapshot has the slot queues of at most this many names, because handlers choose the names and may use any number. */
const MOST_QUEUES = 100
/** The shortest time between two snapshots, in ms, however many clients ask. */
const SHARED_MS = 200
/** If a file system or Redis does not answer within this many ms, the snapshot has the figures that were known last. */
const ANSWER_WITHIN_MS = 800
const NOTHING_KNOWN: UpkeepStats = {
  dead: { count: 0, isWhole: false, byReason: {}, oldestMs: null, newestMs: null },
  records: { count: 0, isWhole: false },
  paused: NO_PAUSES,
  disk: null,
}

/** Counts what happens in a daemon, and takes its snapshot when asked. */
export class Collector {
  readonly #sources: Sources
  readonly #counters = new Map<string, SpoolCounters>()
  readonly #named = new Map<string, NamedCounters>()
  readonly #upkeeps = new Map<string, LastKnown<UpkeepStats>>()
  readonly #times: RunTimes
  #stored = 0
  #refused = 0
  #last: Record<'withPayload' | 'without', Promise<DaemonSnapshot>> | undefined
  /** When a new snapshot may be taken, on the clock of `performance.now()`. */
  #nextAt = Number.NEGATIVE_INFINITY

  constructor(events: Emitter, sources: Sources) {
    this.#sources = sources
    this.#times = new RunTimes(events)
    this.#subscribe(events)
  }

  /** Returns a snapshot, at most `SHARED_MS` old, as this reader may see it. Never rejects, and takes at most about a second. */
  snapshotFor({ mayReadPayload }: Pick<Sight, 'mayReadPayload'>): Promise<DaemonSnapshot> {
    const now = performance.now()
    if (this.#last === undefined || now >= this.#nextAt) {
      this.#nextAt = now + SHARED_MS
      const hide = this.#sources.hide()
      const taken = this.#take()
      const seenBy = (mayReadPayload: boolean) =>
        taken.then(snapshot => seenSnapshot(snapshot, { mayReadPayload, hide }))
      this.#last = { withPayload: seenBy(true), without: seenBy(false) }
    }
    return mayReadPayload ? this.#last.withPayload : this.#last.without
  }

  /** Makes the next request take a new snapshot. Call it after something was changed on request. */
  outdate(): void {
    this.#last = undefined
  }

  async #take(): Promise<DaemonSnapshot> {
    const spools = this.#sources.spools()
    this.#forget(spools)
    return {
      version: SNAPSHOT_VERSION,
      atMs: Date.now(),
      daemon: { ...this.#sources.daemon(), stored: this.#stored, refused: this.#refused },
      spools: await Promise.all(spools.map(each => this.#spool(each))),
      schedules: await this.#sources.schedules(),
      sockets: this.#sources.sockets(),
    }
  }

  async #spool(stats: SpoolWorkersStats): Promise<SpoolSnapshot> {
    const { spool, feed } = stats
    const { totals, rates } = this.#of(spool)
    const [processes, upkeep] = await Promise.all([processesOf(stats), this.#upkeep(spool)])
    return {
      directory: spool,
      tasks: tasksOf(stats),
      totals: { ...totals },
      rates,
      times: this.#times.of(spool),
      named: this.#namedOf(spool).stats(new Set(stats.pool.workers.map(({ pid }) => pid))),
      processes,
      ...upkeep,
      look: feed.look,
      leadership: this.#sources.leadershipOf(spool),
    }
  }

  #upkeep(spool: string): Promise<UpkeepStats> {
    const upkeep = this.#upkeeps.get(spool) ?? upkeepOf(spool)
    this.#upkeeps.set(spool, upkeep)
    return upkeep.get()
  }

  /** Forgets the upkeep of spools that a reload removed. The counters of all spools stay. */
  #forget(spools: readonly SpoolWorkersStats[]): void {
    const own = new Set(spools.map(({ spool }) => spool))
    for (const spool of this.#upkeeps.keys()) if (!own.has(spool)) this.#upkeeps.delete(spool)
  }

  #of(spool: string): SpoolCounters {
    const known = this.#counters.get(spool)
    if (known !== undefined) return known
    const counters = new SpoolCounters()
    this.#counters.set(spool, counters)
    return counters
  }

  #namedOf(spool: string): NamedCounters {
    const named = this.#named.get(spool) ?? new NamedCounters()
    this.#named.set(spool, named)
    return named
  }

  #subscribe(events: Emitter): void {
    const total = (spool: string) => this.#of(spool).totals
    events.on('tasks-reported', payload => this.#of(payload.spool).reported(payload))
    events.on('named-runs', ({ spool, pid, runs }) => this.#namedOf(spool).told(pid, runs))
    events.on('worker-died', ({ spool, running, isReplaced }) => {
      // a process that a reload could not start, so that it was refused, took no part in anything
      if (isReplaced || running.length > 0) this.#of(spool).crashed(running.length)
    })
    events.on('worker-overran', ({ spool }) => total(spool).overran++)
    events.on('worker-out-of-mercy', ({ spool }) => total(spool).outOfMercy++)
    events.on('worker-spawned', ({ spool, pid }) => {
      total(spool).spawned++
      this.#namedOf(spool).began(pid)
    })
    events.on('worker-recycling', ({ spool }) => total(spool).recycled++)
    events.on('host-died', ({ spool }) => total(spool).hostsDied++)
    events.on('watch-lost', ({ spool }) => total(spool).watchesLost++)
    events.on('spool-purged', ({ spool, removed }) => {
      total(spool).purged += removed
    })
    events.on('request-stored', () => this.#stored++)
    events.on('request-refused', () => this.#refused++)
  }
}

function upkeepOf(spool: string): LastKnown<UpkeepStats> {
  const upkeep = openEngine(spool).upkeep()
  return new LastKnown(async () => (await upkeep).stats(), NOTHING_KNOWN, ANSWER_WITHIN_MS)
}

function tasksOf({ feed, pool }: SpoolWorkersStats): TaskCounts {
  const { ready, busy, waiting, isWhole, parked, tasks, countedAtMs, oldestDueMs, nextDueMs, elsewhere } =
    feed
  const { unseen, unseenSinceMs, later, held, unreadable, priorities, prioritiesLeftOut, slotQueues } = feed
  const begun = pool.workers.reduce((sum, { running }) => sum + running.length, 0)
  const running = Math.min(begun, busy)
  return {
    due: ready - unseen,
    isWhole,
    unseen: unseen + busy - running,
    unseenSinceMs,
    running: running + elsewhere,
    ...{ waiting, later, held, unreadable },
    parked,
    ...(slotQueues.length === 0 ? {} : { slotQueues: longest(slotQueues) }),
    stored: tasks,
    countedAtMs,
    priorities,
    prioritiesLeftOut,
    oldestDueMs,
    nextDueMs,
  }
}

function longest(queues: readonly SlotQueueStats[]): SlotQueueStats[] {
  return [...queues].sort((a, b) => b.parked - a.parked).slice(0, MOST_QUEUES)
}

async function processesOf({ pool }: SpoolWorkersStats): Promise<Processes> {
  return { ...pool, workers: await Promise.all(pool.workers.map(workerOf)) }
}

function runningTask(ref: Ref, sinceMs: number): RunningTask {
  const task = displayName(ref)
  return { task, ...(toByteString(task) === ref ? {} : { ref }), sinceMs }
}

async function workerOf({ running, ...stats }: WorkerStats): Promise<WorkerSnapshot> {
  return {
    ...stats,
    running: running.map(({ ref, sinceMs }) => runningTask(ref, sinceMs)),
    ...(stats.pid === 0 ? { rssBytes: null, vszBytes: null } : await memoryOf(stats.pid)),
  }
}

interface SpoolTimes {
  readonly ran: Histogram
  readonly waited: Histogram
}

/** How long runs take and how long tasks wait, by spool. */
class RunTimes {
  readonly #bySpool = new Map<string, SpoolTimes>()
  readonly #sinceMs = Date.now()

  constructor(events: Emitter) {
    events.on('run-times', ({ spool, ran, waited }) => {
      const times = this.#of(spool)
      times.ran.merge(ran)
      times.waited.merge(waited)
    })
  }

  of(spool: string): Times {
    const { ran, waited } = this.#of(spool)
    return { sinceMs: this.#sinceMs, ran: distributionOf(ran), waited: distributionOf(waited) }
  }

  #of(spool: string): SpoolTimes {
    const times = this.#bySpool.get(spool) ?? { ran: new Histogram(), waited: new Histogram() }
    this.#bySpool.set(spool, times)
    return times
  }
}

function distributionOf(histogram: Histogram): Distribution {
  return {
    count: histogram.count,
    sumMicros: Math.round(histogram.sum),
    p50Micros: histogram.quantile(0.5),
    p95Micros: histogram.quantile(0.95),
    p99Micros: histogram.quantile(0.99),
    buckets: histogram.buckets,
  }
}

import type { LastRun } from '../base/task/last-run.js'
import type { FeedReason, ParkedGroup, ParkedPart, ParkReason } from '../base/task/parked.js'
import type { Ref } from '../base/task/ref.js'
import type { Looker, Report } from '../base/task/report.js'
import type { NamedSlots, SlotQueueStats } from '../base/task/terms.js'
import type { LookStats } from './contracts/look-stats.js'

export interface Counts {
  /** Refs that are due now. It may be an estimate. */
  readonly ready: number
  /** Refs that are taken and not yet returned. */
  readonly busy: number
  /** Refs that are known, but may not run now: not yet due, or parked. */
  readonly waiting: number
}

/** The number of tasks of one priority that are due or unseen. */
export interface PriorityStats {
  /** The name of the priority's directory: `05` is not `5`; null: no priority. */
  readonly priority: string | null
  readonly due: number
}

/** What a feed knows, for people and monitoring. */
export interface FeedStats extends Counts {
  /** The part of `ready` that is unseen: no one has looked at these tasks yet, so they may be for later. */
  readonly unseen: number
  /** Since when there has always been an unseen task; epoch ms. Null: there is none. */
  readonly unseenSinceMs: number | null
  /** The part of `waiting` whose time has not come. */
  readonly later: number
  /** The part of `later` that people hold: its time does not come by itself. */
  readonly held: number
  /** Tasks that are with other masters, as far as the store tells: 0 in a directory, which does not. */
  readonly elsewhere: number
  /** The part of `waiting` whose files are not tasks, or cannot be read or begun. */
  readonly unreadable: number
  /** False if more tasks are due than are in memory. `ready` then counts those in memory. */
  readonly isWhole: boolean
  /**
   * All stored tasks, due or not. If not `isWhole`, the result of a count of the names (`countedAtMs`), less the tasks that ended
   * since; null until the first count is over.
   */
  readonly tasks: number | null
  /** When the names were counted; epoch ms. Null: `tasks` is exact, not the result of a count. */
  readonly countedAtMs: number | null
  /** The most urgent first. If not `isWhole`, they are of all tasks that the directory had when it was counted. */
  readonly priorities: readonly PriorityStats[]
  /** How many more priorities have tasks than `priorities` shows. */
  readonly prioritiesLeftOut: number
  readonly parked: Readonly<Partial<Record<ParkReason, number>>>
  /** The tasks that are parked for `slot`, by the name of the task. */
  readonly slotQueues: readonly SlotQueueStats[]
  /** Since when the task in memory that has been due for longest is due; epoch ms. Null: none is due, or it is unknown. */
  readonly oldestDueMs: number | null
  /** When the next task comes due by itself; epoch ms. Null: none does. */
  readonly nextDueMs: number | null
  /** How the feed looks for tasks. Null: it is told of every task. */
  readonly look: LookStats | null
}

/**
 * Renews the claims of workers. The master does this, so that a handler that blocks its worker does not lose its task. The master
 * renews a claim until it is reported, or until its worker has exited, even if the worker was killed before.
 */
export interface LeaseKeeper {
  /** How often `keep` has to be called, in ms. */
  readonly everyMs: number
  /** Extends the claims that were announced with these leases. Leases that are over by now are ignored. */
  keep(leases: readonly string[]): void
  /** Returns a ref that brings the task of this lease, and no other; undefined if there is no such ref. */
  refOf(lease: string): Ref | undefined
  /**
   * Resolves when what `lose` told is stored, or the store does not answer in time. Called when all workers have ended. Absent: it
   * is stored at once.
   */
  settled?(): Promise<void>
  /**
   * How much work, in ms, a worker may have ahead in refs that stand for no task in particular. Absent: each ref stands for one
   * task.
   */
  readonly batchMs?: number
}

/** What workers have to know so that tasks take slots in order. */
export interface SlotHints {
  /**
   * The names of tasks that wait for a slot. No other task of such a name takes one. The array is a new one whenever it changes.
   */
  readonly queued: readonly string[]
  /** True if this taken ref is to take a slot if it can, though others wait. */
  isTry(ref: Ref): boolean
}

/** What there is to do. Reading it costs the same whatever the number of tasks. */
export interface FeedState extends Counts {
  /**
   * How many refs are parked for each reason, because a worker reported that they may not run now. They do not count as ready.
   * Refs that wait for a slot become ready by themselves, in their order, as slots of their name become free.
   */
  readonly parked: Readonly<Record<ParkReason, number>>
  /**
   * True when every due task has run and no worker has one. Tasks that wait for people (`paused`, `unknown-name`) do
   * not count.
   */
  readonly isDrained: boolean
  /**
   * For how long, in ms, the search for tasks has stood still though it should go on. 0: it goes on, or the feed does not search.
   */
  readonly stalledMs: number
  /** Absent: a task takes any slot that it finds, though others wait. */
  readonly slots?: SlotHints
}

/** What workers have done with the refs that they were given. */
export interface FeedNews {
  /** Refs whose claims the workers have announced, and still have. */
  readonly claimed?: readonly Ref[]
  /** Refs of tasks that ran to SPOOL_OK and are removed. */
  readonly done?: readonly Ref[]
  /** The reports of all other refs, whether their tasks ran or not. */
  readonly returned?: readonly Report[]
}

/** A run that was cut short by the end of its process. */
export interface CutShort {
  readonly ref: Ref
  readonly lastRun: LastRun
  /** The lease of the claim under which it ran. */
  readonly lease: string
}

/** What no worker will report any more. */
export interface FeedLoss {
  /** Refs whose worker died, or that were withdrawn from it. They are due again. */
  readonly refs?: readonly Ref[]
  /**
   * Only where claims have leases: what is known of runs that ended with their process. Their refs may be with other workers by
   * now.
   */
  readonly cutShort?: readonly CutShort[]
  /**
   * Only where claims have leases: a worker has ended. What it had claimed without announcing it is due again. `identity` is that
   * of its options (`Claims`). `leases` are of claims that are dealt with separately.
   */
  readonly worker?: { readonly identity: string; readonly leases: readonly string[] }
}

/** What a look is for, or how often the feed is to look by itself. */
export interface LookHint {
  /** This process has stored a task under this name (`Stored.path`). A feed ignores names of other spools. */
  readonly stored?: string | undefined
  /** True: look only for tasks that are not known yet, and only where no event tells of them. */
  readonly isForNew?: boolean
  /**
   * How often to look without a hint from now on, in ms; null: as when the feed was opened. The feed of a directory also looks
   * now.
   */
  readonly everyMs?: number | null
}

/**
 * What a master knows of one spool: which tasks may run now, and what became of those it gave to workers. It claims nothing.
 *
 * A ref is opaque. It may be a new one each time a task is taken, and equal to that of another task. A taken ref belongs to the
 * caller that took it, until the caller says by exactly one of `report` (`done`, `returned`) and `lose` (`refs`) what has become
 * of it.
 */
export interface Feed {
  /**
   * Starts looking for tasks, and calls `wakeUp` whenever `take` may return more than before; a call may be spurious.
   * Resolves after the first complete scan. Called once.
   */
  open(wakeUp: () => void): Promise<void>
  /**
   * Takes the most urgent due refs, at most `limit`. Never blocks.
   *
   * @param from a reason: takes refs that are parked for it, for workers to which it does not apply; slots: takes the next refs
   *   that wait for one of them, for a worker that runs tasks of that name, as long as they come before all other due refs
   */
  take(limit: number, from?: FeedReason | NamedSlots): readonly Ref[]
  report(news: FeedNews): void
  lose(loss: FeedLoss): void
  /**
   * The reason no longer holds. The refs that were parked for it become ready, some only after the next scan. `handlers`: the
   * workers have other handlers, which may know more names and other numbers of slots.
   */
  changed(what: FeedReason | 'handlers'): void
  /** Looks for tasks, or changes how often the feed looks. @param hint absent: looks for all tasks at once */
  look(hint?: LookHint): void
  /** A snapshot. Ask for it anew each time. */
  readonly state: FeedState
  /** Stops looking, and stops calling `wakeUp`. Workers may still settle what they hold. */
  close(): void
}

/** What people look at. Parts of it may be slightly out of date. */
interface FeedView {
  /**
   * Returns more than `Feed.state`, at a cost that does not grow with the backlog. If more is due than is in memory, it begins a
   * count of the names in the background, at most once a minute.
   */
  stats(): FeedStats
  /**
   * Returns the refs that are taken, and then those that `take` would give, in that order: at most `limit`, and fewer than there
   * are if the feed does not know more. Absent if tasks have no refs before they are taken.
   *
   * @param from how many refs to pass over; a part that is not the first may take a while
   */
  next?(limit: number, from?: number): readonly Ref[] | Promise<readonly Ref[]>
  /** Returns the refs that wait for their time, the next one to come due first; otherwise as `next`. */
  later?(limit: number, from?: number): readonly Ref[] | Promise<readonly Ref[]>
  /**
   * Returns what is parked, and why: at most `limit` refs per reason and name, and a bounded number of refs and names altogether;
   * otherwise as `next`.
   *
   * @param part returns this part of one group only
   */
  parked?(limit: number, part?: ParkedPart): readonly ParkedGroup[]
}

/** What an engine opens for a master. */
export interface Source extends Feed, FeedView {
  /**
   * True if tasks run in the order of arrival, so that no new task overtakes one that waits at a worker. Absent: a new one may be
   * more urgent.
   */
  readonly isByArrival?: boolean
  /** Absent if the engine's claims last as long as the worker that holds them. Works after `close`, too. */
  readonly leases?: LeaseKeeper
  /** From now on the feed looks at task files through `looker`, not by itself. Absent: it never looks at files. */
  lookBy?(looker: Looker): void
}

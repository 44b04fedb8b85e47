import type { LastRun } from '../base/task/last-run.js'
import type { FeedReason, ParkedGroup, ParkedPart, ParkReason } from '../base/task/parked.js'
import type { Ref } from '../base/task/ref.js'
import type { Looker, Report } from '../base/task/report.js'
import type { NamedSlots, SlotQueueStats } from '../base/task/terms.js'
import type { LookStats } from './contracts/look-stats.js'

export interface Counts {
  /** Due now. It may be an estimate. */
  readonly ready: number
  /** Taken and not yet returned. */
  readonly busy: number
  /** Known, but not runnable now: not yet due, or parked. */
  readonly waiting: number
}

/** How many tasks of a priority are due, or unseen. */
export interface PriorityStats {
  /** As its directory is named: `05` is not `5`; null: none. */
  readonly priority: string | null
  readonly due: number
}

/** What a feed knows, for people and monitoring. */
export interface FeedStats extends Counts {
  /** Of `ready`: nobody has looked at them yet, so they may be for later. */
  readonly unseen: number
  /** Since when there has always been one of those; epoch ms. Null: there is none. */
  readonly unseenSinceMs: number | null
  /** Of `waiting`: their time has not come. */
  readonly later: number
  /** Of `waiting`: what was found at their names is no task, or nobody can read it, or begin it. */
  readonly unreadable: number
  /** False if more tasks are due than are in memory: then `ready` counts those in memory. */
  readonly isWhole: boolean
  /**
   * All stored tasks, due or not. If not `isWhole`, what a count of the names found (`countedAtMs`), less those that
   * ended since; null until the first count is over.
   */
  readonly tasks: number | null
  /** Epoch ms; null: `tasks` is no count, but exact. */
  readonly countedAtMs: number | null
  /** The most urgent first. If not `isWhole`, all tasks that the directory had when it was counted. */
  readonly priorities: readonly PriorityStats[]
  /** How many more priorities have tasks. */
  readonly prioritiesLeftOut: number
  readonly parked: Readonly<Partial<Record<ParkReason, number>>>
  /** Those that are parked for `slot`, by the name of their task. */
  readonly slotQueues: readonly SlotQueueStats[]
  /** Since when the task in memory that has been due for longest has been due; epoch ms. Null: none, or unknown. */
  readonly oldestDueMs: number | null
  /** When the next task comes due by itself; epoch ms. */
  readonly nextDueMs: number | null
  /** Null: the feed is told of every task. */
  readonly look: LookStats | null
}

/**
 * Renews the claims of workers. The master does it, so that a handler that blocks its worker does not lose its task.
 * The master renews a claim until it is reported, or until its worker has exited, even if that was killed before.
 */
export interface LeaseKeeper {
  /** How often `keep` has to be called, in ms. */
  readonly everyMs: number
  /** Extends the claims that were announced with these leases. Those that are over by now are ignored. */
  keep(leases: readonly string[]): void
  /** A ref that brings the task of this lease, and no other. */
  refOf(lease: string): Ref | undefined
  /** How long a worker's refs may be worth that it has ahead, if they are for no task in particular; absent: they are. */
  readonly batchMs?: number
}

/** What workers have to know so that tasks take slots in order. */
export interface SlotHints {
  /** Tasks of these names wait for a slot: no other task of theirs takes one. Another array whenever it changes. */
  readonly queued: readonly string[]
  /** This ref, which was taken, is to take one if it can. */
  isTry(ref: Ref): boolean
}

/** What there is to do, at a cost that does not grow with it. */
export interface FeedState extends Counts {
  /**
   * How many refs are parked for each reason, because a worker reported that they may not run now. They do not count
   * as ready. Those that wait for a slot become ready by themselves, in their order, as slots of their name become free.
   */
  readonly parked: Readonly<Record<ParkReason, number>>
  /**
   * True when every due task has run and no worker has one. Tasks that wait for people (`paused`, `unknown-name`) do
   * not count.
   */
  readonly isDrained: boolean
  /** For how long its search for tasks has stood still though it should go on, in milliseconds. 0: it goes on, or it does not search. */
  readonly stalledMs: number
  /** Absent: a task takes any slot that it finds, though others wait. */
  readonly slots?: SlotHints
}

/** What workers have done with refs that they were given. */
export interface FeedNews {
  /** They have announced their claims of these, and still have them. */
  readonly claimed?: readonly Ref[]
  /** These ran to SPOOL_OK, and are removed. */
  readonly done?: readonly Ref[]
  /** All else that was reported, whether it ran or not. */
  readonly returned?: readonly Report[]
  /** What somebody else than a worker has found of refs that were lost. Of those that were given away meanwhile it says nothing. */
  readonly found?: {
    /** They are with the workers again that had them. */
    readonly begun: readonly Ref[]
    readonly reports: readonly Report[]
  }
}

/** A run that was cut short. */
export interface CutShort {
  readonly ref: Ref
  readonly lastRun: LastRun
  /** Of the claim that it ran under. */
  readonly lease: string
}

/** What nobody will report any more. */
export interface FeedLoss {
  /** Their worker died or never started them: they are due again. */
  readonly refs?: readonly Ref[]
  /** Where claims have leases: what is known of runs that ended with their process. Their refs may be with other workers by now. */
  readonly cutShort?: readonly CutShort[]
  /**
   * Where claims have leases: a worker has ended. What it had claimed without having announced it is due again.
   * `identity` is that of its options (`Claims`); `leases` are of claims that are dealt with by themselves.
   */
  readonly worker?: { readonly identity: string; readonly leases: readonly string[] }
}

/** Why a feed is to look for tasks at once, or how often it is to look by itself. */
export interface LookHint {
  /** This process has just stored a task under this name (`Stored.path`); a feed ignores names of other spools. */
  readonly stored?: string | undefined
  /** Only what is not known yet is looked for, where nothing else tells of it. */
  readonly isForNew?: boolean
  /** From now on without a hint; null: as when it was opened. It does not look now. */
  readonly everyMs?: number | null
}

/**
 * What a master knows of one spool: which tasks may run now, and what became of those it gave to workers. It claims
 * nothing.
 *
 * A ref is opaque. It may be a new one each time a task is taken, and equal to that of another task. It belongs to the caller that took it,
 * until that says by exactly one of `report` (`done`, `returned`) and `lose` (`refs`) what has become of it.
 */
export interface Feed {
  /**
   * Starts looking for tasks, and calls `wakeUp` whenever `take` may return more than before; a call may be spurious.
   * Resolves after the first complete scan. Called once.
   */
  open(wakeUp: () => void): Promise<void>
  /**
   * The most urgent due refs, at most `limit`. Never blocks.
   *
   * @param from refs that are parked for this reason, for workers to which it does not apply; or, for a worker that runs tasks of
   *   this name, the next ones that wait for a slot of it, as long as they come before all other due tasks
   */
  take(limit: number, from?: FeedReason | NamedSlots): readonly Ref[]
  report(news: FeedNews): void
  lose(loss: FeedLoss): void
  /**
   * The reason no longer holds: the refs that were parked for it become ready, some only after the next scan. `handlers`: the
   * workers have other ones, and may know more names and other numbers of slots.
   */
  changed(what: FeedReason | 'handlers'): void
  /** @param hint absent: it looks for tasks at once */
  look(hint?: LookHint): void
  /** Ask for it anew each time. */
  readonly state: FeedState
  /** Stops looking, and stops calling `wakeUp`. Workers may still settle what they hold. */
  close(): void
}

/** What people look at. Parts of it may be a moment old. */
interface FeedView {
  /**
   * More than `Feed.state`, at a cost that does not grow with the backlog. If more is due than is in memory, a count of the names
   * begins in the background, at most once a minute.
   */
  stats(): FeedStats
  /**
   * The refs that are taken, and then those that `take` would give, in that order: at most `limit`, and fewer than there are
   * if the feed does not know more. Absent if tasks have no refs before they are taken.
   *
   * @param from how many of them are passed over; whoever asks for a part that is not the first may have to wait
   */
  next?(limit: number, from?: number): readonly Ref[] | Promise<readonly Ref[]>
  /** The refs that wait for their time, the next one to come due first; otherwise as `next`. */
  later?(limit: number, from?: number): readonly Ref[] | Promise<readonly Ref[]>
  /**
   * What is parked, and why: at most `limit` refs of each reason and name, and a bounded number of them and of names altogether;
   * otherwise as `next`.
   *
   * @param part of one group alone
   */
  parked?(limit: number, part?: ParkedPart): readonly ParkedGroup[]
}

/** What an engine opens for a master. */
export interface Source extends Feed, FeedView {
  /** What comes later runs after all that waits, so nothing that waits at a worker is overtaken; absent: it may be more urgent. */
  readonly isByArrival?: boolean
  /** Absent if the engine's claims last as long as the worker that holds them. Works after `close`, too. */
  readonly leases?: LeaseKeeper
  /** From now on it looks at the files of tasks by this, not by itself. Absent: it never does. */
  lookBy?(looker: Looker): void
}

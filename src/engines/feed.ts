import type { LastRun } from '../base/task/last-run.js'
import type { FeedReason, ParkedGroup, ParkedPart, ParkReason } from '../base/task/parked.js'
import type { Ref } from '../base/task/ref.js'
import type { Report } from '../base/task/report.js'
import type { NamedSlots, SlotQueueStats } from '../base/task/terms.js'

export interface Counts {
  /** Due now. It may be an estimate. */
  readonly ready: number
  /** Taken and not yet returned. */
  readonly busy: number
  /** Known, but not runnable now: not yet due, or parked. */
  readonly waiting: number
}

/** How many due tasks have a priority. */
export interface PriorityStats {
  /** As its directory is named: `05` is not `5`; null: none. */
  readonly priority: string | null
  readonly due: number
}

/** How a feed notices new tasks. */
export interface LookStats {
  /** How often it looks without a hint. */
  readonly everyMs: number
  /**
   * `events`: the system reports changes. `poll`: it looks every second, because another host may change the spool. `none`:
   * only the regular look.
   */
  readonly hints: 'events' | 'poll' | 'none'
  /** Directories from which changes are reported, and those where the system refused that. */
  readonly watched: number
  readonly refused: number
  /** Watches rest while workers race through a long backlog. */
  readonly isSuspended: boolean
  /** How many times it looked, when last (epoch ms; null: not yet), how long that took, and how long all names took. */
  readonly looks: number
  readonly lastAtMs: number | null
  readonly lastMs: number
  readonly lastFullMs: number
}

/** What a feed knows, for people and monitoring. */
export interface FeedStats extends Counts {
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
}

/** What workers have to know so that tasks take slots in order. */
export interface SlotHints {
  /** Tasks of these names wait for a slot: no other task of theirs takes one. Another array whenever it changes. */
  readonly queued: readonly string[]
  /** This ref, which was taken, is to take one if it can. */
  isTry(ref: Ref): boolean
}

/**
 * What a master knows of one spool: which tasks may run now, and what became of those it gave to workers. It claims
 * nothing.
 *
 * A ref is opaque. It may be a new one each time a task is taken, and equal to that of another task. It belongs to the caller that took it, until
 * that calls exactly one of `done`, `returned` or `abandoned` with it.
 */
export interface Feed {
  /** Absent if the engine's claims last as long as the worker that holds them. Works after `close`, too. */
  readonly leases?: LeaseKeeper
  /**
   * Starts looking for tasks, and calls `wakeUp` whenever `take` may return more than before; a call may be spurious.
   * Resolves after the first complete scan. Called once.
   */
  open(wakeUp: () => void): Promise<void>
  /** How long a worker's refs may be worth that it has ahead, if they are for no task in particular; absent: they are. */
  readonly batchMs?: number
  /** The most urgent due refs, at most `limit`. Never blocks. */
  take(limit: number): readonly Ref[]
  /**
   * How many refs are parked for this reason, because a worker reported that they may not run now. They do not count
   * as ready. Those that wait for a slot become ready by themselves, in their order, as slots of their name become free.
   */
  parkedFor(reason: ParkReason): number
  /** As `take`, for refs that are parked for this reason. For workers to which the reason does not apply. */
  takeParked(reason: FeedReason, limit: number): readonly Ref[]
  /** The reason no longer holds: the refs that were parked for it become ready, some only after the next scan. */
  unpark(reason: FeedReason): void
  /** Absent: a task takes any slot that it finds, though others wait. */
  readonly slotHints?: SlotHints
  /**
   * For a worker that runs tasks of this name: the next ones that wait for a slot of it, as long as they come before all other due
   * tasks. Absent if there are no `slotHints`.
   */
  takeFollowers?(slots: NamedSlots, limit: number): readonly Ref[]
  /** The workers have other handlers: they may know more names, and other numbers of slots. */
  handlersReplaced(): void
  /** Workers have announced their claims of these. Absent if the engine's claims have no notices, or if it need not know. */
  claimed?(refs: readonly Ref[]): void
  /** A worker ran these to SPOOL_OK, and they are removed. */
  done(refs: readonly Ref[]): void
  /** A worker has reported these refs, whether it ran them or not. */
  returned(reports: readonly Report[]): void
  /** Their worker died or never started them: they are due again. */
  abandoned(refs: readonly Ref[]): void
  /**
   * The run of this ref was cut short. Also called for a ref that was abandoned before, and that another worker may
   * have by now.
   *
   * @param lease the lease of the claim that it ran under, if it has one
   */
  cutShort(ref: Ref, lastRun: LastRun, lease?: string): void
  /**
   * A worker has ended. What it had claimed without having announced it is due again. Absent if claims end with their worker.
   *
   * @param identity of its options (`Claims`) @param leases of the claims that are dealt with by themselves
   */
  workerGone?(identity: string, leases: readonly string[]): void
  /** How the last run of a ref was cut short, for the worker that gets it next. */
  lastRunOf(ref: Ref): LastRun | undefined
  /** A ref that brings the task of this lease, and no other. Absent: a ref always brings the same task. */
  refOfLease?(lease: string): Ref | undefined
  /**
   * Whether this process has claimed a task that it was given, as far as the system tells. For workers that are too busy to
   * answer; for claims with a notice it need not be known.
   */
  isHeldBy(ref: Ref, pid: number): boolean
  /**
   * Looks for tasks at once.
   *
   * @param stored only look for the task that this process has just stored under this name (`Stored.path`); a feed
   *   ignores names of other spools
   */
  lookNow(stored?: string): void
  /** How often it looks for tasks without a hint; null: as when it was opened. */
  setFrequency(frequencyMs: number | null): void
  counts(): Counts
  /**
   * For how long its search for tasks has stood still though it should go on, in milliseconds: seen from one call to the
   * next, so it needs to be asked from time to time. 0 for a feed that does not search.
   */
  readonly stalledMs: number
  /**
   * More than `counts`, at a cost that does not grow with the backlog: parts of it may be a second old. If more is due than
   * is in memory, a count of the names begins in the background, at most once a minute.
   */
  stats(): FeedStats
  /**
   * The refs that are taken, and then those that `take` would give, in that order: at most `limit`, and fewer than there are
   * if the feed does not know more. It may be a moment old. Absent if tasks have no refs before they are taken.
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
  /**
   * True when every due task has run and no worker has one. Tasks that wait for people (`paused`, `unknown-name`) do
   * not count.
   */
  readonly isDrained: boolean
  /** Stops looking, and stops calling `wakeUp`. Workers may still settle what they hold. */
  close(): void
}

import type { Pause, PausedPair, Pauses } from '../base/task/pause.js'
import type { Ref } from '../base/task/ref.js'
import type { Request } from '../base/task/request.js'
import type { Hide } from '../formats/protocol/hide.js'
import type { Purged, PurgeLimits } from './contracts/upkeep.js'
import type { AuditEntry } from './spool/admin/audit.js'
import type { Changed } from './spool/admin/change.js'
import type { ListedTasks } from './spool/admin/listing.js'
import type { Parcel, Received } from './spool/admin/move.js'
import type { TaskState, TaskView } from './spool/admin/task-view.js'
import type { DeadLetter } from './spool/dead-letters.js'

/**
 * What can be done to one task. A change applies to the task as it was seen: a task that is in another state by then is left
 * alone.
 */
export type Change =
  | { readonly kind: 'hold' | 'release' | 'kick' | 'remove' }
  /** Makes a dead letter of a task that does not run. */
  | { readonly kind: 'bury' }
  /** Makes a dead letter of a task, and ends it first if it runs. */
  | { readonly kind: 'cancel' }
  | { readonly kind: 'requeue'; readonly keepAttempts: boolean }
  /** Moves the task to another spool, with its time and its failures. */
  | { readonly kind: 'move'; readonly to: TaskStore }
  /**
   * Stores another task, and then removes this one. After a kill in between, both are there.
   *
   * @param body reads the body of this task
   */
  | { readonly kind: 'replace'; request(task: TaskView, body: () => Buffer): Request }

/** Which tasks are wanted. */
export interface Wanted {
  readonly states: readonly TaskState[]
  /** Tests the ref alone, before the task is read. */
  mayHave(ref: Ref): boolean
  /** True if living tasks are to come in the order of priority and arrival. */
  readonly isInOrder?: boolean
  /** Called with a priority that cannot be listed; the others are listed. Absent: nothing is listed then. */
  readonly failed?: (prefix: string, error: unknown) => void
}

/** Which tasks are listed, and in which order. */
export interface ListingPlan extends ListedTasks {
  /** Undefined: all states. */
  readonly states: readonly TaskState[] | undefined
  /** The most tasks that are wanted. */
  readonly limit: number
}

/** How a task ended, as far as that can be known. */
export type Ended =
  /** The task ran to SPOOL_OK. */
  | { readonly kind: 'done' }
  | { readonly kind: 'dead'; readonly letter: DeadLetter | undefined }
  /** The task was there and is not any more, and nobody says why: it is done, or was removed or moved. */
  | { readonly kind: 'gone' }
  /** The task was not there from the beginning. */
  | { readonly kind: 'unknown' }

export interface Resumed {
  readonly ended: readonly Pause[]
  readonly left: Pauses
}

/**
 * The tasks of one spool as people see and change them: the command line, the dashboard and `top` act through it. A store shows
 * the moment in which it was opened: locks and clock are read once. What it only reads is neither locked nor changed.
 */
export interface TaskStore {
  /** The real path of a directory, or the name on Redis; one character is one byte. */
  readonly spool: string
  /** Returns what hides the values that the spool's daemon hides. */
  hide(): Hide | Promise<Hide>
  /**
   * Notes the keys whose values are hidden. The spool's daemon calls it. Absent: a list in the spool has them.
   *
   * @see HiddenNotes
   */
  noteHidden?(keys: readonly string[]): Promise<void>
  /** Returns the task that was stored under a caller's id, even if it has ended since; undefined: none is remembered. */
  find(id: string): Ref | undefined | Promise<Ref | undefined>
  /**
   * Returns the task at this path below the spool. If there is none, returns those that have this name elsewhere in it: in
   * priorities or, if there are none, the latest dead letter. Any text will do.
   */
  named(name: Ref): readonly TaskView[] | Promise<readonly TaskView[]>
  /** Returns a task as it is now; undefined: it is gone. */
  view(ref: Ref): TaskView | undefined | Promise<TaskView | undefined>
  /**
   * Yields the tasks that may be in one of these states, dead letters last, otherwise in no order unless one is wanted. Changes
   * of tasks meanwhile do not disturb the listing.
   *
   * @param counted called with the number of tasks, before the first of them
   * @throws why they cannot be listed
   */
  views(wanted: Wanted, counted?: (count: number) => void): AsyncIterable<TaskView>
  /**
   * Lists tasks in bounded memory.
   *
   * @param take returns false to end the listing
   * @returns where the order comes from, for people, if not from the store itself
   * @throws why they cannot be listed
   */
  list(plan: ListingPlan, take: (task: TaskView) => boolean): Promise<string | undefined>
  /**
   * Returns a part of the tasks that may be in these states, from a place in their order on, without a look at those before it.
   * Absent: the store has no such order.
   *
   * @param from how many places to pass over
   * @param most how many places to look at, at most
   */
  part?(
    states: readonly TaskState[],
    from: number,
    most: number,
    isReversed: boolean,
  ): Promise<{ readonly tasks: readonly TaskView[]; readonly looked: number }>
  /** Returns the beginning of a task's body. @throws why it cannot be read */
  body(task: TaskView, mostBytes?: number): Buffer | Promise<Buffer>
  /** Applies a change to a task. @param say called with what happens meanwhile, for people */
  change(task: TaskView, change: Change, say?: (text: string) => void): Changed | Promise<Changed>
  /**
   * Stores a task that another store sends here, with all that is known of it. It is stored once per key, however often it is
   * sent, until the key is forgotten.
   *
   * @throws if it is unknown whether the task is stored here: it may be sent again
   */
  receive(parcel: Parcel, key: string): Promise<Received>
  /** Forgets a key, because nobody sends its task any more. */
  forget(key: string): void | Promise<void>
  /** Returns how many dead letters are beyond the limits. */
  countPurgeable(limits: PurgeLimits): Promise<number>
  /**
   * Removes dead letters beyond the limits.
   *
   * @param passed called after each letter that was to be removed
   * @param signal ends it after the current letter
   */
  purge(limits: PurgeLimits, passed?: () => void, signal?: AbortSignal): Promise<Purged>
  /**
   * Waits until tasks have ended.
   *
   * @param tell called once per task
   * @returns the tasks that have not ended when `signal` fires
   */
  awaitEnds(refs: readonly Ref[], tell: (ref: Ref, how: Ended) => void, signal: AbortSignal): Promise<Ref[]>
  /** Returns what is paused; null: this user may not see it. */
  pauses(): Pauses | null | Promise<Pauses | null>
  /** Adds a pause. A pause of the same tasks is replaced. @returns everything that is paused now */
  pause(pause: Pause): Promise<Pauses>
  /** Ends pauses. @param which null: the pause of the whole spool */
  resume(which: PausedPair | null | 'all'): Promise<Resumed>
  /** Writes what somebody is about to do; it is safely stored when this returns. @throws why it cannot be written */
  audit(entry: AuditEntry): void | Promise<void>
  /** Returns the last lines of the audit, the newest first. */
  readAudit(most: number): AuditEntry[] | Promise<AuditEntry[]>
}

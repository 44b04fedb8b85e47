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

/** What can be done to one task. Each says what it was done to, and leaves alone what is in another state by then. */
export type Change =
  | { readonly kind: 'hold' | 'release' | 'kick' | 'remove' }
  /** Make a dead letter of a task that does not run. */
  | { readonly kind: 'bury' }
  /** The same, and end it first if it runs. */
  | { readonly kind: 'cancel' }
  | { readonly kind: 'requeue'; readonly keepAttempts: boolean }
  /** With its time and its failures. */
  | { readonly kind: 'move'; readonly to: TaskStore }
  /** Store another task, and then remove this one. After a kill in between, both are there. @param body of this task */
  | { readonly kind: 'replace'; request(task: TaskView, body: () => Buffer): Request }

/** Which tasks are wanted. */
export interface Wanted {
  readonly states: readonly TaskState[]
  /** Tests the ref alone, before the task is read. */
  mayHave(ref: Ref): boolean
  /** Living tasks come by priority and arrival. */
  readonly isInOrder?: boolean
  /** Hears of a priority that cannot be listed; the others are. Absent: nothing is. */
  readonly failed?: (prefix: string, error: unknown) => void
}

/** Which tasks are listed, and in which order. */
export interface ListingPlan extends ListedTasks {
  /** undefined: all. */
  readonly states: readonly TaskState[] | undefined
  /** So many are wanted at most. */
  readonly limit: number
}

/** How a task ended, as far as that can be known. */
export type Ended =
  /** It ran to SPOOL_OK. */
  | { readonly kind: 'done' }
  | { readonly kind: 'dead'; readonly letter: DeadLetter | undefined }
  /** It was there and is not, and nobody says why: it is done, or was removed or moved. */
  | { readonly kind: 'gone' }
  /** It was not there from the beginning. */
  | { readonly kind: 'unknown' }

export interface Resumed {
  readonly ended: readonly Pause[]
  readonly left: Pauses
}

/**
 * The tasks of one spool as people see and change them: what the command line, the dashboard and `top` act through. A store is
 * a look of the moment in which it was opened: locks and clock are read once. Nothing that it only reads is locked or changed.
 */
export interface TaskStore {
  /** The real path of a directory, or the name on Redis; one character is one byte. */
  readonly spool: string
  /** What its daemon hides. */
  hide(): Hide | Promise<Hide>
  /** Called by its daemon: the keys whose values are hidden. Absent: a list in the spool says them. @see HiddenNotes */
  noteHidden?(keys: readonly string[]): Promise<void>
  /** The task that was stored under a caller's id, even if it has ended since; undefined: none that is remembered. */
  find(id: string): Ref | undefined | Promise<Ref | undefined>
  /**
   * The task at this path below the spool; else those that have this name elsewhere in it: in priorities or, if there are none,
   * the latest dead letter. Any text will do.
   */
  named(name: Ref): readonly TaskView[] | Promise<readonly TaskView[]>
  /** A task as it is now; undefined: it is gone. */
  view(ref: Ref): TaskView | undefined | Promise<TaskView | undefined>
  /**
   * The tasks that may be in one of these states, dead letters last, in no order unless one is wanted. What is done to them meanwhile does not
   * disturb.
   *
   * @param counted hears how many there will be, before the first of them
   * @throws why they cannot be listed
   */
  views(wanted: Wanted, counted?: (count: number) => void): AsyncIterable<TaskView>
  /**
   * Lists in bounded memory.
   *
   * @param take returns false to end the listing
   * @returns where the order comes from, for people, if that is not the store itself
   * @throws why they cannot be listed
   */
  list(plan: ListingPlan, take: (task: TaskView) => boolean): Promise<string | undefined>
  /**
   * A part of the tasks that may be in these states, from a place in their order on, without a look at those before it.
   * Absent: the store has no such order.
   *
   * @param from how many places are passed over
   * @param most so many places are looked at
   */
  part?(
    states: readonly TaskState[],
    from: number,
    most: number,
    isReversed: boolean,
  ): Promise<{ readonly tasks: readonly TaskView[]; readonly looked: number }>
  /** The beginning of a task's body. @throws why it cannot be read */
  body(task: TaskView, mostBytes?: number): Buffer | Promise<Buffer>
  /** @param say gets what happens meanwhile, for people */
  change(task: TaskView, change: Change, say?: (text: string) => void): Changed | Promise<Changed>
  /**
   * Stores a task of another store that is on its way here, with all that is known of it; once per key, however often it is
   * brought, until the key is forgotten.
   *
   * @throws what leaves it unknown whether it is there: it may be brought again
   */
  receive(parcel: Parcel, key: string): Promise<Received>
  /** Nobody brings the task of this key any more. */
  forget(key: string): void | Promise<void>
  /** How many dead letters are beyond the limits. */
  countPurgeable(limits: PurgeLimits): Promise<number>
  /** @param passed called after each letter that was to be removed @param signal ends it after the letter in hand */
  purge(limits: PurgeLimits, passed?: () => void, signal?: AbortSignal): Promise<Purged>
  /**
   * Waits until tasks have ended.
   *
   * @param tell called once per task
   * @returns those that have not ended when it is aborted
   */
  awaitEnds(refs: readonly Ref[], tell: (ref: Ref, how: Ended) => void, signal: AbortSignal): Promise<Ref[]>
  /** null: this user may not see what is paused. */
  pauses(): Pauses | null | Promise<Pauses | null>
  /** A pause of the same tasks is replaced. @returns everything that is paused now */
  pause(pause: Pause): Promise<Pauses>
  /** @param which null: the pause of the whole spool */
  resume(which: PausedPair | null | 'all'): Promise<Resumed>
  /** Writes what somebody is about to do, safely when this returns. @throws why it cannot be written */
  audit(entry: AuditEntry): void | Promise<void>
  /** The last lines of the audit, the newest first. */
  readAudit(most: number): AuditEntry[] | Promise<AuditEntry[]>
}

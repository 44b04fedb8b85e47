import { printable } from '../printable.js'
import type { ParkReason } from './parked.js'
import type { PausedPair } from './pause.js'
import { displayName, type Ref, type TaskName } from './ref.js'
import type { NamedSlots, SlotWish } from './terms.js'

/**
 * The kinds of reports that a worker makes about a ref. They are sent as their position in this list (ipc/messages), so only
 * append.
 */
export const REPORT_KINDS = [
  'ok', // ran, removed
  'retry', // ran, was kept, runs again at `atMs`
  'error', // threw; otherwise like retry
  'ignore', // no handler wanted it; kept
  'gone', // no longer there: another process ran or removed it
  'locked', // another process has it locked
  'later', // not due before `atMs`
  'incomplete', // shorter than its header says: perhaps still being written
  'malformed', // not a spool packet
  'unreadable', // cannot be opened, or is not a regular file
  'unsettled', // ran, but could not be settled; `detail` says why
  'untouched', // returned without being claimed, because its worker stops
  'buried', // ran for the last time, and is now a dead letter
  'set-aside', // became a dead letter without being run
  'parked', // cannot run now for another reason than its time; `reason` says what it waits for
] as const

export type ReportKind = (typeof REPORT_KINDS)[number]

export interface Report {
  readonly ref: Ref
  /** The name of the task, if the ref is no name. It may be missing if the task was not claimed. */
  readonly name?: TaskName | undefined
  readonly kind: ReportKind
  /** How long the handler ran. */
  readonly ranMs: number
  /** Epoch ms of the next look, if the worker knows it. */
  readonly atMs?: number | undefined
  /** The name of a named task, once it has run. */
  readonly task?: string | undefined
  /** For `parked`: what the task waits for. Until that happens, another look at the task is not worth it. */
  readonly reason?: ParkReason | undefined
  /** The pause that the task waits for (`paused`), as far as its worker knows. */
  readonly pair?: PausedPair | undefined
  /** The task waits for one of these slots (`parked`), or has had one and given it back. */
  readonly slots?: NamedSlots | undefined
  /** The id of a named task that ran to SPOOL_OK: the file that had it is gone. */
  readonly id?: string | undefined
  /**
   * For people: the stack, or the reason; for `unknown-name` the name. A report of `later` has a detail only if a run
   * crashed its process: how.
   */
  readonly detail?: string | undefined
  /** The number of the run, from 1; reported only to listeners. */
  readonly attempt?: number | undefined
  /** How long the task waited from when it was due until it started; reported only to listeners. */
  readonly waitMs?: number | undefined
}

/**
 * The state in which a look finds a task's file. `gone`: the file is not there. `locked`: somebody has it locked. `due`: the
 * task may run now. `unreadable`: the file is no task. A number: the task is due at this later time (epoch ms).
 */
export type Found = 'gone' | 'locked' | 'due' | 'unreadable' | number

/** A process that has locked a task. */
export interface Holder {
  readonly pid: number
  readonly command: string
}

/**
 * Looks at the files of tasks that wait for their time. Resolves with those that somebody has written, touched or replaced
 * since then (epoch ms), by their places in `refs`; with undefined if nobody could look.
 */
type LookAtLater = (
  refs: readonly Ref[],
  sinceMs: number,
) => Promise<ReadonlyArray<readonly [place: number, found: Found]> | undefined>

/** Looks at the files of tasks for a process that must wait for no disk. */
export interface Looker {
  /** @returns what is found at each ref, in the order of the refs; undefined if nobody could look */
  look(refs: readonly Ref[]): Promise<readonly Found[] | undefined>
  readonly later: LookAtLater
  /** @returns the process that has the task locked; undefined if that is not known */
  holder(ref: Ref): Promise<Holder | undefined>
  /** @param asked the names, and how many free slots of each are enough @returns undefined if nobody could look */
  freeSlots(asked: readonly SlotWish[]): Promise<FreeSlots | undefined>
}

/** Which slots are free. */
export interface FreeSlots {
  /** The numbers of the free slots of each name, in the order in which the names were asked for; null if they are not known. */
  readonly numbers: ReadonlyArray<readonly number[] | null>
  /** How long the look took. */
  readonly tookMs: number
}

/** How long a name may be, because strangers choose names: the log shows each of them, and remembers it. */
const MAX_NAME_CHARS = 200

/** Returns the report of a named task that no handler takes. @param task its name, one character per byte */
export function unknownName(task: string): Pick<Report, 'kind' | 'reason' | 'detail'> {
  return {
    kind: 'parked',
    reason: 'unknown-name',
    detail: printable(displayName(task)).slice(0, MAX_NAME_CHARS),
  }
}

/** Returns the name that no handler knows, of a task that is parked for `unknown-name`, for people; it may be cut. */
export function parkedNameOf({ reason, detail }: Pick<Report, 'reason' | 'detail'>): string | undefined {
  return reason === 'unknown-name' ? detail?.slice(0, MAX_NAME_CHARS) : undefined
}

/** Returns what log lines call the task. */
export function nameOf({ ref, name }: Pick<Report, 'ref' | 'name'>): TaskName {
  return name ?? ref
}

/** True if the task is parked until one of its slots is free. */
export function waitsForSlot(report: Report): report is Report & { readonly slots: NamedSlots } {
  return report.kind === 'parked' && report.reason === 'slot' && report.slots !== undefined
}

/** True for the kinds that end a handler's call, except `ignore`: `spooler-max-tasks` counts these, as in uWSGI. */
export function isHandled(kind: ReportKind): boolean {
  return kind === 'ok' || kind === 'retry' || kind === 'error' || kind === 'unsettled' || kind === 'buried'
}

const TROUBLE: ReadonlySet<ReportKind> = new Set([
  ...(['retry', 'error', 'ignore', 'unsettled', 'buried', 'set-aside'] as const),
])

/**
 * True for the kinds that are reported before another task begins, which may block the process: the log says why in a line, a
 * drain says so by its exit code, and the task may be due again.
 */
export function isTrouble(kind: ReportKind): boolean {
  return TROUBLE.has(kind)
}

/** True if the task was not claimed because its worker ran out of a system resource. */
export function isLimit(report: Report): report is Report & { readonly detail: string } {
  return report.kind === 'untouched' && report.detail !== undefined
}

/**
 * True if the task could not be claimed for now: another process has it, its file cannot be read, or what its worker needs
 * is not there.
 */
export function isHeldUp(report: Report): report is Report & { readonly kind: HeldUp } {
  const { kind } = report
  return kind === 'locked' || kind === 'untouched' || kind === 'unreadable'
}

type HeldUp = Extract<ReportKind, 'locked' | 'untouched' | 'unreadable'>

/** The kinds after which the file of the task has left its place. */
export const GONE_KINDS: readonly ReportKind[] = ['ok', 'gone', 'buried', 'set-aside']

/** A named task whose run has begun, as processes tell each other. */
export interface BegunTask {
  readonly id: string
  readonly name: string
  /** The namespace of the task's registry; absent: that of the process that runs the task. */
  readonly namespace?: string | undefined
  readonly queue: string
  /** Epoch ms. */
  readonly atMs: number
  /** Null: no limit. */
  readonly maxRetries: number | null
  readonly retries: number
  readonly args: readonly unknown[]
  readonly kwargs?: Readonly<Record<string, unknown>> | undefined
}

/** How that run ended. */
export interface RunEnd {
  readonly kind: ReportKind
  readonly atMs?: number | undefined
  readonly detail?: string | undefined
}

/** The facts that the master has to know of a claim before its task begins. */
export interface ClaimNotice {
  /** The name of the task, which the ref does not contain. */
  readonly name: TaskName
  /** The claim ends unless the master renews it by this (`Feed.leases`); undefined: it lasts as long as its worker. */
  readonly lease?: string
}

/** The runs of tasks of one name in a worker since its last message. */
export interface NamedRuns {
  readonly name: string
  /** How many may run at a time; null: no limit. */
  readonly slots: number | null
  started: number
  /** Runs that ended with SPOOL_OK. */
  done: number
  /** Runs whose task runs again, because its handler asked for it or threw. */
  retried: number
  /** Runs that made a dead letter of their task. */
  buried: number
  /** Runs that ended otherwise. */
  other: number
  /** How long these runs took. */
  ranMs: number
}

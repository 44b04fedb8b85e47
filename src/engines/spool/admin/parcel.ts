import type { Ref } from '../../../base/task/ref.js'
import type { TaskRecord } from '../records.js'
import type { Past } from '../state-byte.js'

/** A task on its way to another spool, as it was before it set out. */
export interface Parcel {
  /** With modifier2 as uWSGI writes it. */
  readonly packet: Buffer
  readonly bodyBytes: number
  /** In pieces. @throws why it cannot be read */
  body(): Iterable<Buffer>
  /** Digits; undefined: it has none. */
  readonly priority: string | undefined
  /** Epoch ms. */
  readonly dueAtMs: number
  /** Epoch ms; undefined: nothing says it. */
  readonly arrivedAtMs: number | undefined
  /** By people. */
  readonly isHeld: boolean
  /** What its last run left, if that never ended. */
  readonly past: UnfinishedRun
  /** Undefined: it has not failed. */
  readonly record: FailureRecord | undefined
  /** Of a file. */
  readonly file?: { readonly name: string; readonly mode: number; readonly mtimeMs: number }
}

export type UnfinishedRun = Extract<Past, 'none' | 'died-alone' | 'died-beside' | 'died-once'>

type FailureRecord = Omit<TaskRecord, 'heldMtime' | 'movedTo' | 'moveKey' | 'movedAt' | 'wasHeld'>

/** Where a task goes that is held for it. Its spool notes that first, so that whoever ends the move knows what was begun. */
export interface Journey {
  /** The other spool, for people. */
  readonly to: string
  /** What the other spool recognizes the task by: of two with the same key, it stores one. */
  readonly key: string
  /** Epoch ms. */
  readonly since: number
  /** It was held before. */
  readonly wasHeld: boolean
}

/** `refused`: nothing of the task is there. */
export type Received =
  | { readonly kind: 'received'; readonly ref: Ref }
  | { readonly kind: 'refused'; readonly detail: string }

/**
 * For so long whoever ends a move knows whether the task has arrived: shorter than either engine remembers keys. @see
 * spooler-id-ttl
 */
const KNOWN_FOR_MS = 86_400_000

/** Why a journey cannot be ended; undefined: it can. */
export function whyNoJourney({ to, since }: Journey, wanted: string): string | undefined {
  if (to !== wanted) return `a move to ${to} did not end: move it there again, which ends that`
  if (Date.now() - since < KNOWN_FOR_MS) return undefined
  return `a move to ${to} did not end, more than a day ago: it may be there, or have run; then rm it here, else kick it`
}

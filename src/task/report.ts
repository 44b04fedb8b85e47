import type { Ref } from './ref.js'

/**
 * What a worker tells the master of one ref it was given. The first four follow a run; the others are why there was
 * none. The order is the number on the wire (ipc/messages), so append only.
 */
export const REPORT_KINDS = [
  'ok', // ran, removed
  'retry', // ran, kept, runs again at `atMs`
  'error', // threw: as retry
  'ignore', // no handler wanted it: kept
  'gone', // not there any more: somebody else ran or removed it
  'locked', // somebody else holds it
  'later', // not due before `atMs`
  'incomplete', // shorter than its own header says: perhaps still being written
  'malformed', // no spool packet
  'unreadable', // may not be opened, or is no regular file
  'unsettled', // ran, but what was to become of its file could not be done; `detail` tells
  'untouched', // handed back unlooked at: its worker stops
  'buried', // ran for the last time, and is a dead letter now
  'set-aside', // a dead letter now, without having been run
  'parked', // may not run now, for another reason than its time: `reason` says what it waits for
] as const

export type ReportKind = (typeof REPORT_KINDS)[number]

/**
 * What a parked task waits for: a worker that runs nothing else (`alone`), a free place among those that its key limits
 * (`slot`), that somebody resumes it (`paused`), or a handler of its name (`unknown-name`).
 */
export type ParkReason = 'alone' | 'slot' | 'paused' | 'unknown-name'

export interface Report {
  readonly ref: Ref
  readonly kind: ReportKind
  /** How long the handler ran. */
  readonly ranMs: number
  /** Epoch ms of the next look, where the worker knows it. */
  readonly atMs?: number | undefined
  /** Of what is `parked`: until that happens nobody needs to look at it again. */
  readonly reason?: ParkReason | undefined
  /** For people: the stack, the reason. */
  readonly detail?: string | undefined
  /** Of the run, from 1; told where somebody listens. */
  readonly attempt?: number | undefined
  /** From when it was due until it began; told where somebody listens. */
  readonly waitMs?: number | undefined
}

/** The kinds in which a handler was called to its end, `ignore` apart: what `spooler-max-tasks` counts, as uWSGI does. */
export function isHandled(kind: ReportKind): boolean {
  return kind === 'ok' || kind === 'retry' || kind === 'error' || kind === 'unsettled' || kind === 'buried'
}

/** It was not claimed because its worker is out of what the system gives it. */
export function isLimit(report: Report): report is Report & { readonly detail: string } {
  return report.kind === 'untouched' && report.detail !== undefined
}

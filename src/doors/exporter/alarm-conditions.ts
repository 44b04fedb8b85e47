import { counted } from '../../base/counted.js'
import { durationText } from '../../base/time-text.js'
import {
  backlogOf,
  type DaemonSnapshot,
  isSettled,
  type SpoolSnapshot,
} from '../../runtime/stats/snapshot.js'
import type { AlarmLimits } from '../net/alarm-target.js'

/** Something that happened in a spool, or a condition that lasts until it is cleared. */
export type Alarm = {
  /** The spool's directory. */
  readonly spool: string
  /** When it was noticed; epoch ms. */
  readonly atMs: number
} & (
  | { readonly kind: 'buried'; readonly state: 'happened'; readonly count: number }
  | { readonly kind: Condition; readonly state: 'raised' | 'cleared'; readonly figures: string }
)

type Condition = 'long' | 'old' | 'crashing' | 'disk'

/** How a figure compares with its limit. Null: unknown, so nothing changes. */
type Finding = { readonly is: 'beyond' | 'between' | 'back'; readonly figures: string } | null

interface Raised {
  readonly spool: string
  readonly kind: Condition
}

interface Past {
  readonly buried: number
  readonly crashes: number
  readonly lastCrashMs: number
}

/** What the next exporter process needs in order to go on without a gap or a repetition. Plain JSON. */
export interface ConditionsMemory {
  readonly past: ReadonlyArray<readonly [spool: string, past: Past]>
  readonly raised: readonly Raised[]
}

/** An alarm is cleared once its figure is back at this share of its limit, so that a figure at the limit does not flap. */
const BACK_SHARE = 0.8
/** `crashing` is cleared once no process has died for this long, which is longer than the start of a process is ever delayed. */
const CALM_MS = 60_000
/** Clears an alarm whose limit a reload has removed while it was raised. */
const UNLIMITED: Finding = { is: 'back', figures: 'it has no limit any more' }
const NONE: Past = { buried: 0, crashes: 0, lastCrashMs: 0 }

/** Compares each snapshot with the limits and with the one before it. */
export class AlarmConditions {
  readonly #limits: AlarmLimits
  #past: ReadonlyMap<string, Past> | undefined
  readonly #raised: Map<string, Raised>

  constructor(limits: AlarmLimits, memory: ConditionsMemory | null = null) {
    this.#limits = limits
    if (memory !== null) this.#past = new Map(memory.past)
    this.#raised = new Map(memory?.raised.map(each => [keyOf(each), each]))
  }

  /** Null: it has not looked yet. */
  get memory(): ConditionsMemory | null {
    return this.#past === undefined ? null : { past: [...this.#past], raised: [...this.#raised.values()] }
  }

  /** Compares a snapshot. @param isFromStart true if what a first snapshot counts is news, because the daemon has just started */
  look({ spools, atMs }: DaemonSnapshot, isFromStart: boolean): Alarm[] {
    const alarms: Alarm[] = []
    const isNews = isFromStart || this.#past !== undefined
    const past = new Map<string, Past>()
    for (const spool of spools) {
      const { directory } = spool
      const before = this.#past?.get(directory) ?? (isNews ? NONE : totalsOf(spool, NONE, atMs))
      const now = totalsOf(spool, before, atMs)
      past.set(directory, now)
      const count = now.buried < before.buried ? now.buried : now.buried - before.buried
      if (count > 0) alarms.push({ spool: directory, atMs, kind: 'buried', state: 'happened', count })
      for (const [kind, finding] of this.#findings(spool, now, atMs)) {
        const state = finding === null ? undefined : this.#turn(directory, kind, finding.is)
        if (finding !== null && state !== undefined)
          alarms.push({ spool: directory, atMs, kind, state, figures: finding.figures })
      }
    }
    for (const [key, { spool, kind }] of this.#raised)
      if (!past.has(spool)) {
        this.#raised.delete(key)
        alarms.push({ spool, atMs, kind, state: 'cleared', figures: 'this daemon does not run it any more' })
      }
    this.#past = past
    return alarms
  }

  #findings(spool: SpoolSnapshot, past: Past, atMs: number): ReadonlyArray<readonly [Condition, Finding]> {
    const { maxDue, maxAgeMs, minFree } = this.#limits
    return [
      ['long', maxDue === null ? UNLIMITED : long(spool, maxDue, atMs)],
      ['old', maxAgeMs === null ? UNLIMITED : old(spool, maxAgeMs, atMs)],
      ['crashing', crashing(spool, past, atMs)],
      ['disk', minFree === null ? UNLIMITED : disk(spool, minFree)],
    ]
  }

  /** @returns the new state; undefined if the state has not changed */
  #turn(spool: string, kind: Condition, is: 'beyond' | 'between' | 'back'): 'raised' | 'cleared' | undefined {
    const key = keyOf({ spool, kind })
    if (is === 'beyond' && !this.#raised.has(key)) {
      this.#raised.set(key, { spool, kind })
      return 'raised'
    }
    return is === 'back' && this.#raised.delete(key) ? 'cleared' : undefined
  }
}

/** Returns one line for people, without the spool's name. */
export function alarmText(alarm: Alarm): string {
  if (alarm.kind !== 'buried') return alarm.figures
  return alarm.count === 1 ? 'a task became a dead letter' : `${alarm.count} tasks became dead letters`
}

function keyOf({ spool, kind }: Raised): string {
  return `${kind} ${spool}`
}

function totalsOf({ totals }: SpoolSnapshot, before: Past, atMs: number): Past {
  const { buried, setAside, crashes } = totals
  return {
    buried: buried + setAside,
    crashes,
    lastCrashMs: crashes === before.crashes ? before.lastCrashMs : atMs,
  }
}

function long({ tasks }: SpoolSnapshot, limit: number, atMs: number): Finding {
  const counted = tasks.priorities.reduce((sum, { due }) => sum + due, 0)
  const backlog = backlogOf(tasks, atMs)
  const due = tasks.isWhole ? backlog : Math.max(backlog, counted)
  const figures = `${due} due tasks; the limit is ${limit}`
  return unlessUnsure({ is: against(due, limit), figures }, tasks, atMs)
}

function old({ tasks }: SpoolSnapshot, limitMs: number, atMs: number): Finding {
  const ageMs = tasks.oldestDueMs === null ? 0 : Math.max(0, atMs - tasks.oldestDueMs)
  const figures = `the oldest due task has waited for ${durationText(ageMs)}; the limit is ${durationText(limitMs)}`
  return unlessUnsure({ is: against(ageMs, limitMs), figures }, tasks, atMs)
}

/**
 * Leaves an alarm as it is while tasks are unseen, because they may be due: a start clears no alarm before somebody has looked.
 */
function unlessUnsure(finding: NonNullable<Finding>, tasks: SpoolSnapshot['tasks'], atMs: number): Finding {
  return finding.is === 'beyond' || isSettled(tasks, atMs) ? finding : null
}

function crashing({ processes, totals }: SpoolSnapshot, { lastCrashMs }: Past, atMs: number): Finding {
  const isCalm = processes.delayed === 0 && atMs - lastCrashMs >= CALM_MS
  return {
    is: processes.delayed > 0 ? 'beyond' : isCalm ? 'back' : 'between',
    figures: `${processes.delayed} of ${counted(processes.wanted, 'worker process', 'worker processes')} to be started again later; ${counted(totals.crashes, 'crash', 'crashes')} so far`,
  }
}

function disk({ disk }: SpoolSnapshot, limit: number): Finding {
  if (disk === null || disk.totalBytes === 0) return null
  const inodes = disk.totalInodes === 0 ? 1 : disk.freeInodes / disk.totalInodes
  const free = Math.min(disk.freeBytes / disk.totalBytes, inodes)
  return {
    is: free < limit ? 'beyond' : free * BACK_SHARE >= limit ? 'back' : 'between',
    figures: `${percent(free)} of the disk, or of its inodes, are free; the limit is ${percent(limit)}`,
  }
}

function against(value: number, limit: number): 'beyond' | 'between' | 'back' {
  if (value > limit) return 'beyond'
  return value <= limit * BACK_SHARE ? 'back' : 'between'
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10}%`
}

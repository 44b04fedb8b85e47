import { countArg, wrongArg } from '../../../admin/operate/args.js'
import { ageOf } from '../../../admin/operate/selection.js'
import { counted } from '../../../base/counted.js'
import { SpooldError } from '../../../base/errors.js'
import { backlogOf } from '../../../runtime/stats/snapshot.js'
import { shortDuration } from '../render.js'
import type { AloneStatus, SpoolStatus } from './spool-status.js'

/** The levels, named and numbered as by monitoring plugins. */
export const LEVELS = ['OK', 'WARNING', 'CRITICAL', 'UNKNOWN'] as const
export type Level = (typeof LEVELS)[number]

/** The highest values that are neither a warning nor critical. */
interface Limit {
  readonly warning: number | null
  readonly critical: number
}

type KnownStatus = Exclude<SpoolStatus, { source: 'none' }>

interface Threshold {
  readonly flag: string
  readonly name: string
  readonly unit: '' | 's' | '%'
  parse(flag: string, text: string): number
  /** @returns a text for people, and the value: null if it is unknown; a lower bound will do if it is beyond `critical` */
  measure(status: KnownStatus, critical: number): { readonly value: number | null; readonly text: string }
  /** Returns a limit as text for people. */
  limitText(limit: number): string
}

export interface ThresholdOptions {
  readonly maxDue?: string
  readonly maxAge?: string
  readonly maxDead?: string
  readonly maxUnreadable?: string
  readonly maxFailureRate?: string
}

const THRESHOLDS: Readonly<Record<keyof ThresholdOptions, Threshold>> = {
  maxDue: {
    ...{ flag: '--max-due', name: 'due', unit: '', parse: countArg, limitText: String },
    measure(status, critical) {
      const { count, isWhole } = dueOf(status)
      return { value: isWhole || count > critical ? count : null, text: `${count} due` }
    },
  },
  maxAge: {
    ...{ flag: '--max-age', name: 'age', unit: 's', parse: ageOf, limitText: shortDuration },
    measure(status) {
      const { oldestDueMs } = status.tasks
      const ageMs = oldestDueMs === null ? null : Math.max(0, status.atMs - oldestDueMs)
      const value = dueOf(status).count === 0 ? 0 : ageMs
      return { value, text: `the oldest due task waits for ${shortDuration(value ?? 0)}` }
    },
  },
  maxDead: {
    ...{ flag: '--max-dead', name: 'dead', unit: '', parse: countArg, limitText: String },
    measure({ dead: { count, isWhole } }, critical) {
      return { value: isWhole || count > critical ? count : null, text: counted(count, 'dead letter') }
    },
  },
  maxUnreadable: {
    ...{ flag: '--max-unreadable', name: 'unreadable', unit: '', parse: countArg, limitText: String },
    measure({ tasks: { unreadable } }) {
      return { value: unreadable, text: `${counted(unreadable, 'task')} cannot be read or begun` }
    },
  },
  maxFailureRate: {
    ...{ flag: '--max-failure-rate', name: 'failure_rate', unit: '%', parse: shareOf, limitText: percent },
    measure(status) {
      const value = status.source === 'daemon' ? (status.rates.failedShare ?? 0) : null
      return { value, text: `${percent(value ?? 0)} of the runs failed` }
    },
  },
}

export type Thresholds = ReadonlyArray<Threshold & { readonly limit: Limit }>

/** @throws SpooldError USAGE */
export function thresholdsOf(options: ThresholdOptions): Thresholds {
  return (Object.keys(THRESHOLDS) as Array<keyof ThresholdOptions>).flatMap(key => {
    const [threshold, text] = [THRESHOLDS[key], options[key]]
    return text === undefined ? [] : [{ ...threshold, limit: limitOf(threshold, text) }]
  })
}

/** Parses a limit. `1000`: critical above 1000. `500,1000`: a warning above 500, critical above 1000. */
function limitOf({ flag, parse }: Threshold, text: string): Limit {
  const [first = '', second, ...more] = text.split(',')
  if (second === undefined) return { warning: null, critical: parse(flag, first) }
  const [warning, critical] = [parse(flag, first), parse(flag, second)]
  if (more.length > 0 || warning > critical)
    throw new SpooldError(
      'USAGE',
      `${flag}: expected CRITICAL, or WARNING,CRITICAL with the lower first, got ${text}`,
    )
  return { warning, critical }
}

function shareOf(flag: string, text: string): number {
  const [, percent] = /^([0-9]+(?:\.[0-9]+)?)%?$/.exec(text) ?? []
  if (percent !== undefined && Number(percent) <= 100) return Number(percent) / 100
  throw wrongArg(flag, 'a percentage such as 5%', text)
}

export interface Verdict {
  readonly level: Level
  /** Why the level is not OK. */
  readonly reasons: readonly string[]
  /** The values for monitoring, such as `due=3;500;1000;0`. */
  readonly performance: readonly string[]
}

/** Judges a status by these thresholds. Pure. */
export function judge(status: SpoolStatus, thresholds: Thresholds): Verdict {
  if (status.source === 'none') return { level: 'UNKNOWN', reasons: [status.because], performance: [] }
  const measured = thresholds.map(each => ({ ...each, ...each.measure(status, each.limit.critical) }))
  const complaints = measured.flatMap(complaintOf)
  if (isUnattended(status)) complaints.push(absence(status.because))
  return {
    level: worst(complaints.map(({ level }) => level)),
    reasons: complaints.map(({ reason }) => reason),
    performance: measured.map(performanceOf),
  }
}

/** Returns the level that a person should hear of first. UNKNOWN ranks below CRITICAL, so that it hides nothing critical. */
export function worst(levels: readonly Level[]): Level {
  const order: readonly Level[] = ['OK', 'WARNING', 'UNKNOWN', 'CRITICAL']
  return levels.reduce<Level>((one, other) => (order.indexOf(other) > order.indexOf(one) ? other : one), 'OK')
}

/** Returns how many tasks are due, those outside of the daemon's memory included; a lower bound if `isWhole` is false. */
export function dueOf({ tasks, atMs }: KnownStatus): {
  readonly count: number
  readonly isWhole: boolean
  /** How many more may be due: nobody has looked at them yet. */
  readonly unseen: number
} {
  const { isWhole, stored, running, waiting } = tasks
  const count = backlogOf(tasks, atMs)
  if (isWhole || stored === null) return { count, isWhole, unseen: tasks.due + tasks.unseen - count }
  return { count: Math.max(count, stored - running - waiting), isWhole: true, unseen: 0 }
}

type Measured = Thresholds[number] & ReturnType<Threshold['measure']>

function complaintOf({
  name,
  value,
  limit,
  text,
  limitText,
}: Measured): Array<{ level: Level; reason: string }> {
  if (value === null) return [{ level: 'UNKNOWN', reason: `${name} is not known` }]
  if (value > limit.critical)
    return [{ level: 'CRITICAL', reason: `${text}, more than ${limitText(limit.critical)}` }]
  if (limit.warning !== null && value > limit.warning)
    return [{ level: 'WARNING', reason: `${text}, more than ${limitText(limit.warning)}` }]
  return []
}

/** True if no daemon could be asked, and none of another machine has said that it is there. */
function isUnattended(status: SpoolStatus): status is AloneStatus {
  const isAlone = status.source === 'directory' || status.source === 'redis'
  return isAlone && (status.redis?.members.length ?? 0) === 0
}

function absence(because: string | null): { level: Level; reason: string } {
  if (because === null) return { level: 'WARNING', reason: 'no daemon answers' }
  return { level: 'UNKNOWN', reason: `its daemon cannot be asked: ${because}` }
}

/** Returns a value for monitoring, in the units that monitoring knows: seconds, percent. */
function performanceOf({ name, value, limit, unit }: Measured): string {
  const shown = (number: number | null) => (number === null ? '' : String(scaled(number, unit)))
  return `${name}=${value === null ? 'U' : `${shown(value)}${unit}`};${shown(limit.warning)};${shown(limit.critical)};0`
}

function scaled(number: number, unit: string): number {
  if (unit === 's') return Math.round(number) / 1000
  return unit === '%' ? Math.round(number * 10_000) / 100 : number
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10}%`
}

import { ageOf } from '../../../admin/operate/selection.js'
import { counted } from '../../../base/counted.js'
import { SpooldError } from '../../../base/errors.js'
import { backlogOf } from '../../../runtime/stats/snapshot.js'
import { shortDuration } from '../render.js'
import type { AloneStatus, SpoolStatus } from './spool-status.js'

/** As monitoring plugins name and number them. */
export const LEVELS = ['OK', 'WARNING', 'CRITICAL', 'UNKNOWN'] as const
export type Level = (typeof LEVELS)[number]

/** What is more is a warning, or critical. */
interface Limit {
  readonly warning: number | null
  readonly critical: number
}

export interface Thresholds {
  readonly due?: Limit
  /** Milliseconds. */
  readonly age?: Limit
  readonly dead?: Limit
  readonly unreadable?: Limit
  /** 0 to 1. */
  readonly failureRate?: Limit
}

export interface ThresholdOptions {
  readonly maxDue?: string
  readonly maxAge?: string
  readonly maxDead?: string
  readonly maxUnreadable?: string
  readonly maxFailureRate?: string
}

/** @throws SpooldError USAGE */
export function thresholdsOf(options: ThresholdOptions): Thresholds {
  const { maxDue, maxAge, maxDead, maxUnreadable, maxFailureRate } = options
  const limit = (flag: string, text: string | undefined, parse: (flag: string, text: string) => number) =>
    text === undefined ? undefined : limitOf(flag, text, parse)
  return withoutUndefined({
    due: limit('--max-due', maxDue, countOf),
    age: limit('--max-age', maxAge, ageOf),
    dead: limit('--max-dead', maxDead, countOf),
    unreadable: limit('--max-unreadable', maxUnreadable, countOf),
    failureRate: limit('--max-failure-rate', maxFailureRate, shareOf),
  })
}

/** `1000`: critical above it. `500,1000`: a warning above 500, critical above 1000. */
function limitOf(flag: string, text: string, parse: (flag: string, text: string) => number): Limit {
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

function countOf(flag: string, text: string): number {
  if (/^[0-9]{1,15}$/.test(text)) return Number(text)
  throw new SpooldError('USAGE', `${flag}: expected a whole number, got ${JSON.stringify(text)}`)
}

function shareOf(flag: string, text: string): number {
  const [, percent] = /^([0-9]+(?:\.[0-9]+)?)%?$/.exec(text) ?? []
  if (percent !== undefined && Number(percent) <= 100) return Number(percent) / 100
  throw new SpooldError('USAGE', `${flag}: expected a percentage such as 5%, got ${JSON.stringify(text)}`)
}

/** One value beside its limit. */
interface Measured {
  readonly name: string
  /** Null: unknown. */
  readonly value: number | null
  readonly limit: Limit
  readonly unit: string
  /** For people: what it is, and the same of a limit. */
  readonly text: string
  limitText(limit: number): string
}

export interface Verdict {
  readonly level: Level
  /** Why it is not OK. */
  readonly reasons: readonly string[]
  /** For monitoring: `due=3;500;1000`. */
  readonly performance: readonly string[]
}

/** Pure: what a status means under these thresholds. */
export function judge(status: SpoolStatus, thresholds: Thresholds): Verdict {
  if (status.source === 'none') return { level: 'UNKNOWN', reasons: [status.because], performance: [] }
  const measured = measure(status, thresholds)
  const complaints = measured.flatMap(complaintOf)
  if (isUnattended(status)) complaints.push(absence(status.because))
  return {
    level: worst(complaints.map(({ level }) => level)),
    reasons: complaints.map(({ reason }) => reason),
    performance: measured.map(performanceOf),
  }
}

/** The one that a person should hear of first: what is unknown hides nothing that is critical. */
export function worst(levels: readonly Level[]): Level {
  const order: readonly Level[] = ['OK', 'WARNING', 'UNKNOWN', 'CRITICAL']
  return levels.reduce<Level>((one, other) => (order.indexOf(other) > order.indexOf(one) ? other : one), 'OK')
}

/** How many tasks are due, also of those that are not in the daemon's memory; a lower bound if `isWhole` is false. */
export function dueOf({ tasks, atMs }: Exclude<SpoolStatus, { source: 'none' }>): {
  readonly count: number
  readonly isWhole: boolean
  /** How many more may be: they have just come, and nobody has looked at them yet. */
  readonly unseen: number
} {
  const { isWhole, stored, running, waiting } = tasks
  const count = backlogOf(tasks, atMs)
  if (isWhole || stored === null) return { count, isWhole, unseen: tasks.due + tasks.unseen - count }
  return { count: Math.max(count, stored - running - waiting), isWhole: true, unseen: 0 }
}

function measure(status: Exclude<SpoolStatus, { source: 'none' }>, thresholds: Thresholds): Measured[] {
  const { due, age, dead, unreadable, failureRate } = thresholds
  const all: Measured[] = []
  const { count, isWhole } = dueOf(status)
  if (due !== undefined) {
    const isSure = isWhole || count > due.critical
    const value = isSure ? count : null
    all.push({ name: 'due', value, limit: due, unit: '', text: `${count} due`, limitText: String })
  }
  const { oldestDueMs } = status.tasks
  if (age !== undefined) {
    const ageMs = count === 0 ? 0 : oldestDueMs === null ? null : Math.max(0, status.atMs - oldestDueMs)
    const text = `the oldest due task waits for ${shortDuration(ageMs ?? 0)}`
    all.push({ name: 'age', value: ageMs, limit: age, unit: 's', text, limitText: shortDuration })
  }
  if (dead !== undefined)
    all.push({
      name: 'dead',
      value: status.dead.isWhole || status.dead.count > dead.critical ? status.dead.count : null,
      limit: dead,
      unit: '',
      text: counted(status.dead.count, 'dead letter'),
      limitText: String,
    })
  if (unreadable !== undefined) {
    const value = status.tasks.unreadable
    const text = `${counted(value, 'task')} cannot be read or begun`
    all.push({ name: 'unreadable', value, limit: unreadable, unit: '', text, limitText: String })
  }
  if (failureRate !== undefined) {
    const share = status.source === 'daemon' ? (status.rates.failedShare ?? 0) : null
    const text = `${percent(share ?? 0)} of the runs failed`
    all.push({ name: 'failure_rate', value: share, limit: failureRate, unit: '%', text, limitText: percent })
  }
  return all
}

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

/** No daemon could be asked, and none of another machine says that it is there. */
function isUnattended(status: SpoolStatus): status is AloneStatus {
  const isAlone = status.source === 'directory' || status.source === 'redis'
  return isAlone && (status.redis?.members.length ?? 0) === 0
}

function absence(because: string | null): { level: Level; reason: string } {
  if (because === null) return { level: 'WARNING', reason: 'no daemon answers' }
  return { level: 'UNKNOWN', reason: `its daemon cannot be asked: ${because}` }
}

/** In the units that monitoring knows: seconds, percent. */
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

function withoutUndefined(
  thresholds: { [Key in keyof Thresholds]: Thresholds[Key] | undefined },
): Thresholds {
  return Object.fromEntries(Object.entries(thresholds).filter(([, limit]) => limit !== undefined))
}

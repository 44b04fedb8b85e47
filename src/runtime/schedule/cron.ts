import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { onDemand } from '../../base/on-demand.js'

const croner = onDemand<typeof import('croner')>('croner')

/** The times of a cron expression. Only this file uses croner. */
export interface CronTable {
  /** Returns the next time after this one, epoch ms; undefined if there is none. */
  next(afterMs: number): number | undefined
}

interface Field {
  readonly name: string
  readonly min: number
  readonly max: number
}

const FIELDS: readonly Field[] = [
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day', min: 1, max: 31 },
  { name: 'month', min: 1, max: 12 },
  { name: 'weekday', min: 0, max: 7 }, // 0 and 7 are Sunday
]
const [DAY, WEEKDAY] = [2, 4]

/**
 * @param expression five fields, each in uWSGI's notation (a number; -1: any; -5: multiples of 5) or cron's (lists, ranges,
 *   steps, names), or anything else that croner accepts: six fields with seconds first, `L`, `#`, `@daily`
 * @param zone null: the zone of this process
 * @throws SpooldError SCHEDULE_INVALID
 */
export function openCron(expression: string, zone: string | null): CronTable {
  const { pattern, needsBothDays } = translate(expression)
  try {
    const { Cron } = croner()
    const cron = new Cron(pattern, {
      paused: true,
      domAndDow: needsBothDays,
      ...(zone === null ? {} : { timezone: zone }),
    })
    cron.nextRun() // throws if the zone is invalid
    return { next: afterMs => cron.nextRun(new Date(afterMs))?.getTime() }
  } catch (error) {
    const where = zone === null ? '' : ` in the zone ${describe(zone)}`
    const reason = messageOf(error).replace(/^Cron\w+: |Original error: .*$/g, '')
    throw new SpooldError(
      'SCHEDULE_INVALID',
      `expected a cron expression, got ${describe(expression)}${where}: ${reason}`,
      {
        cause: error,
        details: { expression, zone },
      },
    )
  }
}

/**
 * Translates uWSGI's numbers to cron's notation (core/master_utils.c, uwsgi_cron_task_needs_execution). If day or weekday is
 * written as -n, or begins with * as in cron (entry.c, DOM_STAR and DOW_STAR), both have to match. Otherwise one is enough.
 */
function translate(expression: string): { pattern: string; needsBothDays: boolean } {
  const words = expression.trim().split(/\s+/)
  const isOpen = (i: number) => /^[-*]/.test(words.at(i - FIELDS.length) ?? '') // seconds may come first
  const needsBothDays = isOpen(DAY) || isOpen(WEEKDAY)
  if (words.length !== FIELDS.length) return { pattern: expression.trim(), needsBothDays }
  const fields = words.map((word, i) => translateField(word, FIELDS[i] as Field))
  return { pattern: fields.join(' '), needsBothDays }
}

function translateField(word: string, { name, min, max }: Field): string {
  if (!/^-?[0-9]+$/.test(word)) return word
  const number = Number(word)
  if (number === -1) return '*'
  if (number >= 0) {
    if (number < min || number > max) throw invalidField(name, min, max, word)
    return word
  }
  const step = -number
  // a step, not a list, because croner does not make up for steps in the hour that daylight saving time skips
  if (min === 0 && max > 7 && step <= max) return `*/${step}`
  const values = Array.from({ length: (max === 7 ? 6 : max) - min + 1 }, (_, i) => min + i)
  const matching = values.filter(value => value % step === 0)
  if (matching.length === 0) throw invalidField(name, min, max, word)
  return matching.join(',')
}

function invalidField(name: string, min: number, max: number, got: string): SpooldError {
  return new SpooldError(
    'SCHEDULE_INVALID',
    `expected a number from ${min} to ${max} for the ${name}, -1 for any or -n for those that n divides, got ${got}`,
    { details: { field: name, got } },
  )
}

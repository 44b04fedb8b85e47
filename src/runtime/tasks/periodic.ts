import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { isThenable } from '../../base/promise.js'
import type { PeriodicTask, Rhythm } from '../../base/task/schedule.js'
import { durationMs } from '../../base/task/terms.js'
import { DEFAULT_QUEUE } from '../../formats/protocol/named.js'
import { openCron } from '../schedule/cron.js'
import { issuesText, type StandardSchema } from './standard-schema.js'

/** The settings of a task that the daemon itself schedules. */
export interface PeriodicSettings {
  /** The period: seconds, or text such as `'5m'`. The first run is one period after the daemon has first seen the task. */
  readonly periodicity?: number | string
  /** Instead of a period: a cron expression, such as `'0 3 * * *'`. */
  readonly cron?: string
  /** The time zone of `cron`: an IANA name, such as `'Europe/Paris'`. Default: the daemon's. */
  readonly timeZone?: string
  /** After times at which no daemon ran: `'one'` run makes up for all of them (default), or none does (`'skip'`). */
  readonly missed?: 'one' | 'skip'
  /** True: the task is scheduled although its last run has not ended. Default false. */
  readonly overlap?: boolean
}

const SHORTEST_MS = 1000
/** The most characters of a cron expression or of the name of a zone, so that an entry in the spool has room for it. */
const LONGEST_CRON = 1000

/** For each setting, a check that returns what the value must be; undefined: the value is right. */
export const PERIODIC_CHECKS: Readonly<
  Record<keyof PeriodicSettings, (value: unknown) => string | undefined>
> = {
  periodicity: value =>
    (durationMs(value) ?? 0) < SHORTEST_MS ? "1 second or more: seconds, or text such as '5m'" : undefined,
  cron: value =>
    typeof value === 'string' && value.length <= LONGEST_CRON
      ? undefined
      : "a cron expression, such as '0 3 * * *'",
  timeZone: value =>
    typeof value === 'string' && value !== '' && value.length <= LONGEST_CRON
      ? undefined
      : "the name of a time zone, such as 'Europe/Paris'",
  missed: value => (value === 'one' || value === 'skip' ? undefined : "'one' or 'skip'"),
  overlap: value => (typeof value === 'boolean' ? undefined : 'true or false'),
}

/**
 * Returns the periodic task that the settings describe; undefined if they describe none. Each setting has been checked.
 *
 * @param what the task whose settings they are, for messages
 * @param fewest how many arguments the function needs
 * @throws SpooldError TASK_INVALID
 */
export function periodicOf(
  what: string,
  name: string,
  settings: PeriodicSettings & { readonly queue?: string | undefined },
  fewest: number,
): PeriodicTask | undefined {
  const { periodicity, cron, timeZone, missed, overlap, queue = DEFAULT_QUEUE } = settings
  const fault = faultOf(settings, fewest)
  if (fault !== undefined) throw invalid(`${what}: ${fault}`)
  const when = rhythmOf(what, { periodicity, cron, timeZone })
  if (when === undefined) return undefined
  return { kind: 'periodic', name, queue, when, missed: missed ?? 'one', overlap: overlap ?? false }
}

/**
 * Checks that a schema accepts a call without arguments. A schema that answers asynchronously is only checked at each run.
 *
 * @throws SpooldError TASK_INVALID if it does not, because a periodic task is called without arguments
 */
export function checkPeriodicSchema(what: string, schema: StandardSchema): void {
  let result: ReturnType<(typeof schema)['~standard']['validate']>
  try {
    result = schema['~standard'].validate([])
  } catch (error) {
    throw invalid(`${what}: its schema threw: ${messageOf(error)}`)
  }
  if (isThenable(result)) result.then(undefined, () => {})
  else if (result.issues !== undefined)
    throw invalid(
      `${what}: a periodic task is called without arguments, which its schema refuses: ${issuesText(result.issues)}`,
    )
}

function faultOf(settings: PeriodicSettings, fewest: number): string | undefined {
  const { periodicity, cron, timeZone } = settings
  const isPeriodic = periodicity !== undefined || cron !== undefined
  if (periodicity !== undefined && cron !== undefined) return 'periodicity and cron cannot both be given'
  if (timeZone !== undefined && cron === undefined) return 'timeZone is of no use without cron'
  for (const name of ['missed', 'overlap'] as const)
    if (settings[name] !== undefined && !isPeriodic) return `${name} is of no use without periodicity or cron`
  if (isPeriodic && fewest > 0)
    return `a periodic task is called without arguments, and this function needs ${fewest}`
  return undefined
}

function rhythmOf(
  what: string,
  {
    periodicity,
    cron,
    timeZone,
  }: { [Name in 'periodicity' | 'cron' | 'timeZone']: PeriodicSettings[Name] | undefined },
): Rhythm | undefined {
  if (periodicity !== undefined) return { everyMs: durationMs(periodicity) ?? 0 }
  if (cron === undefined) return undefined
  const zone = timeZone ?? null
  try {
    if (openCron(cron, zone).next(Date.now()) === undefined) throw new Error(`${describe(cron)} never comes`)
  } catch (error) {
    throw invalid(`${what}: cron: ${messageOf(error)}`)
  }
  return { expression: cron, zone }
}

function invalid(message: string): SpooldError {
  return new SpooldError('TASK_INVALID', message)
}

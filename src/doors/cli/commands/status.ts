import { doEach } from '../../../base/each.js'
import { SpooldError } from '../../../base/errors.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import type { Output } from '../output.js'
import { type IniOptions, type Place, spoolsOf } from '../places.js'
import { screenOf, summaryOf } from '../status/screen.js'
import { type SpoolStatus, statusAt, statusOf } from '../status/spool-status.js'
import {
  judge,
  LEVELS,
  type ThresholdOptions,
  type Thresholds,
  thresholdsOf,
  type Verdict,
  worst,
} from '../status/thresholds.js'

interface StatusOptions extends ThresholdOptions, IniOptions {
  readonly control?: string
  readonly json?: boolean
}

/** The version of the output of `--json`. */
const JSON_VERSION = 1
/** The number of spools that are looked at at the same time: each takes a few descriptors. */
const SPOOLS_AT_ONCE = 16

/**
 * `spoold status [DIR…]`: prints the state of spools, as their daemons tell it, or from the directories where no daemon answers.
 *
 * @returns the exit code of a monitoring plugin: 0 OK, 1 warning, 2 critical, 3 unknown
 */
export async function status(
  directories: readonly string[],
  options: StatusOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess } = context
  output.purpose = 'judge'
  const thresholds = thresholdsOf(options)
  const needsCount = options.maxDue !== undefined
  const { control, ini } = options
  if (control !== undefined) return report(await statusAt(control, needsCount), thresholds, options, output)
  if (directories.length === 0 && ini === undefined)
    throw new SpooldError('USAGE', 'name a spool directory, --ini FILE or --control PATH')
  const places = await spoolsOf(directories, options, context)
  return asOwners(ownProcess, places, async mine => {
    const statuses: SpoolStatus[][] = []
    const look = async ([i, { shown }]: [number, Place]) => {
      statuses[i] = await statusOf(shown, needsCount)
    }
    await doEach(mine.entries(), look, { atOnce: SPOOLS_AT_ONCE })
    return report(statuses.flat(), thresholds, options, output)
  })
}

function report(
  statuses: readonly SpoolStatus[],
  thresholds: Thresholds,
  { json }: StatusOptions,
  output: Output,
): number {
  const verdicts = statuses.map(each => judge(each, thresholds))
  const level = worst(verdicts.map(each => each.level))
  if (json === true) {
    const spools = statuses.map((each, i) => ({
      level: verdicts[i]?.level,
      reasons: verdicts[i]?.reasons,
      ...each,
    }))
    output.json({ version: JSON_VERSION, level, spools })
  } else {
    output.line(`SPOOLD ${level}: ${headline(statuses, verdicts)}`)
    for (const each of statuses) for (const line of screenOf(each)) output.line(line)
  }
  return LEVELS.indexOf(level)
}

/** Returns what is wrong, and how many tasks there are. If there are thresholds, the values for monitoring follow a `|`. */
function headline(statuses: readonly SpoolStatus[], verdicts: readonly Verdict[]): string {
  const isOne = new Set(statuses.map(({ directory }) => directory)).size === 1
  const named = statuses.map(({ directory }, i) => [directory, verdicts[i]] as const)
  const reasons = named.flatMap(([directory, verdict]) =>
    (verdict?.reasons ?? []).map(reason => (isOne ? reason : `${directory}: ${reason}`)),
  )
  const performance = named.flatMap(([directory, verdict]) =>
    (verdict?.performance ?? []).map(each =>
      isOne ? each : `'${directory.replaceAll(/['=|]/g, '_')} ${each.replace('=', "'=")}`,
    ),
  )
  const text = [
    ...new Set(reasons),
    ...(statuses.every(({ source }) => source === 'none') ? [] : [summaryOf(statuses)]),
  ].join('; ')
  return performance.length === 0 ? text : `${text} | ${highest(performance).join(' ')}`
}

/** Returns one value per label, because monitoring knows each label once: of several daemons of one spool, the highest value that one of them knows. */
function highest(performance: readonly string[]): string[] {
  const byLabel = new Map<string, string>()
  const numberIn = (each: string) => Number.parseFloat(each.slice(each.indexOf('=') + 1))
  for (const each of performance) {
    const label = each.slice(0, each.indexOf('='))
    const known = numberIn(byLabel.get(label) ?? '')
    if (Number.isNaN(known) || numberIn(each) > known) byLabel.set(label, each)
  }
  return [...byLabel.values()]
}

import { SpooldError } from '../../../base/errors.js'
import { printable } from '../../../base/printable.js'
import { resolveOptions } from '../../../formats/config/options.js'
import { readConfig } from '../../../formats/ini/read-config.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import type { Output } from '../output.js'
import { shownPath } from '../redis-paths.js'
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
import { readVersion } from '../version.js'

interface StatusOptions extends ThresholdOptions {
  readonly ini?: string
  readonly control?: string
  readonly json?: boolean
}

/** The form of `--json`. */
const JSON_VERSION = 1

/**
 * `spoold status [DIR…]`: how spools are, from their daemons, or from the directories where none answers.
 *
 * @returns as a monitoring plugin: 0, 1 warning, 2 critical, 3 unknown
 */
export async function status(
  directories: readonly string[],
  options: StatusOptions,
  { output, ownProcess }: CommandContext,
): Promise<number> {
  output.purpose = 'judge'
  const thresholds = thresholdsOf(options)
  const needsCount = thresholds.due !== undefined
  const { control, ini } = options
  if (control !== undefined) return report(await statusAt(control, needsCount), thresholds, options, output)
  const spools = directories.length > 0 ? directories.map(shownPath) : spoolsOf(ini)
  if (spools.length === 0)
    throw new SpooldError('USAGE', 'name a spool directory, --ini FILE or --control PATH')
  return asOwners(ownProcess, [...new Set(spools)], async mine => {
    const statuses = await Promise.all(mine.map(each => statusOf(each, needsCount)))
    return report(statuses.flat(), thresholds, options, output)
  })
}

function spoolsOf(ini: string | undefined): string[] {
  if (ini === undefined) return []
  const config = readConfig({ environment: {}, commandLine: [], files: [ini], version: readVersion() })
  const { spools } = resolveOptions(config)
  const [problem] = config.problems.errors
  if (problem !== undefined) throw new SpooldError('CONFIG_INVALID', `${ini}: ${problem.message}`)
  return spools.map(({ directory }) => shownPath(directory))
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
    output.line(JSON.stringify({ version: JSON_VERSION, level, spools }))
  } else {
    output.line(`SPOOLD ${level}: ${printable(headline(statuses, verdicts))}`)
    for (const each of statuses) for (const line of screenOf(each)) output.line(line)
  }
  return LEVELS.indexOf(level)
}

/** What is wrong, or how much there is; and what monitoring draws, if there are thresholds. */
function headline(statuses: readonly SpoolStatus[], verdicts: readonly Verdict[]): string {
  const isOne = statuses.length === 1
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
    ...reasons,
    ...(statuses.every(({ source }) => source === 'none') ? [] : [summaryOf(statuses)]),
  ].join('; ')
  return performance.length === 0 ? text : `${text} | ${performance.join(' ')}`
}

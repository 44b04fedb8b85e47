import { counted } from '../../../base/counted.js'
import { SpooldError } from '../../../base/errors.js'
import { checkSyntax, codeOf } from '../../../formats/config/check-syntax.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { type CheckedConfig, checkConfig, zoneOfSchedules } from '../../check/check.js'
import { checkLiveUwsgi } from '../../daemon/live-uwsgi.js'
import { lookerOf } from '../acting-owner.js'
import { type CommandContext, sourcesOf } from '../context.js'

/** `spoold check app.ini`: prints every error and warning with its place. @returns 1 if there is an error */
export function check(files: readonly string[], _options: object, context: CommandContext): number {
  const { output } = context
  output.purpose = 'judge'
  const config = checkConfig(sourcesOf(files, context))
  const { problems, files: read, spools } = config
  parse(config, output)
  checkLiveUwsgi(config, problems)
  for (const problem of problems.list) output.paragraph(formatProblem(problem))
  const { errors, warnings } = problems
  const isGood = errors.length === 0
  const zone = isGood ? zoneOfSchedules(config) : undefined
  if (zone !== undefined) output.line(zone)
  const verdict = isGood
    ? `the configuration is good (${counted(spools.filter(({ isExternal }) => !isExternal).length, 'spool')})`
    : counted(errors.length, 'error')
  output.line(`${read.join(', ') || 'no file'}: ${verdict}, ${counted(warnings.length, 'warning')}`)
  return isGood ? 0 : 1
}

/** Interpreters are run for whom root looks; if that is not clear, none is. */
function parse(config: CheckedConfig, output: CommandContext['output']): void {
  try {
    const looker = lookerOf(config, codeOf(config))
    checkSyntax(config, config.problems, looker?.identity)
  } catch (error) {
    if (!(error instanceof SpooldError)) throw error
    // who that is may be what is wrong, and said already
    if (config.problems.errors.length === 0) output.complain(`the handlers are not parsed: ${error.message}`)
  }
}

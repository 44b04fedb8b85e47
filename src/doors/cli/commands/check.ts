import { checkSyntax } from '../../../formats/config/check-syntax.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { checkConfig } from '../../check/check.js'
import { checkLiveUwsgi } from '../../daemon/live-uwsgi.js'
import { type CommandContext, sourcesOf } from '../context.js'

/** `spoold check app.ini`: prints every error and warning with its place. @returns 1 if there is an error */
export function check(files: readonly string[], _options: object, context: CommandContext): number {
  const { output } = context
  output.purpose = 'judge'
  const config = checkConfig(sourcesOf(files, context))
  const { problems, files: read, spools } = config
  checkSyntax(config, problems)
  checkLiveUwsgi(config, problems)
  for (const problem of problems.list) output.paragraph(formatProblem(problem))
  const { errors, warnings } = problems
  const isGood = errors.length === 0
  const verdict = isGood
    ? `the configuration is good (${count(
        spools.filter(({ isExternal }) => !isExternal),
        'spool',
      )})`
    : count(errors, 'error')
  output.line(`${read.join(', ') || 'no file'}: ${verdict}, ${count(warnings, 'warning')}`)
  return isGood ? 0 : 1
}

function count({ length }: readonly unknown[], word: string): string {
  return `${length} ${word}${length === 1 ? '' : 's'}`
}

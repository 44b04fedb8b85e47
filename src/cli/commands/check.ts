import { checkConfig } from '../../config/check.js'
import type { Sources } from '../../config/read-config.js'
import { formatProblem } from '../../config/setting.js'
import { output } from '../output.js'

/** `spoold check app.ini`: every error and warning with its place. @returns 1 when there is an error */
export function check(sources: Sources): number {
  output.purpose = 'judge'
  const { problems, files, options } = checkConfig(sources)
  for (const problem of problems.list) output.line(formatProblem(problem))
  const { errors, warnings } = problems
  const isGood = errors.length === 0
  const verdict = isGood
    ? `the configuration is good (${count(options.spooler, 'spool')})`
    : count(errors, 'error')
  output.line(`${files.join(', ') || 'no file'}: ${verdict}, ${count(warnings, 'warning')}`)
  return isGood ? 0 : 1
}

function count({ length }: readonly unknown[], word: string): string {
  return `${length} ${word}${length === 1 ? '' : 's'}`
}

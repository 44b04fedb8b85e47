import { checkConfig } from '../../config/check.js'
import type { Sources } from '../../config/read-config.js'
import { formatProblem } from '../../config/setting.js'

/** `spoold check app.ini`: every error and warning with its place. @returns 1 when there is an error */
export function check(sources: Sources): number {
  const { problems, files, options } = checkConfig(sources)
  for (const problem of problems.list) console.log(formatProblem(problem))
  const { errors, warnings } = problems
  const spools = options.spooler.length === 1 ? '1 spool' : `${options.spooler.length} spools`
  const verdict = errors.length === 0 ? `the configuration is good (${spools})` : `${errors.length} errors`
  console.log(`${files.join(', ') || 'no file'}: ${verdict}, ${warnings.length} warnings`)
  return errors.length === 0 ? 0 : 1
}

import { printable } from '../../base/printable.js'
import { type EffectiveSetting, effectiveSettings } from '../../config/effective.js'
import { resolveOptions } from '../../config/options.js'
import { readConfig } from '../../ini/read-config.js'
import { formatProblem, formatWhere } from '../../ini/setting.js'
import { type CommandContext, sourcesOf } from '../context.js'

/**
 * `spoold config app.ini`, like uWSGI's `--show-config`: prints the value of every option that has one, below a comment
 * that says where it was written. The output is an equivalent ini file.
 *
 * @returns 1 if something cannot be read; the rest is printed
 */
export function config(files: readonly string[], _options: object, context: CommandContext): number {
  const { output } = context
  output.purpose = 'look'
  const read = readConfig(sourcesOf(files, context))
  for (const line of asIni(effectiveSettings(read, resolveOptions(read)))) output.line(line)
  const { errors } = read.problems
  for (const problem of errors) output.complain(formatProblem(problem))
  return errors.length === 0 ? 0 : 1
}

function* asIni(settings: Iterable<EffectiveSetting>): Generator<string> {
  yield '[uwsgi]'
  let above = ''
  for (const { option, value, where } of settings) {
    const origin = where === undefined ? 'default' : printable(formatWhere(where))
    if (origin !== above) yield `; ${origin}`
    above = origin
    yield `${option} = ${printable(value).replaceAll('%', '%%')}`
  }
}

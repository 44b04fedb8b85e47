import {
  type EffectiveSetting,
  effectiveSettings,
  effectiveSpools,
  originOf,
} from '../../../formats/config/effective.js'
import { type ResolvedOptions, resolveOptions } from '../../../formats/config/options.js'
import { readConfig } from '../../../formats/ini/read-config.js'
import { formatProblem } from '../../../formats/ini/setting.js'
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
  for (const line of asIni(resolveOptions(read))) output.line(line)
  const { errors } = read.problems
  for (const problem of errors) output.complainAtLength(formatProblem(problem))
  return errors.length === 0 ? 0 : 1
}

function* asIni(resolved: ResolvedOptions): Generator<string> {
  yield '[uwsgi]'
  for (const { directory, values, ...setting } of effectiveSpools(resolved)) {
    yield `; ${originOf(setting)}`
    yield lineOf(setting)
    if (values.length > 0) yield `; the configured options of ${directory}:`
    for (const value of values) yield `;   ${lineOf(value)} (${originOf(value)})`
  }
  let above = ''
  for (const setting of effectiveSettings(resolved)) {
    if (originOf(setting) !== above) yield `; ${originOf(setting)}`
    above = originOf(setting)
    yield lineOf(setting)
  }
}

function lineOf({ option, value }: EffectiveSetting): string {
  return `${option} = ${value.replaceAll('%', '%%')}`
}

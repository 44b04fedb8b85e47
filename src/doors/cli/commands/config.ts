import { resolveOptions } from '../../../formats/config/options.js'
import { shownSettings } from '../../../formats/config/shown-settings.js'
import type { ToldSetting } from '../../../formats/control/configuration.js'
import { readConfig } from '../../../formats/ini/read-config.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { Hide, keysOf } from '../../../formats/protocol/hide.js'
import { type CommandContext, sourcesOf } from '../context.js'

interface ConfigOptions {
  readonly withSecrets?: boolean
}

/**
 * `spoold config app.ini`, like uWSGI's `--show-config`: prints the value of every option that has one, below a comment
 * that says where it was written. With what may be secret, the output is an equivalent ini file.
 *
 * @returns 1 if something cannot be read; the rest is printed
 */
export function config(
  files: readonly string[],
  { withSecrets = false }: ConfigOptions,
  context: CommandContext,
): number {
  const { output } = context
  output.purpose = 'look'
  const read = readConfig(sourcesOf(files, context))
  const resolved = resolveOptions(read)
  const hide = withSecrets ? null : new Hide(keysOf(resolved.options.spoolerHide))
  for (const line of asIni(shownSettings(resolved, hide))) output.line(line)
  const { errors } = read.problems
  for (const problem of errors) output.complainAtLength(formatProblem(problem))
  return errors.length === 0 ? 0 : 1
}

/** Of a spool with options of its own, these are comments: its own line has them. */
function* asIni(settings: Iterable<ToldSetting>): Generator<string> {
  yield '[uwsgi]'
  let above = ''
  for (const setting of settings) {
    const { spool, from } = setting
    const head = spool === undefined ? from : `the configured options of ${spool}:`
    if (head !== above) yield `; ${head}`
    above = head
    yield spool === undefined ? lineOf(setting) : `;   ${lineOf(setting)} (${from})`
  }
}

function lineOf({ option, value }: ToldSetting): string {
  return `${option} = ${value.replaceAll('%', '%%')}`
}

import { resolve } from 'node:path'
import { counted } from '../../../base/counted.js'
import { SpooldError } from '../../../base/errors.js'
import { checkSyntax, codeOf } from '../../../formats/config/check-syntax.js'
import { type ResolvedOptions, resolveOptions } from '../../../formats/config/options.js'
import { seenByHandlers, shownSettings } from '../../../formats/config/shown-settings.js'
import type { ToldSetting } from '../../../formats/control/configuration.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { Hide, keysOf } from '../../../formats/protocol/hide.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { realPathOf } from '../../../system/file-stats.js'
import { type CheckedConfig, checkConfig, zoneOfSchedules } from '../../check/check.js'
import { checkLiveUwsgi } from '../../daemon/live-uwsgi.js'
import { lookerOf } from '../acting-owner.js'
import { type CommandContext, sourcesOf } from '../context.js'
import { readSources } from '../places.js'

/** `spoold check app.ini`: prints every error and warning with its place. @returns 1 if there is an error */
export async function check(
  files: readonly string[],
  _options: object,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'judge'
  const sources = sourcesOf(files, context)
  const config = checkConfig(sources, await readSources(sources, output))
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

/** Parses the handlers. Root runs the interpreters as the user for whom it looks; if that user is not clear, it runs none. */
function parse(config: CheckedConfig, output: CommandContext['output']): void {
  try {
    const looker = lookerOf(config, codeOf(config))
    checkSyntax(config, config.problems, looker?.identity)
  } catch (error) {
    if (!(error instanceof SpooldError)) throw error
    // the reason may be an error of the configuration, which is reported already
    if (config.problems.errors.length === 0) output.complain(`the handlers are not parsed: ${error.message}`)
  }
}

interface ConfigOptions {
  readonly withSecrets?: boolean
  readonly asJson?: boolean
}

/**
 * `spoold config app.ini`, like uWSGI's `--show-config`: prints the value of every option that has one, below a comment
 * that says where it was written. With `--with-secrets`, the output is an equivalent ini file.
 *
 * @returns 1 if something cannot be read; the rest is printed
 */
export async function config(
  files: readonly string[],
  { withSecrets = false, asJson = false }: ConfigOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'look'
  const read = await readSources(sourcesOf(files, context), output)
  const resolved = resolveOptions(read)
  const hide = withSecrets ? null : new Hide(keysOf(resolved.options.spoolerHide))
  const { errors } = read.problems
  if (asJson) output.json({ ...toJson(resolved, hide), errors: errors.map(formatProblem) }, 2)
  else for (const line of asIni(shownSettings(resolved, hide))) output.line(line)
  for (const problem of errors) output.complainAtLength(formatProblem(problem))
  return errors.length === 0 ? 0 : 1
}

/** Returns for programs where tasks go, in the daemon's order, what handlers see as `uwsgi.opt`, and every setting. */
function toJson(resolved: ResolvedOptions, hide: Hide | null) {
  const spools = resolved.spools.map(
    ({ directory, isExternal, options: { spoolerSync, spoolerOrdered } }) => ({
      spool: nameOf(hide === null ? directory : hide.configured(directory)),
      isExternal,
      isOrdered: spoolerOrdered !== false,
      isSynced: spoolerSync,
    }),
  )
  return {
    spools,
    options: [...seenByHandlers(resolved, hide)],
    settings: [...shownSettings(resolved, hide)],
  }
}

/** Returns the name that a daemon started in this directory gives to a spool. */
function nameOf(directory: string): string {
  return isRedisAddress(directory) ? directory : (realPathOf(directory) ?? resolve(directory))
}

/** Yields the lines of an ini file. A spool's own options are comments, because the line that declares the spool has them too. */
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

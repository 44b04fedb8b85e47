import { describe } from '../base/errors.js'
import { LOGIC_KEYS } from '../ini/logic.js'
import { type Config, ENVIRONMENT } from '../ini/read-config.js'
import { formatWhere, type Problems, type Setting, type Where } from '../ini/setting.js'
import { coerce } from './coerce.js'
import {
  findOption,
  OPTION_TABLE,
  type OptionSpec,
  type Options,
  optionNames,
  propertyName,
} from './option-table.js'
import { suggestName } from './suggestion.js'
import { uwsgiArity } from './uwsgi-names.js'

export interface ResolvedOptions {
  readonly options: Options
  /** Where an option, or each value of a list, was written. */
  readonly origins: ReadonlyMap<string, readonly Where[]>
  /** Everything that was set, known or not, placeholders too, in its order: what handlers see as `uwsgi.opt`. */
  readonly settings: ReadonlyArray<readonly [key: string, value: string]>
  /** Where tasks may be put: `spooler` and `spooler-external`, in their order; the first is the default, as in uWSGI. */
  readonly spoolTargets: readonly string[]
  /** What `env` and `unenv` ask for, in their order; undefined removes. */
  readonly environment: ReadonlyArray<readonly [name: string, value: string | undefined]>
}

/** uWSGI's other kinds of configuration. */
const OTHER_FILES = new Set(['xml', 'xmlconfig', 'yaml', 'yml', 'json', 'js'])

/** The typed options, defaults filled in. What is wrong is added to the configuration's problems. */
export function resolveOptions(config: Config): ResolvedOptions {
  const values = new Map<string, unknown>(
    OPTION_TABLE.map((spec: OptionSpec) => [spec.name, defaultOf(spec)]),
  )
  const origins = new Map<string, Where[]>()
  const spoolTargets: string[] = []
  const environment: Array<readonly [string, string | undefined]> = []
  for (const setting of config.settings) {
    const spec = findOption(setting.key)
    if (spec === undefined || setting.isPlaceholder === true) continue
    if (spec.name === 'env' || spec.name === 'unenv')
      environment.push(...environmentChange(setting, config.problems))
    if (spec.name === 'spooler' || spec.name === 'spooler-external') spoolTargets.push(setting.value)
    if (spec.kind !== 'directive') apply(spec, setting, values, origins, config.problems)
  }
  reportUnknown(config, values.get('strict') === true)
  const named = OPTION_TABLE.filter(({ kind }) => kind !== 'directive').map((spec: OptionSpec) => [
    propertyName(spec),
    values.get(spec.name),
  ])
  const settings = config.settings.map(({ key, value }) => [key, value] as const)
  return { options: Object.fromEntries(named) as Options, origins, settings, spoolTargets, environment }
}

function defaultOf({ isList, kind, fallback }: OptionSpec): unknown {
  if (isList) return []
  return kind === 'seconds' && typeof fallback === 'number' ? fallback * 1000 : fallback
}

function apply(
  spec: OptionSpec,
  setting: Setting,
  values: Map<string, unknown>,
  origins: Map<string, Where[]>,
  problems: Problems,
): void {
  if (spec.isList && setting.value === '' && spec.group === 'handlers')
    return problems.warning(
      setting.where,
      `${setting.key}: expected ${spec.value}, got nothing; it is left out`,
    )
  const { value, error, warning } = coerce(spec, setting.value)
  if (error !== undefined) return problems.error(setting.where, `${setting.key}: ${error}`)
  if (warning !== undefined) problems.warning(setting.where, `${setting.key}: ${warning}`)
  const [earlier] = origins.get(spec.name) ?? []
  const isAgain = earlier?.file === setting.where.file && (earlier.line ?? 0) < (setting.where.line ?? 0)
  if (!spec.isList && isAgain)
    problems.warning(
      setting.where,
      `${setting.key} is given again: this value counts, not that of line ${earlier.line}`,
    )
  const before = values.get(spec.name)
  values.set(spec.name, spec.isList ? [...(Array.isArray(before) ? before : []), value] : value)
  origins.set(spec.name, spec.isList ? [...(origins.get(spec.name) ?? []), setting.where] : [setting.where])
}

/** `env = NAME` without a value removes, as putenv(3) does. */
function environmentChange(
  { key, value, where }: Setting,
  problems: Problems,
): Array<readonly [string, string | undefined]> {
  const cut = value.indexOf('=')
  const name = key === 'unenv' || cut < 0 ? value : value.slice(0, cut)
  const isName = name !== '' && !name.includes('=')
  if (!isName) {
    const expected = key === 'env' ? 'NAME=VALUE' : 'NAME'
    problems.error(where, `${key}: expected ${expected}, got ${describe(value)}`)
    return []
  }
  if (key === 'env' && cut < 0)
    problems.warning(where, `env: expected NAME=VALUE, got ${describe(value)}, which removes the variable`)
  return [[name, key === 'unenv' || cut < 0 ? undefined : value.slice(cut + 1)]]
}

/** What is uWSGI's and has no meaning here is named once; what nobody knows is probably misspelt. */
function reportUnknown({ settings, references, problems }: Config, isStrict: boolean): void {
  const known = new Set([...optionNames(), ...LOGIC_KEYS])
  const ignored = new Map<string, Where>()
  for (const setting of settings) {
    const { key, where } = setting
    const isIgnored = uwsgiArity(key) !== undefined
    if (setting.isPlaceholder === true) {
      if (known.has(key) || isIgnored)
        problems.error(where, `${key} is an option, so it cannot be a placeholder; write set = ${key}=…`)
    } else if (known.has(key)) continue
    else if (OTHER_FILES.has(key) && setting.value !== '')
      problems.error(
        where,
        `${key}: ${setting.value}: expected an ini file; spoold reads no other kind, so convert it`,
      )
    else if (isIgnored) ignored.set(key, ignored.get(key) ?? where)
    // a variable SPOOLD_… may be another program's; UWSGI_… is an error in uWSGI too
    else if (isStrict && !where.file.startsWith(`${ENVIRONMENT}SPOOLD_`))
      problems.error(where, complaint(setting))
    else if (!references.has(key)) problems.warning(where, complaint(setting))
  }
  const [first] = ignored.values()
  if (first === undefined) return
  const list = [...ignored].map(([key, where]) => `${key} (${formatWhere(where)})`).join(', ')
  problems.warning(first, `these options of uWSGI have no effect in spoold: ${list}`)
}

function complaint({ key, value }: Setting): string {
  const [, before = ''] = /^([\w-]+)\s*:/.exec(key) ?? []
  if (findOption(before) !== undefined)
    return `unknown option ${describe(key)}; write ${before} = …, with = instead of :`
  if (key === '') return `expected KEY = VALUE, got ${describe(`= ${value}`)}`
  return `unknown option ${describe(key)}${suggestName(key)}`
}

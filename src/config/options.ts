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
  type SpoolOptions,
} from './option-table.js'
import { suggestName } from './suggestion.js'
import { uwsgiArity } from './uwsgi-names.js'

/** Where each option, or each value of a list, was written. An option without an entry has its default. */
type Origins = ReadonlyMap<string, readonly Where[]>

/** A spool named in the configuration, with its option values. */
export interface SpoolConfig {
  /** As written in the configuration. */
  readonly directory: string
  readonly where: Where
  /** `spooler-external`: another daemon runs its tasks. */
  readonly isExternal: boolean
  readonly options: SpoolOptions
  readonly origins: Origins
}

export interface ResolvedOptions {
  /** The daemon's options. */
  readonly options: Options
  readonly origins: Origins
  /** In order, with repetitions. Tasks may be enqueued in each; the first is the default, as in uWSGI. */
  readonly spools: readonly SpoolConfig[]
  /** The options of a spool that the configuration does not name. */
  readonly anySpool: SpoolOptions
  /** Every setting in order, including unknown ones and placeholders: handlers see them as `uwsgi.opt`. */
  readonly settings: ReadonlyArray<readonly [key: string, value: string]>
  /** The changes by `env` and `unenv`, in order; undefined removes the variable. */
  readonly environment: ReadonlyArray<readonly [name: string, value: string | undefined]>
}

/** The place of an option that is not written anywhere. */
const NOWHERE: Where = { file: 'configuration' }

/** Where an option, or the `i`th value of a list, was written; for messages. */
export function originOf({ origins }: { readonly origins: Origins }, name: string, i = 0): Where {
  return origins.get(name)?.[i] ?? NOWHERE
}

/** These define spools, and are options neither of the daemon nor of a spool. */
const NAMES_SPOOLS = new Set(['spooler', 'spooler-external'])
/** uWSGI's other configuration formats. */
const OTHER_FILES = new Set(['xml', 'xmlconfig', 'yaml', 'yml', 'json', 'js'])

/** The typed options, with defaults filled in. Errors and warnings are added to the configuration's problems. */
export function resolveOptions(config: Config): ResolvedOptions {
  const values = new Map<string, unknown>(
    OPTION_TABLE.map((spec: OptionSpec) => [spec.name, defaultOf(spec)]),
  )
  const origins = new Map<string, Where[]>()
  const named: Array<Pick<SpoolConfig, 'directory' | 'where' | 'isExternal'>> = []
  const environment: Array<readonly [string, string | undefined]> = []
  for (const setting of config.settings) {
    const spec = findOption(setting.key)
    if (spec === undefined || setting.isPlaceholder === true) continue
    if (spec.name === 'env' || spec.name === 'unenv')
      environment.push(...environmentChange(setting, config.problems))
    if (spec.kind === 'directive') continue
    const isTaken = apply(spec, setting, values, origins, config.problems)
    if (isTaken && NAMES_SPOOLS.has(spec.name))
      named.push({
        directory: setting.value,
        where: setting.where,
        isExternal: spec.name === 'spooler-external',
      })
  }
  reportUnknown(config, values.get('strict') === true)
  const anySpool = typed(values, isPerSpool) as SpoolOptions
  return {
    options: typed(values, spec => !isPerSpool(spec) && !NAMES_SPOOLS.has(spec.name)) as Options,
    origins,
    spools: named.map(spool => ({ ...spool, options: anySpool, origins })),
    anySpool,
    settings: config.settings.map(({ key, value }) => [key, value] as const),
    environment,
  }
}

const isPerSpool = ({ perSpool }: OptionSpec) => perSpool === true

function typed(values: ReadonlyMap<string, unknown>, isWanted: (spec: OptionSpec) => boolean): object {
  const wanted = OPTION_TABLE.filter((spec: OptionSpec) => spec.kind !== 'directive' && isWanted(spec))
  return Object.fromEntries(wanted.map((spec: OptionSpec) => [propertyName(spec), values.get(spec.name)]))
}

function defaultOf({ isList, kind, fallback }: OptionSpec): unknown {
  if (isList) return []
  return kind === 'seconds' && typeof fallback === 'number' ? fallback * 1000 : fallback
}

/** @returns false if the setting was left out; the reason is in `problems` */
function apply(
  spec: OptionSpec,
  setting: Setting,
  values: Map<string, unknown>,
  origins: Map<string, Where[]>,
  problems: Problems,
): boolean {
  if (spec.isList && setting.value === '' && spec.group === 'handlers') {
    problems.warning(setting.where, `${setting.key}: expected ${spec.value}, got nothing; it is left out`)
    return false
  }
  const { value, error, warning } = coerce(spec, setting.value)
  if (error !== undefined) {
    problems.error(setting.where, `${setting.key}: ${error}`)
    return false
  }
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
  return true
}

/** `env = NAME` without a value removes the variable, as putenv(3) does. */
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

/** A suggestion compares the key with every option, and a file with more unknown keys than this is some other file. */
const MAX_SUGGESTIONS = 100

/** Lists the uWSGI options without effect in one warning. Any other unknown key is probably misspelt. */
function reportUnknown({ settings, references, problems }: Config, isStrict: boolean): void {
  let suggestions = 0
  const complaint = (setting: Setting) => unknownOption(setting, suggestions++ < MAX_SUGGESTIONS)
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
    // a SPOOLD_… variable may belong to another program; an unknown UWSGI_… variable is an error in uWSGI too
    else if (isStrict && !where.file.startsWith(`${ENVIRONMENT}SPOOLD_`))
      problems.error(where, complaint(setting))
    else if (!references.has(key)) problems.warning(where, complaint(setting))
  }
  const [first] = ignored.values()
  if (first === undefined) return
  const list = [...ignored].map(([key, where]) => `${key} (${formatWhere(where)})`).join(', ')
  problems.warning(first, `these options of uWSGI have no effect in spoold: ${list}`)
}

function unknownOption({ key, value }: Setting, isSuggested: boolean): string {
  const [, before = ''] = /^([\w-]+)\s*:/.exec(key) ?? []
  if (findOption(before) !== undefined)
    return `unknown option ${describe(key)}; write ${before} = …, with = instead of :`
  if (key === '') return `expected KEY = VALUE, got ${describe(`= ${value}`)}`
  return `unknown option ${describe(key)}${isSuggested ? suggestName(key) : ''}`
}

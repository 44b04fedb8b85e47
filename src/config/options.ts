import leven from 'leven'
import { coerce } from './coerce.js'
import { LOGIC_KEYS } from './ini-logic.js'
import {
  findOption,
  OPTION_TABLE,
  type OptionSpec,
  type Options,
  optionNames,
  propertyName,
} from './option-table.js'
import type { Config } from './read-config.js'
import { formatWhere, type Problems, type Setting, type Where } from './setting.js'
import { uwsgiArity } from './uwsgi-names.js'

export interface ResolvedOptions {
  readonly options: Options
  /** Where an option, or each value of a list, was written. */
  readonly origins: ReadonlyMap<string, readonly Where[]>
  /** What `env` and `unenv` ask for, in their order; undefined removes. */
  readonly environment: ReadonlyArray<readonly [name: string, value: string | undefined]>
}

/** The typed options, defaults filled in. What is wrong is added to the configuration's problems. */
export function resolveOptions(config: Config): ResolvedOptions {
  const values = new Map<string, unknown>(
    OPTION_TABLE.map((spec: OptionSpec) => [spec.name, defaultOf(spec)]),
  )
  const origins = new Map<string, Where[]>()
  const environment: Array<[string, string | undefined]> = []
  const isStrict = config.settings.some(({ key, value }) => key === 'strict' && coerceStrict(value))
  for (const setting of config.settings) {
    const spec = findOption(setting.key)
    if (spec === undefined) continue
    if (spec.name === 'env' || spec.name === 'unenv')
      environment.push(environmentChange(setting, config.problems))
    if (spec.kind !== 'directive') apply(spec, setting, values, origins, config.problems)
  }
  reportUnknown(config, isStrict)
  const named = OPTION_TABLE.filter(({ kind }) => kind !== 'directive').map((spec: OptionSpec) => [
    propertyName(spec),
    values.get(spec.name),
  ])
  return { options: Object.fromEntries(named) as Options, origins, environment }
}

function coerceStrict(value: string): boolean {
  return !['false', 'off', 'no', '0'].includes(value.toLowerCase())
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
  const { value, error, warning } = coerce(spec, setting.value)
  if (error !== undefined) return problems.error(setting.where, `${setting.key}: ${error}`)
  if (warning !== undefined) problems.warning(setting.where, `${setting.key}: ${warning}`)
  const before = values.get(spec.name)
  values.set(spec.name, spec.isList ? [...(Array.isArray(before) ? before : []), value] : value)
  origins.set(spec.name, spec.isList ? [...(origins.get(spec.name) ?? []), setting.where] : [setting.where])
}

function environmentChange({ key, value, where }: Setting, problems: Problems): [string, string | undefined] {
  const cut = value.indexOf('=')
  if (key === 'unenv') return [value, undefined]
  if (cut <= 0) problems.error(where, `env expects NAME=VALUE, got "${value}"`)
  return [value.slice(0, cut), value.slice(cut + 1)]
}

/** What is uWSGI's and has no meaning here is named once; what nobody knows is probably misspelt. */
function reportUnknown({ settings, references, problems }: Config, isStrict: boolean): void {
  const known = new Set([...optionNames(), ...LOGIC_KEYS])
  const ignored = new Map<string, Where>()
  const placeholders = new Set(
    settings.flatMap(({ key, value }) =>
      /^set-(ph|placeholder)$/.test(key) ? [value.split('=')[0] ?? ''] : [],
    ),
  )
  for (const { key, where } of settings) {
    if (known.has(key) || placeholders.has(key)) continue
    if (uwsgiArity(key) !== undefined) ignored.set(key, ignored.get(key) ?? where)
    else if (isStrict) problems.error(where, `unknown option "${key}"${suggestion(key)}`)
    else if (!references.has(key)) problems.warning(where, `unknown option "${key}"${suggestion(key)}`)
  }
  const [first] = ignored.values()
  if (first === undefined) return
  const list = [...ignored].map(([key, where]) => `${key} (${formatWhere(where)})`).join(', ')
  problems.warning(first, `these options of uWSGI have no effect in spoold: ${list}`)
}

/** `; did you mean "spooler-ordered"?` when something is near enough. */
function suggestion(key: string): string {
  const wanted = key.replaceAll('_', '-')
  const [best] = optionNames()
    .map(name => ({ name, distance: leven(wanted, name) }))
    .sort((a, b) => a.distance - b.distance)
  return best !== undefined && best.distance <= Math.max(2, wanted.length / 4)
    ? `; did you mean "${best.name}"?`
    : ''
}

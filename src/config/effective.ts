import type { Config } from '../ini/read-config.js'
import type { Where } from '../ini/setting.js'
import { findOption, OPTION_TABLE, type OptionSpec, propertyName } from './option-table.js'
import type { ResolvedOptions } from './options.js'

/** An effective value, as it would be written in an ini file. */
export interface EffectiveSetting {
  readonly option: string
  readonly value: string
  /** undefined: not configured, so this is the default. */
  readonly where: Where | undefined
}

/** The value of every option that has one, in table order; then the changes to the environment. */
export function* effectiveSettings(
  { settings }: Config,
  resolved: ResolvedOptions,
): Generator<EffectiveSetting> {
  for (const spec of OPTION_TABLE) yield* settingsOf(spec, resolved)
  for (const { key, value, where, isPlaceholder } of settings)
    if (isPlaceholder !== true && ['env', 'unenv'].includes(findOption(key)?.name ?? ''))
      yield { option: key, value, where }
}

function* settingsOf(spec: OptionSpec, resolved: ResolvedOptions): Generator<EffectiveSetting> {
  const { name: option, kind, isList } = spec
  if (option === 'spooler' || option === 'spooler-external') {
    for (const { directory, where, isExternal } of resolved.spools)
      if (isExternal === (option === 'spooler-external')) yield { option, value: directory, where }
  } else if (kind !== 'directive') {
    const values: Readonly<Record<string, unknown>> = { ...resolved.options, ...resolved.anySpool }
    const value = values[propertyName(spec)]
    const origins = resolved.origins.get(option) ?? []
    const each = isList && Array.isArray(value) ? value : value === null ? [] : [value]
    for (const [i, one] of each.entries()) yield { option, value: textOf(spec, one), where: origins[i] }
  }
}

/** The value as an ini file would have it, in the option's own unit. */
function textOf({ kind }: OptionSpec, value: unknown): string {
  if (kind === 'seconds') return String(Number(value) / 1000)
  return kind === 'octal' ? Number(value).toString(8).padStart(3, '0') : String(value)
}

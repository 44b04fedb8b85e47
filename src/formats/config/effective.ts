import { formatKeyvals } from '../../base/keyval.js'
import { printable } from '../../base/printable.js'
import { formatWhere, type Where } from '../ini/setting.js'
import { findOption, OPTION_TABLE, type OptionSpec, propertyName } from './option-table.js'
import type { ResolvedOptions } from './options.js'
import type { SpoolConfig, SpoolSettings } from './spools.js'

/** An effective value, as it would be written in an ini file. */
export interface EffectiveSetting {
  readonly option: string
  readonly value: string
  /** Undefined: the option is not configured, so this is the default. */
  readonly where: Where | undefined
}

interface EffectiveSpool extends EffectiveSetting {
  readonly directory: string
  /** The options of a `spooler2`: its own, and those that are configured for all spools. Empty for other spools. */
  readonly values: readonly EffectiveSetting[]
}

/** Returns where the setting was written, for people. */
export function originOf({ where }: EffectiveSetting): string {
  return where === undefined ? 'default' : printable(formatWhere(where))
}

/** Returns the spools in the order of the configuration. */
export function effectiveSpools({ spools }: ResolvedOptions): EffectiveSpool[] {
  return spools.map(spool => {
    const { directory, where, describedBy: option } = spool
    if (option !== 'spooler2') return { directory, option, value: directory, where, values: [] }
    const values = [...valuesOf(spool)].filter(each => each.where !== undefined)
    return { directory, option, value: description(spool, values), where, values }
  })
}

/** Yields the value of every other option that has one, in table order; then the changes to the environment. */
export function* effectiveSettings({
  settings,
  options,
  anySpool,
}: ResolvedOptions): Generator<EffectiveSetting> {
  yield* valuesOf({ ...anySpool, options: { ...options, ...anySpool.options } })
  for (const { key, value, where, isPlaceholder } of settings)
    if (isPlaceholder !== true && ['env', 'unenv'].includes(findOption(key)?.name ?? ''))
      yield { option: key, value, where }
}

/** Returns the value of `spooler2` that describes this spool. */
function description(
  { directory, isExternal, ownKeys }: SpoolConfig,
  values: readonly EffectiveSetting[],
): string {
  const own = values.flatMap(({ option, value }) => {
    const key = ownKeys.get(option)
    return key === undefined ? [] : [{ key, value }]
  })
  const external = isExternal ? [{ key: 'external', value: undefined }] : []
  return formatKeyvals([{ key: 'dir', value: directory }, ...external, ...own])
}

type Written = Pick<SpoolSettings, 'options' | 'origins' | 'handlers'>

function* valuesOf({ options, origins, handlers }: Written): Generator<EffectiveSetting> {
  const values: Readonly<Record<string, unknown>> = { ...options }
  let haveHandlers = false
  for (const spec of OPTION_TABLE as readonly OptionSpec[]) {
    const { name: option, isList, givesHandlers } = spec
    const value = values[propertyName(spec)]
    if (value === undefined || value === null) continue
    if (isList && givesHandlers) {
      // handlers are listed in the order in which they were written, across their options
      if (!haveHandlers) yield* inOrder(handlers, origins)
      haveHandlers = true
      continue
    }
    const each = Array.isArray(value) ? value : [value]
    for (const [i, one] of each.entries())
      yield { option, value: textOf(spec, one), where: origins.get(option)?.[i] }
  }
}

function* inOrder(handlers: Written['handlers'], origins: Written['origins']): Generator<EffectiveSetting> {
  const counts = new Map<string, number>()
  for (const [option, value] of handlers) {
    const i = counts.get(option) ?? 0
    counts.set(option, i + 1)
    yield { option, value, where: origins.get(option)?.[i] }
  }
}

/** Returns the value as an ini file would have it, in the option's own unit. */
function textOf({ kind }: OptionSpec, value: unknown): string {
  if (kind === 'seconds') return String(Number(value) / 1000)
  if (kind === 'megabytes') return String(Number(value) / 1024 / 1024)
  return kind === 'octal' ? Number(value).toString(8).padStart(3, '0') : String(value)
}

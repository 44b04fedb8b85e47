import { basename, dirname, join, resolve } from 'node:path'
import { describe } from '../../base/errors.js'
import { type KeyValue, parseKeyvals } from '../../base/keyval.js'
import { realPathOf } from '../../system/file-stats.js'
import { formatWhere, type Problems, type Setting, type Where } from '../ini/setting.js'
import { isRedisAddress, withFallback } from '../protocol/redis-address.js'
import { findOption, OPTION_TABLE, type OptionSpec, type SpoolOptions } from './option-table.js'
import { defaultsOf, type HandlerSetting, OptionValues, type Origins } from './option-values.js'
import { nearestOf } from './suggestion.js'

/** The options in effect for a spool. */
export interface SpoolSettings {
  readonly options: SpoolOptions
  readonly origins: Origins
  /** The spool's handlers except for applications, in the order of the configuration. */
  readonly handlers: readonly HandlerSetting[]
  /** The name under which each option was written. */
  readonly labels: ReadonlyMap<string, string>
  /** The options that the spool's `spooler2` gives, and the key in `spooler2` for each. */
  readonly ownKeys: ReadonlyMap<string, string>
}

/** A spool named in the configuration, with its option values. */
export interface SpoolConfig extends SpoolSettings {
  /** The directory as written in the configuration. */
  readonly directory: string
  readonly where: Where
  /** The option that names the spool. */
  readonly describedBy: 'spooler' | 'spooler2' | 'spooler-external'
  /** True if another daemon runs the spool's tasks. */
  readonly isExternal: boolean
}

const DIRECTORY: OptionSpec = { name: 'dir', kind: 'text', value: 'DIR', group: 'spools', help: '' }
const EXTERNAL: OptionSpec = { name: 'external', kind: 'flag', group: 'spools', help: '' }
/** This option acts on the whole configuration while that is read, so a spool cannot have its own; it can have `paste`. */
const NEVER_OWN = 'ini-paste'

/**
 * Returns what a spool is opened by: its directory as written, or its address with the directory of its `spooler-fallback`.
 *
 * @param resolvePath resolves a path of the configuration
 */
export function addressOf(
  { directory, options }: Pick<SpoolConfig, 'directory' | 'options'>,
  resolvePath: (path: string) => string = resolve,
): string {
  const { spoolerFallback } = options
  if (!isRedisAddress(directory) || spoolerFallback === null) return directory
  return withFallback(directory, resolvePath(spoolerFallback))
}

/** Returns the shortest key of an option in `spooler2`; undefined if a spool cannot have its own. */
export function keyOf(spec: OptionSpec): string | undefined {
  const keys = [spec.name.replace(/^spooler-/, ''), spec.name]
  return keys.find(key => KEYS.get(key)?.name === spec.name)
}

/** Options by their keys in `spooler2`: their names, with or without `spooler-`. So `import` is `spooler-import`. */
const KEYS: ReadonlyMap<string, OptionSpec> = keysOf(OPTION_TABLE)

function keysOf(table: readonly OptionSpec[]): Map<string, OptionSpec> {
  const own = table.filter(({ name, perSpool }) => perSpool && name !== NEVER_OWN)
  const full = own.flatMap(spec => [spec.name, ...(spec.aliases ?? [])].map(name => [name, spec] as const))
  const brief = full.flatMap(([name, spec]) =>
    name.startsWith('spooler-') ? [[name.slice('spooler-'.length), spec] as const] : [],
  )
  return new Map([...full, ...brief, [DIRECTORY.name, DIRECTORY], [EXTERNAL.name, EXTERNAL]])
}

/** Returns what messages call an option of a spool: `spooler-harakiri`, or `spooler2: harakiri`. */
export function labelOf({ labels }: Pick<SpoolSettings, 'labels'>, name: string): string {
  return labels.get(name) ?? name
}

/** Returns the spools whose tasks are run here; if there are none, the settings that would hold for one. */
export function handlingSpools({ spools, anySpool }: AllSpools): readonly SpoolSettings[] {
  const own = spools.filter(({ isExternal }) => !isExternal)
  return own.length > 0 ? own : [anySpool]
}

interface AllSpools {
  readonly spools: readonly SpoolConfig[]
  readonly anySpool: SpoolSettings
}

/** Returns the directories that these settings name for spools, without a look at their disks. */
export function directoriesIn(settings: readonly Setting[]): string[] {
  return settings.flatMap(({ key, value }) => {
    if (key === 'spooler' || key === 'spooler-external') return [value]
    if (key !== 'spooler2') return []
    return parseKeyvals(value).flatMap(item => (item.key === DIRECTORY.name ? (item.value ?? []) : []))
  })
}

/**
 * Returns the spools in order. A spool that a `spooler2` describes is a single spool, even if other options name its directory
 * too: for uWSGI, which does not know `spooler2`, that directory is a `spooler` or `spooler-external`.
 *
 * @param named the settings of `spooler`, `spooler-external` and `spooler2`
 * @param shared the options of a spool that has none of its own
 */
export function resolveSpools(
  named: readonly Setting[],
  shared: SpoolSettings,
  problems: Problems,
): SpoolConfig[] {
  /** By real path, because two paths may lead to one directory. */
  const described = new Map<string, SpoolConfig>()
  const spools = named.flatMap((setting): SpoolConfig[] => {
    const { value: directory, where } = setting
    const isExternal = setting.key === 'spooler-external'
    if (setting.key !== 'spooler2')
      return [
        { ...shared, directory, where, describedBy: isExternal ? 'spooler-external' : 'spooler', isExternal },
      ]
    const spool = describedSpool(setting, shared, problems)
    if (spool === undefined) return []
    const other = described.get(placeOf(spool.directory))
    if (other === undefined) {
      described.set(placeOf(spool.directory), spool)
      return [spool]
    }
    problems.error(
      where,
      `spooler2: ${spool.directory} has its options at ${formatWhere(other.where)} already; give all of them there`,
    )
    return []
  })
  return [...new Set(spools.map(spool => described.get(placeOf(spool.directory)) ?? spool))]
}

/** Returns the real path, also of a directory that does not exist yet. */
function placeOf(directory: string): string {
  if (isRedisAddress(directory)) return directory
  const path = resolve(directory)
  return realPathOf(path) ?? join(realPathOf(dirname(path)) ?? dirname(path), basename(path))
}

/** @returns undefined if the setting names no directory */
function describedSpool(
  setting: Setting,
  shared: SpoolSettings,
  problems: Problems,
): SpoolConfig | undefined {
  const { where, value: text } = setting
  const { values, ownKeys } = ownValues(setting, problems)
  const directory = values.get(DIRECTORY.name)
  if (typeof directory !== 'string') {
    const isInvalid = parseKeyvals(text).some(({ key }) => key === DIRECTORY.name)
    if (!isInvalid) problems.error(where, `spooler2: expected dir=DIR,…, got ${describe(text)}`)
    return undefined
  }
  // a spool with handlers of its own has no others
  const handlers = values.nameHandlers ? values.handlers : shared.handlers
  const noOthers = values.nameHandlers ? defaultsOf(({ givesHandlers }) => givesHandlers === true) : {}
  const own = values.typed(({ perSpool }) => perSpool === true)
  return {
    directory,
    where,
    describedBy: 'spooler2',
    isExternal: values.get(EXTERNAL.name) === true,
    options: { ...shared.options, ...noOthers, ...own },
    origins: new Map([...shared.origins, ...values.origins]),
    handlers,
    labels: new Map([...shared.labels, ...values.keys]),
    ownKeys,
  }
}

function ownValues({ value: text, where }: Setting, problems: Problems) {
  const values = new OptionValues()
  const ownKeys = new Map<string, string>()
  for (const item of parseKeyvals(text)) {
    const spec = KEYS.get(item.key)
    const fault = spec === undefined ? unknownKey(item) : faultOf(item, spec)
    if (spec === undefined || fault !== undefined) {
      problems.error(where, `spooler2: ${fault}`)
      continue
    }
    const { key, value = '' } = item
    if (!spec.isList && values.get(spec.name) !== undefined)
      problems.warning(where, `spooler2: ${key} is given again: the last value counts`)
    const isTaken = values.take(spec, { key: `spooler2: ${key}`, value, where }, problems)
    if (isTaken && spec.perSpool) ownKeys.set(spec.name, key)
  }
  return { values, ownKeys }
}

function faultOf({ key, value }: KeyValue, { kind }: OptionSpec): string | undefined {
  if (value === undefined && kind !== 'flag') return `expected ${key}=VALUE, got ${describe(key)}`
  if (value !== undefined && value !== value.trim())
    return `${key}: blanks count here, so leave out those of ${describe(value)}`
  return undefined
}

function unknownKey({ key, value }: KeyValue): string {
  const spec = findOption(key)
  if (spec !== undefined && !spec.perSpool)
    return `${key} is an option of the daemon, not of a spool; write it in a line of its own`
  if (spec !== undefined) return `${key} cannot be given to one spool; write paste=config:FILE`
  if (KEYS.has(key.trim())) return `blanks count here, so write ${describe(key.trim())} for ${describe(key)}`
  const possible = [...KEYS].filter(([, { kind }]) => value !== undefined || kind === 'flag')
  const best = nearestOf(
    key.toLowerCase().replaceAll('_', '-'),
    possible.map(([name]) => name),
  )
  if (best !== undefined) return `unknown key ${describe(key)}; did you mean ${describe(best)}?`
  if (value === undefined)
    return `expected KEY=VALUE, got ${describe(key)}; a directory is written dir=${key}`
  return `unknown key ${describe(key)}`
}

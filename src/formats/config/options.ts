import { describe } from '../../base/errors.js'
import { LOGIC_KEYS } from '../ini/logic.js'
import { type Config, ENVIRONMENT } from '../ini/read-config.js'
import { formatWhere, isRead, type Problems, type Setting, type Where } from '../ini/setting.js'
import { warningOfUnset } from './coerce.js'
import { findOption, type OptionSpec, type Options, optionNames, type SpoolOptions } from './option-table.js'
import { defaultsOf, OptionValues, type Origins } from './option-values.js'
import { meaningsOf } from './plain-names.js'
import { resolveSpools, type SpoolConfig, type SpoolSettings } from './spools.js'
import { suggestName } from './suggestion.js'
import { effectOf, uwsgiArity } from './uwsgi-names.js'

export interface ResolvedOptions {
  /** The daemon's options. */
  readonly options: Options
  readonly origins: Origins
  /** The name under which each option was written. */
  readonly labels: ReadonlyMap<string, string>
  /** The spools in order, with repetitions. Tasks may be enqueued in each; the first is the default, as in uWSGI. */
  readonly spools: readonly SpoolConfig[]
  /** The settings of a spool that has no options of its own, or that the configuration does not name. */
  readonly anySpool: SpoolSettings
  /** Every setting in order, including unknown ones and placeholders: handlers see them as `uwsgi.opt`. */
  readonly settings: readonly Setting[]
  /** The changes by `env` and `unenv`, in order; undefined removes the variable. */
  readonly environment: ReadonlyArray<readonly [name: string, value: string | undefined]>
}

/** The place of an option that is not written anywhere. */
const NOWHERE: Where = { file: 'configuration' }

/** Returns where an option, or the `i`th value of a list, was written; for messages. */
export function originOf({ origins }: { readonly origins: Origins }, name: string, i = 0): Where {
  return origins.get(name)?.[i] ?? NOWHERE
}

/** Options that define spools. They are options neither of the daemon nor of a spool. */
const NAMES_SPOOLS = new Set(['spooler', 'spooler2', 'spooler-external'])
/** uWSGI's other configuration formats. */
const OTHER_FILES = new Set(['xml', 'xmlconfig', 'yaml', 'yml', 'json', 'js'])

/** Returns the typed options, with defaults filled in. Errors and warnings are added to the configuration's problems. */
export function resolveOptions(config: Config): ResolvedOptions {
  const values = new OptionValues()
  const named: Setting[] = []
  const environment: Array<readonly [string, string | undefined]> = []
  const { settings, optionOf } = meaningsOf(config)
  for (const setting of settings) {
    const spec = optionOf(setting)
    if (spec === undefined || setting.isPlaceholder === true) {
      isRead({ ...setting, value: '' }, config.problems)
      continue
    }
    if (!isRead(setting, config.problems)) continue
    if (spec.name === 'env' || spec.name === 'unenv')
      environment.push(...environmentChange(setting, config.problems))
    if (spec.kind === 'directive') continue
    if (values.take(spec, setting, config.problems) && NAMES_SPOOLS.has(spec.name)) named.push(setting)
  }
  reportUnknown(config, setting => optionOf(setting) !== undefined, values.get('strict') === true)
  const { origins, handlers, keys: labels } = values
  const typed = (isWanted: (spec: OptionSpec) => boolean) => ({
    ...defaultsOf(isWanted),
    ...values.typed(isWanted),
  })
  const anySpool = {
    options: typed(isPerSpool) as SpoolOptions,
    ...{ origins, handlers, labels, ownKeys: new Map() },
  }
  return {
    options: typed(spec => !isPerSpool(spec) && !NAMES_SPOOLS.has(spec.name)) as Options,
    origins,
    labels,
    spools: resolveSpools(named, anySpool, config.problems),
    anySpool,
    settings: config.settings,
    environment,
  }
}

const isPerSpool = ({ perSpool }: OptionSpec) => perSpool === true

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
  const { warning } = warningOfUnset(value)
  if (warning !== undefined) problems.warning(where, `${key}: ${warning}`)
  return [[name, key === 'unenv' || cut < 0 ? undefined : value.slice(cut + 1)]]
}

/**
 * The most unknown keys for which a name is suggested. A suggestion compares the key with every option, and a file with more
 * unknown keys than this is not a configuration of spoold.
 */
const MAX_SUGGESTIONS = 100

/**
 * Reports uWSGI options without effect in two lists: those whose work somebody may miss, and the others. Reports any other
 * unknown key as probably misspelt.
 */
function reportUnknown(
  { settings, references, problems }: Config,
  hasEffect: (setting: Setting) => boolean,
  isStrict: boolean,
): void {
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
    } else if (known.has(key) || hasEffect(setting)) continue
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
  const [missed, harmless]: [Ignored[], Ignored[]] = [[], []]
  for (const [key, where] of ignored) {
    const { isMissed, what } = effectOf(key)
    if (isMissed) missed.push({ where, text: `${key} (${formatWhere(where)}; ${what})` })
    else harmless.push({ where, text: `${key} (${formatWhere(where)})` })
  }
  tell('spoold does not do what these options of uWSGI ask for', missed)
  tell('these options of uWSGI have no effect in spoold', harmless)

  function tell(what: string, [first, ...more]: Ignored[]): void {
    if (first === undefined) return
    problems.warning(first.where, `${what}: ${[first, ...more].map(({ text }) => text).join(', ')}`)
  }
}

interface Ignored {
  readonly where: Where
  readonly text: string
}

function unknownOption({ key, value }: Setting, isSuggested: boolean): string {
  const [, before = ''] = /^([\w-]+)\s*:/.exec(key) ?? []
  if (findOption(before) !== undefined)
    return `unknown option ${describe(key)}; write ${before} = …, with = instead of :`
  if (key === '') return `expected KEY = VALUE, got ${describe(`= ${value}`)}`
  return `unknown option ${describe(key)}${isSuggested ? suggestName(key) : ''}`
}

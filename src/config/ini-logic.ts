import { readdirSync, readFileSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { messageOf } from '../base/errors.js'
import type { Problems, Setting } from './setting.js'

const END = new Set(['end', 'endfor', 'endif', 'end-if', 'end-for'])

/** What of a line inside a block is left: the values for `%(_)`, one a repetition; null leaves `%(_)` alone. */
type Decision = ReadonlyArray<string | null>
type Rule = (argument: string, options: ReadonlyMap<string, string>) => Decision

const KEPT: Decision = [null]
const DROPPED: Decision = []

const keptIf = (isTrue: boolean, item: string | null): Decision => (isTrue ? [item] : DROPPED)

/** `NAME` or `NAME=value` against what `lookUp` knows (core/config.c, uwsgi_logic_opt_if_env). */
function isSet(argument: string, lookUp: (name: string) => string | undefined): string | undefined {
  const cut = argument.indexOf('=')
  const value = lookUp(cut < 0 ? argument : argument.slice(0, cut))
  return cut >= 0 && value !== argument.slice(cut + 1) ? undefined : value
}

const env = (name: string) => process.env[name]
const exists = (path: string) => statSync(path, { throwIfNoEntry: false })

const RULES: Readonly<Record<string, Rule>> = {
  for: argument => argument.split(' ').filter(Boolean),
  'for-glob': glob,
  'for-times': argument =>
    Array.from({ length: Number.parseInt(argument, 10) || 0 }, (_, i) => String(i + 1)),
  'for-readline': argument => readFileSync(argument, 'utf8').replace(/\n$/, '').split('\n'),
  'if-opt': (argument, options) => keptIfSet(isSet(argument, name => options.get(name))),
  'if-not-opt': (argument, options) => keptIf(isSet(argument, name => options.get(name)) === undefined, null),
  'if-env': argument => keptIfSet(isSet(argument, env)),
  'if-not-env': argument => keptIf(isSet(argument, env) === undefined, null),
  'if-exists': argument => keptIf(exists(argument) !== undefined, argument),
  'if-not-exists': argument => keptIf(exists(argument) === undefined, argument),
  'if-file': argument => keptIf(exists(argument)?.isFile() ?? false, argument),
  'if-not-file': argument => keptIf(!exists(argument)?.isFile(), argument),
  'if-dir': argument => keptIf(exists(argument)?.isDirectory() ?? false, argument),
  'if-not-dir': argument => keptIf(!exists(argument)?.isDirectory(), argument),
  'if-hostname': argument => keptIf(hostname() === argument, argument),
  'if-not-hostname': argument => keptIf(hostname() !== argument, argument),
  'if-hostname-match': argument => keptIf(new RegExp(argument).test(hostname()), argument),
  'if-not-hostname-match': argument => keptIf(!new RegExp(argument).test(hostname()), argument),
  'if-plugin': () => DROPPED, // none is ever loaded
  'if-not-plugin': argument => [argument],
  'if-reload': () => keptIf(isReload, null),
  'if-not-reload': () => keptIf(!isReload, null),
}

const ALIASES: Readonly<Record<string, string>> = {
  ifenv: 'if-env',
  ifexists: 'if-exists',
  ifdir: 'if-dir',
  ifplugin: 'if-plugin',
}

let isReload = false

/** From now on `if-reload` is true: the configuration is read again for a reload. */
export function setReload(): void {
  isReload = true
}

export const LOGIC_KEYS: readonly string[] = [...Object.keys(RULES), ...Object.keys(ALIASES), ...END, 'else']

/**
 * The `for…`, `if-…`, `else` and `end…` of uWSGI's ini: not blocks, but a rule that is applied to each following line by
 * itself, so that `for = a b` over two lines gives a, b of the first and then a, b of the second. They do not nest.
 */
export class IniLogic {
  readonly #problems: Problems
  #rule: { readonly rule: Rule; readonly setting: Setting } | undefined
  #decision: Decision | undefined

  constructor(problems: Problems) {
    this.#problems = problems
  }

  /** The settings that stand for this one: itself, none, or one a repetition. */
  apply(setting: Setting, options: ReadonlyMap<string, string>): Setting[] {
    if (END.has(setting.key)) return this.#end()
    if (setting.key === 'else') return this.#else()
    const rule = RULES[ALIASES[setting.key] ?? setting.key]
    if (rule !== undefined) return this.#begin(rule, setting)
    if (this.#rule === undefined) return [setting]
    return this.#decide(options).map(item =>
      item === null ? setting : { ...setting, value: setting.value.replaceAll('%(_)', item) },
    )
  }

  #begin(rule: Rule, setting: Setting): Setting[] {
    if (this.#rule !== undefined)
      this.#problems.error(
        setting.where,
        `recursive logic in options is not supported (option = ${setting.key}): end "${this.#rule.setting.key}" first`,
      )
    this.#rule = { rule, setting }
    this.#decision = undefined
    return []
  }

  #end(): Setting[] {
    this.#rule = undefined
    return []
  }

  #else(): Setting[] {
    const before = this.#rule
    const wasDropped = this.#decision?.length === 0
    if (before === undefined) return []
    this.#rule = { rule: () => (wasDropped ? KEPT : DROPPED), setting: before.setting }
    this.#decision = undefined
    return []
  }

  #decide(options: ReadonlyMap<string, string>): Decision {
    if (this.#rule === undefined) return KEPT
    const { rule, setting } = this.#rule
    try {
      this.#decision = rule(setting.value, options)
    } catch (error) {
      this.#problems.error(setting.where, `${setting.key} = ${setting.value}: ${messageOf(error)}`)
      this.#decision = DROPPED
    }
    return this.#decision
  }
}

function keptIfSet(value: string | undefined): Decision {
  return value === undefined ? DROPPED : [value]
}

/** glob(3) for the last segment, with GLOB_MARK | GLOB_NOCHECK: `/etc/spool.d/*.conf`. */
function glob(pattern: string): Decision {
  const directory = dirname(pattern)
  const source = pattern.slice(pattern.lastIndexOf('/') + 1)
  const escaped = source
    .replace(/[.+^${}()|\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  const matches = readdirSync(directory, { withFileTypes: true })
    .filter(
      entry =>
        new RegExp(`^${escaped}$`).test(entry.name) &&
        (source.startsWith('.') || !entry.name.startsWith('.')),
    )
    .map(entry => join(directory, entry.name) + (entry.isDirectory() ? '/' : ''))
  return matches.length > 0 ? matches.sort() : [pattern]
}

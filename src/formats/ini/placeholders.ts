import { describe, messageOf } from '../../base/errors.js'
import { readText } from './read-text.js'
import type { Problems, Setting } from './setting.js'

/**
 * Far more than any configuration needs: a value that still changes after this many replacements refers to itself. uWSGI would
 * loop for ever.
 */
const MAX_REPLACEMENTS = 1000
/** Linux's limit for an environment variable or an argument, in bytes. */
const MAX_LENGTH = 128 * 1024

/**
 * Expands `$(ENV)`, then `@(file)`, then `%(key)` in all values, as uwsgi_setup does after everything is read. Each pass
 * sees the results of the previous one, so text that `%()` inserts is not searched for `$()` again.
 */
export function expandPlaceholders(
  settings: readonly Setting[],
  variable: Lookup,
  problems: Problems,
): Setting[] {
  const fromEnvironment = settings.map(setting =>
    expandOne(setting, '$', name => variable(name) ?? withDefault(name, variable), problems),
  )
  const expanded = fromEnvironment.map(setting =>
    expandOne(setting, '@', path => contentOf(path, setting, problems), problems),
  )
  const refer = referenceTo(expanded)
  // in order: each value sees the expanded values before it; a later one is expanded where it is used
  for (const [i, setting] of expanded.entries()) expanded[i] = expandOne(setting, '%', refer, problems)
  return expanded
}

function expandOne(setting: Setting, symbol: string, lookUp: Lookup, problems: Problems): Setting {
  if (setting.isLiteral === true || !setting.value.includes(`${symbol}(`)) return setting
  let value = setting.value
  let from = 0
  for (let count = 0; ; ) {
    const found = findPlaceholder(value, symbol, from)
    if (found === undefined) return { ...setting, value }
    const replacement = lookUp(found.name)
    if (replacement === undefined) {
      from = found.end
      continue
    }
    value = value.slice(0, found.start) + replacement + value.slice(found.end)
    from = 0
    if (++count <= MAX_REPLACEMENTS && value.length <= MAX_LENGTH) continue
    const written = `${symbol}(${found.name})`
    problems.error(
      setting.where,
      `"${setting.key}" does not end: ${describe(written)} brings back itself, or more than ${MAX_LENGTH} characters`,
    )
    return setting
  }
}

/**
 * Returns the next placeholder with balanced parentheses from `from` on; of nested ones the innermost, because each symbol starts
 * over (core/utils.c, uwsgi_apply_config_pass).
 */
function findPlaceholder(value: string, symbol: string, from: number) {
  let start = -1
  let depth = 0
  for (let at = from; at < value.length; at++) {
    const character = value[at]
    if (character === symbol) {
      start = value[at + 1] === '(' ? at : -1
      depth = -1
    } else if (start < 0) continue
    else if (character === '(') depth++
    else if (character === ')' && depth-- === 0) {
      if (at > start + 2) return { start, end: at + 1, name: value.slice(start + 2, at) }
      start = -1
    }
  }
  return undefined
}

/** Expands `NAME:-default` (if unset or empty) and `NAME-default` (if unset), as in uWSGI 2.1. */
function withDefault(name: string, variable: Lookup): string | undefined {
  const [, key = '', colon, fallback] = /^([^-:]+)(:?)-(.*)$/s.exec(name) ?? []
  const value = variable(key)
  return value === undefined || (colon === ':' && value === '') ? fallback : value
}

/** Returns the content of a file, without one line end at its end. */
function contentOf(path: string, { key, where }: Setting, problems: Problems): string {
  try {
    return (readText(path).split('\0', 1)[0] ?? '').replace(/[\r\n]$/, '')
  } catch (error) {
    problems.error(where, `@(${path}) in "${key}" cannot be read: ${messageOf(error)}`)
    return ''
  }
}

/**
 * Returns what looks up a `%(key)`. The first value of a repeated key counts here, although options otherwise take the last
 * (uwsgi_get_exported_opt).
 */
function referenceTo(settings: readonly Setting[]): Lookup {
  const firsts = new Map<string, number>()
  for (const [i, { key }] of settings.entries()) if (!firsts.has(key)) firsts.set(key, i)
  const lookUp: Lookup = key => settings[firsts.get(key) ?? -1]?.value
  return name => (name.includes(' ') ? calculate(name, lookUp) : lookUp(name))
}

/** Returns the value of an option or a term; undefined if it is not set. */
type Lookup = (name: string) => string | undefined

const OPERATIONS: ReadonlyMap<string, (a: bigint, b: bigint) => bigint> = new Map([
  ['+', (a, b) => a + b],
  ['-', (a, b) => a - b],
  ['*', (a, b) => a * b],
  ['/', (a, b) => (b === 0n ? 0n : a / b)],
])

/**
 * Calculates as uWSGI does (core/config.c, uwsgi_manage_placeholder), strictly from left to right: plain terms are concatenated,
 * an operator applies to the next term, `++` and `--` change the current value. `%(three four + 2)` with 3 and 4 is 36.
 *
 * @returns undefined if there are only operators
 */
function calculate(expression: string, lookUp: Lookup): string | undefined {
  let current: string | undefined
  let operation: ((a: bigint, b: bigint) => bigint) | undefined
  for (const term of expression.split(' ').filter(Boolean)) {
    const next = OPERATIONS.get(term)
    if (next !== undefined) {
      operation = next
      continue
    }
    if (term === '++' || term === '--') {
      if (current !== undefined) current = toText(toInteger(current) + (term === '++' ? 1n : -1n))
    } else {
      const value = /^[0-9]+$/.test(term) ? term : (lookUp(term) ?? '')
      current =
        operation === undefined
          ? (current ?? '') + value
          : toText(operation(toInteger(current ?? ''), toInteger(value)))
    }
    operation = undefined
  }
  return current
}

/** Wraps around at 64 bits, as in C on every machine that uWSGI runs on. */
function toText(value: bigint): string {
  return String(BigInt.asIntN(64, value))
}

/** Reads as strtoll does: the leading digits; 0 if there are none; the nearest limit if there are too many. */
function toInteger(text: string): bigint {
  const [, sign = '', digits = '0'] = /^[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,20})/.exec(text) ?? []
  const value = sign === '-' ? -BigInt(digits) : BigInt(digits)
  return value > MAX ? MAX : value < MIN ? MIN : value
}

const MAX = 2n ** 63n - 1n
const MIN = -(2n ** 63n)

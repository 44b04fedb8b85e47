import { readFileSync } from 'node:fs'
import { messageOf } from '../base/errors.js'
import type { Problems, Setting } from './setting.js'

/** What stands for the text between the parentheses; undefined leaves the placeholder as it is. */
type Lookup = (name: string) => string | undefined

/** Far more than any configuration needs: a value that still grows refers to itself. uWSGI loops for ever there. */
const MAX_REPLACEMENTS = 1000

/**
 * Expands `$(ENV)`, then `@(file)`, then `%(key)` in all values, as uwsgi_setup does after everything was read. Each pass
 * sees the results of the one before, so what `%()` brings in is not searched for `$()` again.
 */
export function expandPlaceholders(settings: readonly Setting[], problems: Problems): Setting[] {
  const fromEnvironment = settings.map(setting => expandOne(setting, '$', environment, problems))
  const withFiles = fromEnvironment.map(setting =>
    expandOne(setting, '@', fileOf(setting, problems), problems),
  )
  const expanded = [...withFiles]
  // in their order, each seeing what became of those before it: a reference to a later one brings its text, and goes on
  for (const [i, setting] of withFiles.entries())
    expanded[i] = expandOne(setting, '%', referenceTo(expanded), problems)
  return expanded
}

function expandOne(setting: Setting, symbol: string, lookup: Lookup, problems: Problems): Setting {
  if (setting.isLiteral === true || !setting.value.includes(`${symbol}(`)) return setting
  let value = setting.value
  let from = 0
  for (let count = 0; ; count++) {
    const found = findPlaceholder(value, symbol, from)
    if (found === undefined) return { ...setting, value }
    const replacement = found.name === '' ? undefined : lookup(found.name)
    if (replacement === undefined) {
      from = found.end
      continue
    }
    if (count >= MAX_REPLACEMENTS || replacement.includes(`${symbol}(${found.name})`)) {
      problems.error(setting.where, `${symbol}(${found.name}) in "${setting.key}" refers to itself`)
      return setting
    }
    value = value.slice(0, found.start) + replacement + value.slice(found.end)
    from = 0
  }
}

/** The next `$(…)` with balanced parentheses, from `from` on. */
function findPlaceholder(value: string, symbol: string, from: number) {
  for (
    let start = value.indexOf(`${symbol}(`, from);
    start >= 0;
    start = value.indexOf(`${symbol}(`, start + 1)
  ) {
    let depth = 0
    for (let at = start + 2; at < value.length; at++) {
      if (value[at] === '(') depth++
      else if (value[at] === ')' && depth-- === 0)
        return { start, end: at + 1, name: value.slice(start + 2, at) }
    }
  }
  return undefined
}

/** `NAME`, `NAME:-default` (unset or empty) and `NAME-default` (unset). */
function environment(name: string): string | undefined {
  if (process.env[name] !== undefined) return process.env[name]
  const [, variable = '', colon, fallback] = /^([^-:]+)(:?)-(.*)$/s.exec(name) ?? []
  if (fallback === undefined) return undefined
  const value = process.env[variable]
  return value === undefined || (colon === ':' && value === '') ? fallback : value
}

function fileOf(setting: Setting, problems: Problems): Lookup {
  return path => {
    try {
      return readFileSync(path, 'utf8').replace(/\n$/, '')
    } catch (error) {
      problems.error(setting.where, `@(${path}) in "${setting.key}" cannot be read: ${messageOf(error)}`)
      return ''
    }
  }
}

function referenceTo(settings: readonly Setting[]): Lookup {
  // of a repeated key the first counts here, while an option otherwise takes its last value: uwsgi_get_exported_opt
  const lookUp = (key: string) => settings.find(setting => setting.key === key)?.value
  return name => (name.includes(' ') ? calculate(name, lookUp) : lookUp(name))
}

const OPERATIONS: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => (b === 0n ? 0n : a / b),
}

/**
 * uWSGI's arithmetic (core/config.c, uwsgi_manage_placeholder), strictly from left to right: plain terms are joined, an
 * operator is for the next term, `++` and `--` change what there is. `%(three four + 2)` with 3 and 4 is 36.
 */
function calculate(expression: string, lookUp: Lookup): string {
  let current = ''
  let operation: ((a: bigint, b: bigint) => bigint) | undefined
  for (const term of expression.split(' ').filter(Boolean)) {
    const next = OPERATIONS[term]
    if (next !== undefined) {
      operation = next
    } else if (term === '++' || term === '--') {
      current = String(BigInt.asIntN(64, toInteger(current) + (term === '++' ? 1n : -1n)))
      operation = undefined
    } else {
      const value = /^[0-9]+$/.test(term) ? term : (lookUp(term) ?? '')
      current =
        operation === undefined
          ? current + value
          : String(BigInt.asIntN(64, operation(toInteger(current), toInteger(value))))
      operation = undefined
    }
  }
  return current
}

/** strtoll: the leading digits, 0 when there are none. */
function toInteger(text: string): bigint {
  return BigInt(/^\s*([+-]?\d+)/.exec(text)?.[1]?.replace('+', '') ?? '0')
}

import { isIPv4 } from 'node:net'
import { describe } from '../../base/errors.js'
import { LONGEST_DELAY_MS } from '../../base/task/terms.js'
import { parseDuration } from '../../base/time-text.js'
import { isRedisAddress } from '../protocol/redis-address.js'
import type { OptionSpec } from './option-table.js'

/** A typed value, with an error or a warning about its text. */
interface Coerced {
  readonly value: boolean | number | string
  readonly error?: string
  readonly warning?: string
}

const FALSE = new Set(['false', 'off', 'no', '0'])
const TRUE = new Set(['', 'true', 'on', 'yes', '1'])
/** A longer timer would fire at once: Node keeps its milliseconds in 31 bits. */
const MAX_SECONDS = 2_147_483
/** Kinds of text in which a shell, an interpreter or strftime(3) may have such placeholders too, so that no warning is given. */
const READ_BY_OTHERS = /COMMAND|CODE|FORMAT/
/** Kinds of text that may not be empty. */
const THINGS = new Set(['DIR', 'FILE', 'LOGFILE', 'USER', 'GROUP', 'ADDRESS', 'NETWORK', 'USER[:GROUP]'])

/** Parses an option's text. A malformed value prevents the start, where uWSGI would silently use 0. */
export function coerce(spec: OptionSpec, text: string): Coerced {
  switch (spec.kind) {
    case 'flag':
      return coerceFlag(spec, text)
    case 'count':
      return coerceNumber(text, wholeNumber, 'a whole number from 0')
    case 'seconds':
      return coerceSeconds(spec, text)
    case 'megabytes':
      return coerceMegabytes(text)
    case 'octal':
      // without a value: "for lazy and brave users" (core/socket.c, bind_to_unix)
      if (spec.name === 'chmod-socket' && TRUE.has(text.toLowerCase())) return { value: 0o666 }
      return /^[0-7]{3,4}$/.test(text)
        ? { value: Number.parseInt(text, 8) }
        : { value: 0, error: `expected 3 or 4 octal digits such as 022, got ${describe(text)}` }
    case 'choice':
      return coerceChoice(spec, text)
    case 'text':
    case 'directive':
      return coerceText(spec, text)
  }
}

/** As in uWSGI, any other text counts as true (core/uwsgi.c, uwsgi_opt_true). */
function coerceFlag({ choices = [] }: OptionSpec, text: string): Coerced {
  const word = text.toLowerCase()
  if (choices.includes(word)) return { value: word }
  if (FALSE.has(word)) return { value: false }
  if (TRUE.has(word)) return { value: true }
  const expected = ['true', ...choices].join(', ')
  return {
    value: true,
    warning: `expected ${expected} or false, got ${describe(text)}, which counts as true`,
  }
}

/**
 * Tolerates what uWSGI's atoi(3) ignores: blanks around the number, which `$(…)` and `@(…)` produce, and a comment after
 * it, which many configurations have.
 */
function coerceNumber(
  text: string,
  parse: (digits: string) => number | undefined,
  expected: string,
): Coerced {
  const digits = text.trim()
  const value = parse(digits)
  if (value !== undefined) return { value }
  const [, before = ''] = /^(\S+)[ \t]+(?:[#;]|\/\/)/.exec(digits) ?? []
  const valueBefore = parse(before)
  if (valueBefore !== undefined)
    return {
      value: valueBefore,
      warning: `expected ${expected}, got ${describe(text)}, which counts as ${before} (a comment needs a line of its own)`,
    }
  return {
    value: 0,
    error: `expected ${expected}, got ${describe(text)}${commentHint(text) || unsetHint(text)}`,
  }
}

function wholeNumber(digits: string): number | undefined {
  return /^\+?[0-9]{1,15}$/.test(digits) ? Number(digits) : undefined
}

/** Reads a number of seconds, or a duration with units. Units are our extension: uWSGI would take `10m` for 10 seconds. */
function secondsOf(digits: string): number | undefined {
  const ms = parseDuration(digits.replace(/^\+/, ''))
  return ms === undefined ? undefined : ms / 1000
}

/** Parses a duration. The value is in milliseconds, as everywhere from here on. */
function coerceSeconds({ name, isAge }: OptionSpec, text: string): Coerced {
  const coerced = coerceNumber(text, secondsOf, 'a number of seconds, or a time such as 90s or 10m')
  if (coerced.error !== undefined) return coerced
  const seconds = Number(coerced.value)
  if (seconds === 0 && name === 'spooler-frequency')
    return { value: 1000, warning: 'expected more than 0, got 0, a busy loop in uWSGI, which counts as 1' }
  const [most, shown] = isAge === true ? [LONGEST_DELAY_MS / 1000, '7,000 years'] : [MAX_SECONDS, '24 days']
  if (seconds <= most) return { ...coerced, value: Math.round(seconds * 1000) }
  const warning = `expected at most ${most} seconds (${shown}), got ${describe(text)}, which counts as so many`
  return { value: most * 1000, warning }
}

/** Parses megabytes, with a fraction, as in uWSGI (core/uwsgi.c, uwsgi_opt_set_megabytes). The value is in bytes. */
function coerceMegabytes(text: string): Coerced {
  const megabytes = (digits: string) =>
    /^\+?[0-9]{1,9}(?:\.[0-9]*)?$/.test(digits) ? Math.floor(Number(digits) * 1024 * 1024) : undefined
  return coerceNumber(text, megabytes, 'a number of megabytes')
}

function coerceChoice({ name, choices = [] }: OptionSpec, text: string): Coerced {
  if (choices.includes(text)) return { value: text }
  const expected = `expected ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}, got ${describe(text)}`
  // in uWSGI this key is the line format of the request log, and there are no requests here
  if (name === 'log-format' && text.includes('%'))
    return { value: 'text', warning: `${expected}; uWSGI's request log format has no meaning here` }
  return { value: choices[0] ?? '', error: `${expected}${commentHint(text)}` }
}

function coerceText({ name, value = '' }: OptionSpec, text: string): Coerced {
  // "log-date = true" selects the default format (core/uwsgi.c, uwsgi_opt_log_date)
  if (name === 'log-date') return { value: TRUE.has(text.toLowerCase()) ? '' : text }
  // an address of Redis contains ? and passwords, so the hints below do not apply to it
  if (!THINGS.has(value) || isRedisAddress(text))
    return READ_BY_OTHERS.test(value) ? { value: text } : { value: text, ...warningOfUnset(text) }
  if (text === '') return { value: text, error: `expected ${value}, got nothing` }
  const hint = commentHint(text) || literalHint(name === 'pythonpath' ? '' : value, text)
  return hint === ''
    ? { value: text }
    : { value: text, warning: `expected ${value}, got ${describe(text)}${hint}` }
}

/** Returns a hint about text that a shell or another program would interpret, but that is taken literally here. */
function literalHint(thing: string, text: string): string {
  if (/^(["']).*\1$/s.test(text)) return ' (the quotes are part of the value)'
  if (/^~/.test(text)) return ' (~ is not expanded; write $(HOME))'
  const unset = unsetHint(text)
  if (unset !== '') return unset
  if (thing === 'DIR' && /[*?]/.test(text)) return ' (it is taken as it is: * and ? are not expanded)'
  if (thing === 'ADDRESS' && /^[0-9]+$/.test(text))
    return ` (a unix socket of that name; for a port write :${text})`
  if (thing === 'ADDRESS' && isIPv4(text))
    return ` (a unix socket of that name; for that host write ${text}:PORT)`
  return ''
}

/** Warns about a placeholder that was not replaced. The warning does not repeat the text, which may be a secret. */
export function warningOfUnset(text: string): { readonly warning?: string } {
  const reason = whyUnset(text.replaceAll(/%\([^()]+\)[sdf]\b/g, '')) // %(message)s is a format of Python's
  return reason === undefined ? {} : { warning: `a placeholder stays as it is: ${reason}` }
}

function unsetHint(text: string): string {
  const reason = whyUnset(text)
  return reason === undefined ? '' : ` (it stays as it is: ${reason})`
}

function whyUnset(text: string): string | undefined {
  const [, symbol, name] = /([$%])\(([^()]+)\)/.exec(text) ?? []
  if (symbol === undefined) return undefined
  return symbol === '$' ? `there is no environment variable ${name}` : `nothing sets ${name}`
}

function commentHint(text: string): string {
  return /[ \t][;#]/.test(text) ? ' (a comment needs a line of its own)' : ''
}

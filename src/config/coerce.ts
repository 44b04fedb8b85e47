import { describe } from '../base/errors.js'
import type { OptionSpec } from './option-table.js'

/** A typed value, and what there is to say about how it was written. */
export interface Coerced {
  readonly value: boolean | number | string
  readonly error?: string
  readonly warning?: string
}

const FALSE = new Set(['false', 'off', 'no', '0'])
const TRUE = new Set(['', 'true', 'on', 'yes', '1'])
/** A longer timer would fire at once: Node counts its milliseconds in 31 bits. */
const MAX_SECONDS = 2_147_483
/** What a text names, where it may not be empty. */
const THINGS = new Set(['DIR', 'FILE', 'LOGFILE', 'USER', 'GROUP', 'ADDRESS', 'NETWORK', 'USER[:GROUP]'])

/** An option's text as its value. A wrong one keeps the daemon from starting, where uWSGI would quietly use 0. */
export function coerce(spec: OptionSpec, text: string): Coerced {
  switch (spec.kind) {
    case 'flag':
      return coerceFlag(text)
    case 'count':
      return coerceNumber(text, /^\+?[0-9]{1,15}$/, 'a whole number from 0')
    case 'seconds':
      return coerceSeconds(text)
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

/** uWSGI takes every other text for true (core/uwsgi.c, uwsgi_opt_true). */
function coerceFlag(text: string): Coerced {
  const word = text.toLowerCase()
  if (FALSE.has(word)) return { value: false }
  if (TRUE.has(word)) return { value: true }
  return { value: true, warning: `expected true or false, got ${describe(text)}, which counts as true` }
}

/** Blanks around it, which atoi(3) skips, come with `$(…)` and `@(…)`. */
function coerceNumber(text: string, pattern: RegExp, expected: string): Coerced {
  const digits = text.trim()
  if (pattern.test(digits)) return { value: Number(digits) }
  return { value: 0, error: `expected ${expected}, got ${describe(text)}${commentHint(text)}` }
}

/** Behind this everything is milliseconds. */
function coerceSeconds(text: string): Coerced {
  const { value, error } = coerceNumber(text, /^\+?[0-9]{1,12}(\.[0-9]{1,12})?$/, 'a number of seconds')
  if (error !== undefined) return { value, error }
  const seconds = Number(value)
  if (seconds <= MAX_SECONDS) return { value: Math.round(seconds * 1000) }
  const warning = `expected at most ${MAX_SECONDS} seconds (24 days), got ${describe(text)}, which counts as so many`
  return { value: MAX_SECONDS * 1000, warning }
}

function coerceChoice({ name, choices = [] }: OptionSpec, text: string): Coerced {
  if (choices.includes(text)) return { value: text }
  const expected = `expected ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}, got ${describe(text)}`
  // a line format for requests is what uWSGI means by this key, and there are no requests here
  if (name === 'log-format' && text.includes('%'))
    return { value: 'text', warning: `${expected}; uWSGI's request log format has no meaning here` }
  return { value: choices[0] ?? '', error: `${expected}${commentHint(text)}` }
}

function coerceText({ name, value = '' }: OptionSpec, text: string): Coerced {
  // "log-date = true" asks for the usual format (core/uwsgi.c, uwsgi_opt_log_date)
  if (name === 'log-date') return { value: TRUE.has(text.toLowerCase()) ? '' : text }
  if (!THINGS.has(value)) return { value: text }
  if (text === '') return { value: text, error: `expected ${value}, got nothing` }
  const hint = commentHint(text) || (/^(["']).*\1$/s.test(text) ? ' (the quotes are part of the value)' : '')
  return hint === ''
    ? { value: text }
    : { value: text, warning: `expected ${value}, got ${describe(text)}${hint}` }
}

function commentHint(text: string): string {
  return /[ \t][;#]/.test(text) ? ' (a comment needs a line of its own)' : ''
}

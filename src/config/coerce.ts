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

/** An option's text as its value. A wrong one keeps the daemon from starting, where uWSGI would quietly use 0. */
export function coerce(spec: OptionSpec, text: string): Coerced {
  switch (spec.kind) {
    case 'flag':
      return coerceFlag(text)
    case 'count':
      return /^[0-9]{1,15}$/.test(text)
        ? { value: Number(text) }
        : { value: 0, error: `expected a whole number from 0, got ${describe(text)}` }
    case 'seconds':
      return /^[0-9]{1,12}(\.[0-9]+)?$/.test(text)
        ? { value: Math.round(Number(text) * 1000) }
        : { value: 0, error: `expected a number of seconds, got ${describe(text)}` }
    case 'octal':
      return /^[0-7]{3,4}$/.test(text)
        ? { value: Number.parseInt(text, 8) }
        : { value: 0, error: `expected 3 or 4 octal digits such as 022, got ${describe(text)}` }
    case 'choice':
      return coerceChoice(spec, text)
    case 'text':
    case 'directive':
      return { value: text }
  }
}

/** uWSGI takes every other text for true (core/uwsgi.c, uwsgi_opt_true). */
function coerceFlag(text: string): Coerced {
  const word = text.toLowerCase()
  if (FALSE.has(word)) return { value: false }
  if (TRUE.has(word)) return { value: true }
  return { value: true, warning: `expected true or false, got ${describe(text)}, which counts as true` }
}

function coerceChoice(spec: OptionSpec, text: string): Coerced {
  const choices = spec.choices ?? []
  if (choices.includes(text)) return { value: text }
  const expected = `expected ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}, got ${describe(text)}`
  // a line format for requests is what uWSGI means by this key, and there are no requests here
  if (spec.name === 'log-format' && text.includes('%'))
    return { value: 'text', warning: `${expected}; uWSGI's request log format has no meaning here` }
  return { value: choices[0] ?? '', error: expected }
}

import { onDemand } from '../base/on-demand.js'
import type { NumberedLine } from './magic.js'
import type { Setting } from './setting.js'

const ini = onDemand<typeof import('ini')>('ini')

/** The section that is read when none is named. */
export const DEFAULT_SECTION = 'uwsgi'

export interface IniLines {
  readonly settings: readonly Setting[]
  /** Every section of the file, for the message about a missing one. */
  readonly sections: readonly string[]
}

/**
 * The settings of one section of an ini file, in their order, repeats kept.
 *
 * The package `ini` takes the lines apart; `literal` first turns each into a form in which `ini` finds nothing to
 * interpret, because uWSGI (core/ini.c) knows no quotes, no escapes and no inline comments.
 */
export function readIni(lines: Iterable<NumberedLine>, file: string, section = DEFAULT_SECTION): IniLines {
  const text = [`[${OUTSIDE}]`, ...Array.from(lines, literal)].join('\n')
  const sections: Record<string, unknown> = ini().parse(text)
  const wanted = sections[encodeName(section)]
  const settings = Object.entries(typeof wanted === 'object' && wanted !== null ? wanted : {}).map(
    ([folded, value]) => {
      const cut = folded.lastIndexOf(FOLD)
      return {
        key: folded.slice(0, cut),
        value: String(value).slice(1),
        where: { file, line: Number(folded.slice(cut + 1)) },
      }
    },
  )
  return {
    settings,
    sections: Object.keys(sections)
      .filter(name => name !== OUTSIDE)
      .map(decodeName),
  }
}

/** Without the blanks at both ends that uWSGI knows: space, tab and carriage return. */
export function strip(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isBlank(text[start])) start++
  while (end > start && isBlank(text[end - 1])) end--
  return text.slice(start, end)
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t' || character === '\r'
}

export function isComment(stripped: string): boolean {
  return stripped.startsWith(';') || stripped.startsWith('#')
}

/** Between a key and the number of its line, which makes every key unique. */
const FOLD = '\u0001'
/** Keys before the first section belong to section "", which is never asked for. */
const OUTSIDE = 'outside'

/** One line in the form `"key␁number"=":value"`, as JSON strings, or `[hex of the section's name]`. */
function literal({ number, text }: NumberedLine): string {
  // a C string ends at its first NUL
  const stripped = strip(text.split('\0', 1)[0] ?? '')
  if (stripped === '' || isComment(stripped)) return ''
  // the name is what follows the bracket without the last character, whatever that is
  if (stripped.startsWith('[')) return `[${encodeName(stripped.slice(1, -1))}]`
  const cut = stripped.indexOf('=')
  const key = cut < 0 ? stripped : strip(stripped.slice(0, cut))
  const value = cut < 0 ? '' : strip(stripped.slice(cut + 1))
  return `${quote(key + FOLD + number)}=${quote(`:${value}`)}`
}

/** JSON leaves the Unicode line separators as they are, at which the patterns of `ini` would stop. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
}

function encodeName(section: string): string {
  return `s${Buffer.from(section).toString('hex')}`
}

function decodeName(encoded: string): string {
  return Buffer.from(encoded.slice(1), 'hex').toString()
}

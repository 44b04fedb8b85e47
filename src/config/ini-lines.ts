import { parse } from 'ini'
import type { Setting } from './setting.js'

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
export function readIni(text: string, file: string, section = DEFAULT_SECTION): IniLines {
  const sections: Record<string, unknown> = parse(text.split('\n').map(literal).join('\n'))
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

/** Between a key and the number of its line, which makes every key unique. */
const FOLD = '\u0001'
/** Keys before the first section belong to section "", which is never asked for. */
const OUTSIDE = 'outside'

/** One line in the form `"key␁line" = ":value"`, as JSON strings, or `[hex of the section's name]`. */
function literal(line: string, index: number): string {
  const stripped = line.replace(/^[ \t\r]+|[ \t\r]+$/g, '')
  const prologue = index === 0 ? `[${OUTSIDE}]\n` : ''
  if (stripped === '' || stripped.startsWith(';') || stripped.startsWith('#')) return prologue
  // the name is what follows the bracket without the last character, whatever that is
  if (stripped.startsWith('[')) return `${prologue}[${encodeName(stripped.slice(1, -1))}]`
  const [, key = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(stripped) ?? []
  const folded = JSON.stringify(key.replace(/[ \t\r]+$/, '') + FOLD + (index + 1))
  return `${prologue}${folded}=${JSON.stringify(`:${value.replace(/^[ \t\r]+/, '')}`)}`
}

function encodeName(section: string): string {
  return `s${Buffer.from(section).toString('hex')}`
}

function decodeName(encoded: string): string {
  return Buffer.from(encoded.slice(1), 'hex').toString()
}

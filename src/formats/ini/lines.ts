import { onDemand } from '../../base/on-demand.js'
import type { NumberedLine } from './magic.js'
import type { Setting } from './setting.js'

const ini = onDemand<typeof import('ini')>('ini')

/** The section that is read if none is named. */
export const DEFAULT_SECTION = 'uwsgi'

interface IniLines {
  readonly settings: readonly Setting[]
  /** All sections of the file, for the message about a missing one. */
  readonly sections: readonly string[]
}

/** Returns the settings of one section of an ini file, in order, with repeats (core/ini.c, uwsgi_ini_config). */
export function readIni(lines: Iterable<NumberedLine>, file: string, section = DEFAULT_SECTION): IniLines {
  const settings: Setting[] = []
  const sections = new Set<string>()
  let current: string | undefined // keys before the first section belong to none
  for (const { number, text } of lines) {
    const stripped = strip(text.split('\0', 1)[0] ?? '') // a C string ends at its first NUL
    if (stripped === '' || isComment(stripped)) continue
    if (stripped.startsWith('[')) {
      current = stripped.slice(1, -1) // as in uWSGI, without the last character, whatever it is
      sections.add(current)
    } else if (current === section) {
      const [key, value] = splitSetting(stripped)
      settings.push({ key, value, where: { file, line: number } })
    }
  }
  return { settings, sections: [...sections] }
}

/**
 * A line that the package `ini` reads as uWSGI does: a plain name, and a value without anything that `ini` interprets. uWSGI has
 * no quotes, no escapes, no comments after a value, and no words that mean true.
 */
const PLAIN = /^[a-z][\w-]*[ \t]*=[ \t]*(?:[^\p{C}\p{Z}"';#\\]| )*$/iu

/** @param line stripped, and not a comment or a section */
export function splitSetting(line: string): readonly [key: string, value: string] {
  if (PLAIN.test(line))
    for (const [key, value] of Object.entries(ini().parse(line))) return [key, String(value)]
  const cut = line.indexOf('=')
  return cut < 0 ? [line, ''] : [strip(line.slice(0, cut)), strip(line.slice(cut + 1))]
}

/** Strips what uWSGI strips at both ends: space, tab and carriage return. */
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

import { lstatSync, readdirSync } from 'node:fs'
import { statsOf } from '../../system/file-stats.js'

/**
 * Returns what glob(3) does as uWSGI calls it (GLOB_MARK | GLOB_NOCHECK): sorted, with a slash after each directory, or the
 * pattern itself if nothing matches. It supports `*`, `?`, `[a-z]`, `[!a-z]` and `\`; a leading dot has to be explicit.
 */
export function glob(pattern: string): string[] {
  let paths = ['']
  for (const part of pattern.split(/(\/+)/)) {
    if (part === '') continue
    paths = part.startsWith('/') ? paths.map(path => path + part) : paths.flatMap(path => step(path, part))
  }
  const found = paths.filter(path => path !== '' && exists(path)).map(markDirectory)
  return found.length > 0 ? found.sort() : [pattern]
}

/** Returns the entries of a directory that a pattern without slashes matches. */
function step(directory: string, part: string): string[] {
  if (!/[*?[\\]/.test(part)) return [directory + part]
  return namesIn(directory === '' ? '.' : directory)
    .filter(name => (part.startsWith('.') || !name.startsWith('.')) && matches(name, part))
    .map(name => directory + name)
}

/** True if the name matches. Only the last `*` is ever retried, so that a long pattern cannot take exponential time. */
export function matches(name: string, pattern: string): boolean {
  const characters = Array.from(name)
  const terms = termsOf(pattern)
  let at = 0
  let term = 0
  let star = -1
  let afterStar = 0
  while (at < characters.length) {
    const next = terms[term]
    if (next === ANY) {
      star = term++
      afterStar = at
    } else if (next?.(characters[at] ?? '')) {
      term++
      at++
    } else if (star >= 0) {
      term = star + 1
      at = ++afterStar
    } else return false
  }
  return terms.slice(term).every(rest => rest === ANY)
}

type Term = ((character: string) => boolean) | typeof ANY
const ANY = Symbol('*')

function termsOf(pattern: string): Term[] {
  return [...pattern.matchAll(/\\(.)|\[([!^]?)(\]?[^\]]*)\]|(.)/gsu)].map(([, escaped, not, set, plain]) => {
    if (set !== undefined) return character => isIn(character, set) === (not === '')
    if (plain === '*') return ANY
    if (plain === '?') return () => true
    const wanted = escaped ?? plain
    return character => character === wanted
  })
}

function isIn(character: string, set: string): boolean {
  return [...set.matchAll(/(.)-(.)|(.)/gsu)].some(([, from, to, single]) =>
    from !== undefined && to !== undefined ? from <= character && character <= to : character === single,
  )
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function exists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    return false
  }
}

function markDirectory(path: string): string {
  const isDirectory = statsOf(path)?.isDirectory() ?? false
  return isDirectory && !path.endsWith('/') ? `${path}/` : path
}

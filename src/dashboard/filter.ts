import type { SelectionOptions } from '../operate/selection.js'

/** The names of filters in URLs and forms, those of the command line. */
const SINGLE = ['state', 'olderThan', 'newerThan', 'priority', 'task', 'name', 'reason'] as const
const LISTS = ['key', 'match', 'grep'] as const

/** The filter that a form or the query of a URL has; what is empty does not count. */
export function filterIn(given: Readonly<Record<string, string | undefined>>): SelectionOptions {
  const single = SINGLE.flatMap(name => textOf(given[name]).map(text => [name, text] as const))
  const lists = LISTS.flatMap(name => textOf(given[name]).map(text => [name, [text]] as const))
  return Object.fromEntries([...single, ...lists])
}

function textOf(value = ''): string[] {
  return value.trim() === '' ? [] : [value.trim()]
}

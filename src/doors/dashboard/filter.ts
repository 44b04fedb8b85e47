import {
  type Selection,
  type SelectionOptions,
  selectionOf,
  usesPayload,
} from '../../admin/operate/selection.js'
import { seenTask } from '../../engines/spool/admin/task-view.js'
import type { Sight } from '../../formats/protocol/sight.js'
import { PageError } from './page-error.js'

/** The names of filters in URLs and forms: the same as those of the command line's filter flags. */
const SINGLE = ['state', 'olderThan', 'newerThan', 'priority', 'task', 'name', 'reason'] as const
const LISTS = ['key', 'match', 'grep'] as const

/** Returns the filter in a form, or in the query of a URL. Empty fields do not count. */
export function filterIn(given: Readonly<Record<string, string | undefined>>): SelectionOptions {
  const single = SINGLE.flatMap(name => textOf(given[name]).map(text => [name, text] as const))
  const lists = LISTS.flatMap(name => textOf(given[name]).map(text => [name, [text]] as const))
  return Object.fromEntries([...single, ...lists])
}

/** Returns a filter as the fields of a form or of a URL. */
export function textsOf(filter: SelectionOptions): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(filter).map(([key, value]) => [key, String(value)]))
}

function textOf(value = ''): string[] {
  return value.trim() === '' ? [] : [value.trim()]
}

/**
 * Returns what a filter selects for a visitor. It tests only what the visitor may see, so that filters reveal nothing else.
 *
 * @throws PageError, SpooldError USAGE for a filter that makes no sense
 */
export function selectionFor(filter: SelectionOptions, sight: Sight): Selection {
  if (usesPayload(filter) && !sight.mayReadPayload)
    throw new PageError(403, 'you may not read the payload of tasks, so you cannot filter by it')
  const selection = selectionOf(filter)
  return { ...selection, has: task => selection.has(seenTask(task, sight)) }
}

import {
  type Selection,
  type SelectionOptions,
  selectionOf,
  usesPayload,
} from '../../admin/operate/selection.js'
import { seenTask } from '../../engines/spool/admin/task-view.js'
import type { Sight } from '../../formats/protocol/sight.js'
import { PageError } from './page-error.js'

/** The names of filters in URLs and forms, those of the command line. */
const SINGLE = ['state', 'olderThan', 'newerThan', 'priority', 'task', 'name', 'reason'] as const
const LISTS = ['key', 'match', 'grep'] as const

/** The filter that a form or the query of a URL has; what is empty does not count. */
export function filterIn(given: Readonly<Record<string, string | undefined>>): SelectionOptions {
  const single = SINGLE.flatMap(name => textOf(given[name]).map(text => [name, text] as const))
  const lists = LISTS.flatMap(name => textOf(given[name]).map(text => [name, [text]] as const))
  return Object.fromEntries([...single, ...lists])
}

/** A filter, as forms and URLs have it. */
export function textsOf(filter: SelectionOptions): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(filter).map(([key, value]) => [key, String(value)]))
}

function textOf(value = ''): string[] {
  return value.trim() === '' ? [] : [value.trim()]
}

/**
 * What a filter selects for somebody: nobody finds out by filters what is not shown.
 *
 * @throws PageError, SpooldError USAGE for a filter that makes no sense
 */
export function selectionFor(filter: SelectionOptions, sight: Sight): Selection {
  if (usesPayload(filter) && !sight.mayReadPayload)
    throw new PageError(403, 'the payload of tasks is not for you, and so are filters that look at it')
  const selection = selectionOf(filter)
  return { ...selection, has: task => selection.has(seenTask(task, sight)) }
}

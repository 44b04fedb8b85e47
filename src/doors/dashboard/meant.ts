import { selectTasks } from '../../admin/operate/act.js'
import type { TaskAction } from '../../admin/operate/actions.js'
import type { Ref } from '../../base/task/ref.js'
import { type AuditEntry, namesForAudit } from '../../engines/spool/admin/audit.js'
import { ownStateOf } from '../../engines/spool/admin/task-view.js'
import type { Sight } from '../../formats/protocol/sight.js'
import type { Form } from './access/form.js'
import { filterIn, selectionFor } from './filter.js'
import { PAGE_SIZE } from './models/listings.js'
import { PageError } from './page-error.js'
import { refIn, type SpoolPlace } from './spools.js'

/** The tasks to which an action would be done now. */
export interface Meant {
  readonly refs: readonly Ref[]
  /** False if more tasks fit than may be acted on, or looked at, at once. */
  readonly isWhole: boolean
  /** The tasks for the audit: their names, or the filter. */
  readonly about: Pick<AuditEntry, 'task' | 'filter'>
}

/**
 * Returns the tasks that a form means and that are in one of the action's states: if the form has a `ref`, the tasks that were
 * selected in a listing, otherwise all that its filter selects.
 *
 * @throws PageError, SpooldError USAGE for a filter that makes no sense
 */
export async function meantBy(
  form: Form,
  { states }: Pick<TaskAction, 'states'>,
  place: SpoolPlace,
  sight: Sight,
): Promise<Meant> {
  const store = await place.open({ asksDaemons: true })
  if (form.ref !== undefined) {
    const refs: Ref[] = []
    for (const ref of selectedIn(place, form.ref)) {
      const task = await store.view(ref)
      if (task !== undefined && states.includes(ownStateOf(task.state))) refs.push(ref)
    }
    return { refs, isWhole: true, about: { task: namesForAudit(refs) } }
  }
  const filter = filterIn(form)
  const selected = await selectTasks(store, { states }, selectionFor(filter, sight))
  return { ...selected, about: { filter: JSON.stringify(filter) } }
}

/** Returns the refs of the selected tasks. @throws PageError if they are more than a page has */
function selectedIn(place: SpoolPlace, texts: string): Ref[] {
  const urlTexts = [...new Set(texts.split(' ').filter(text => text !== ''))]
  if (urlTexts.length > PAGE_SIZE)
    throw new PageError(400, `expected ${PAGE_SIZE} tasks at most, as a page has, got ${urlTexts.length}`)
  return urlTexts.flatMap(text => refIn(place, text) ?? [])
}

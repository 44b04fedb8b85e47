import { type ActionName, findAction } from '../../operate/actions.js'
import type { SelectionOptions } from '../../operate/selection.js'
import type { PageContext } from '../context.js'
import { filterIn } from '../filter.js'
import { PAGE_SIZE } from '../models/listings.js'
import { taskRow } from '../models/task-row.js'
import { PageError } from '../page-error.js'
import { BulkForm, bulkActions, TaskActions, WORDING } from '../views/actions.js'
import { BulkLinks, FindForm } from '../views/find.js'
import { spoolHref } from '../views/links.js'
import { dueColumn, FAILED, Tasks, WHY } from '../views/tasks.js'
import { countOf } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** The tasks that a filter selects. */
export async function findPage(context: PageContext, params: Params) {
  const { snapshot, place } = await spoolScene(context, params)
  const { viewer, query } = context
  const filter = filterIn(Object.fromEntries(query))
  const texts = textsOf(filter)
  const isAsked = Object.keys(texts).length > 0
  const { tasks, isWhole } = isAsked ? await place.find(filter, PAGE_SIZE) : { tasks: [], isWhole: true }
  const [at, here] = [spoolHref(place.id, 'spool'), spoolHref(place.id, 'find', Object.fromEntries(query))]
  const found = `The first ${PAGE_SIZE} of the tasks that fit, in the order of the directory`
  return framed(
    context,
    snapshot,
    place,
    {
      page: 'find',
      title: 'Find',
      source:
        'Looks at the names of the spool and of its dead letters, and opens those that fit, until a page is full.',
    },
    <>
      <section class="card" aria-label="Filter">
        <FindForm action={spoolHref(place.id, 'find')} query={query} mayReadPayload={viewer.mayReadPayload} />
      </section>
      {isAsked && (
        <>
          <p role="status">
            {isWhole ? countOf(tasks.length, 'task fits', 'tasks fit') : `${found}; there are more.`}
          </p>
          <Tasks
            name="Tasks that fit"
            urlOf={ref => place.urlOf(ref)}
            rows={tasks.map(task => taskRow(task, viewer.mayReadPayload, snapshot.atMs))}
            nowMs={snapshot.atMs}
            empty="No task fits."
            columns={[dueColumn(snapshot.atMs), FAILED, WHY]}
            actions={
              bulkActions(viewer).length === 0
                ? null
                : row => (
                    <TaskActions actor={viewer} at={place.urlOf(row.ref)} state={row.state} next={here} />
                  )
            }
          />
          {tasks.length > 0 && <BulkLinks at={at} actions={bulkActions(viewer)} filter={texts} />}
        </>
      )}
    </>,
  )
}

/** As a form or a URL has it. */
function textsOf(filter: SelectionOptions): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(filter).map(([key, value]) => [key, String(value)]))
}

/** How many tasks an action would be done to, and the form that does it. */
export async function bulkPage(context: PageContext, params: Params) {
  const { viewer, query } = context
  const name = params.action ?? ''
  const action = findAction(name)
  if (action?.on !== 'task' || !action.inBulk) throw new PageError(404, 'there is no such action')
  if (!viewer.may(name as ActionName)) throw new PageError(403, `${name} is not for you`)
  const filter = filterIn(Object.fromEntries(query))
  const { count, isWhole } = await context.spools.get(params.spool ?? '').count(action, filter)
  const { snapshot, place } = await spoolScene(context, params)
  const { label } = WORDING[name as ActionName]
  const back = spoolHref(place.id, 'find', Object.fromEntries(query))
  const fields = textsOf(filter)
  const words = Object.entries(fields).map(([key, value]) => `${key} ${value}`)
  return framed(
    context,
    snapshot,
    place,
    {
      page: 'find',
      title: `${label}: ${countOf(count, 'task')}`,
      source: `Counted now, among tasks that are ${action.states.join(', ')}; if there are more by the time you confirm, nothing is done.`,
    },
    <section class="card" aria-label="Confirmation">
      <p>{words.length === 0 ? 'Every task of these states.' : `Those with ${words.join(', ')}.`}</p>
      {!isWhole && <p class="bad">These are too many at once: narrow the filter, or use the command line.</p>}
      {isWhole && count > 0 && (
        <BulkForm
          name={name as ActionName}
          actor={viewer}
          at={spoolHref(place.id, 'spool')}
          next={back}
          filter={fields}
          count={count}
        />
      )}
      <p>
        <a href={back}>Back to the filter</a>
      </p>
    </section>,
  )
}

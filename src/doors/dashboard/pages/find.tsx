import type { PageContext } from '../context.js'
import { filterIn, textsOf } from '../filter.js'
import { PAGE_SIZE } from '../models/listings.js'
import { taskRow } from '../models/task-row.js'
import { bulkActions } from '../views/actions.js'
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
            place={place}
            actor={viewer}
            next={here}
            rows={tasks.map(task => taskRow(task, viewer.mayReadPayload, snapshot.atMs))}
            nowMs={snapshot.atMs}
            empty="No task fits."
            columns={[dueColumn(snapshot.atMs), FAILED, WHY]}
          />
          {tasks.length > 0 && <BulkLinks at={at} actions={bulkActions(viewer)} filter={texts} />}
        </>
      )}
    </>,
  )
}

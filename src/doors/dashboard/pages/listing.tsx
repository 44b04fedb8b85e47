import type { Child } from 'hono/jsx'
import type { TaskState } from '../../../engines/spool/admin/task-view.js'
import type { PageContext } from '../context.js'
import type { Page } from '../models/listings.js'
import { type TaskRow, taskRow } from '../models/task-row.js'
import { bulkActions } from '../views/actions.js'
import { BulkLinks } from '../views/find.js'
import { type SpoolPage, spoolHref } from '../views/links.js'
import type { Column } from '../views/parts.js'
import { Paging, Tasks } from '../views/tasks.js'
import { framed, type SpoolScene } from './framed.js'

/** A listing, and where it comes from. */
interface Scene {
  readonly page: SpoolPage
  readonly title: string
  readonly source: string
  readonly empty: string
  readonly query?: Readonly<Record<string, string>>
  readonly columns: ReadonlyArray<Column<TaskRow>>
  /** What selects all of them, for acts on many at once; absent: nothing does. */
  readonly filter?: Readonly<Record<'state', TaskState> & Partial<Record<'reason', string>>>
  /** Above the listing. */
  readonly before?: Child
}

/** A page of tasks, with what can be done to each, to those that are selected, and to all. */
export function listing(context: PageContext, at: SpoolScene, shown: Page, scene: Scene) {
  const { viewer } = context
  const { place, snapshot } = at
  const { page, title, source, empty, query = {}, columns, filter, before = '' } = scene
  const rows = shown.tasks.map(task => taskRow(task, viewer.mayReadPayload, snapshot.atMs))
  const next = spoolHref(place.id, page, { ...query, from: shown.from === 0 ? undefined : shown.from })
  return framed(
    context,
    snapshot,
    place,
    { page, title, source },
    <>
      {before}
      <Tasks
        name={title}
        place={place}
        actor={viewer}
        next={next}
        rows={rows}
        nowMs={snapshot.atMs}
        empty={empty}
        columns={columns}
      />
      <Paging id={place.id} page={page} query={query} from={shown.from} next={shown.next} />
      {filter !== undefined && rows.length > 0 && (
        <BulkLinks at={spoolHref(place.id, 'spool')} actions={bulkActions(viewer)} filter={filter} />
      )}
    </>,
  )
}

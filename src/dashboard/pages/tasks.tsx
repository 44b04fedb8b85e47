import type { Child } from 'hono/jsx'
import type { TaskState, TaskView } from '../../spool/admin/task-view.js'
import { type Ref, toByteString } from '../../task/ref.js'
import type { PageContext } from '../context.js'
import { deadRefs, MOST_NAMES, type Names, type Page, pageOf, recordedRefs } from '../models/listings.js'
import { runningIn } from '../models/running.js'
import { type TaskRow, taskRow } from '../models/task-row.js'
import { upcomingRefs } from '../models/upcoming.js'
import { bulkActions, TaskActions } from '../views/actions.js'
import { BulkLinks } from '../views/find.js'
import { type SpoolPage, spoolHref } from '../views/links.js'
import type { Column } from '../views/parts.js'
import { Running } from '../views/running.js'
import { buriedColumn, dueColumn, FAILED, Paging, Reasons, Tasks, WHY } from '../views/tasks.js'
import { countText } from '../views/text.js'
import { framed, fromIn, type SpoolScene, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

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

function listing(context: PageContext, at: SpoolScene, shown: Page, scene: Scene) {
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

/** What starts next, and what waits for its time: in the daemon's own order. */
export async function waitingPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const { place, snapshot } = at
  const isLater = context.query.get('show') === 'later'
  const ask = (verb: string, args: object) => context.daemon.ask(verb, args)
  const { refs, isCut } = await upcomingRefs(ask, place.directory, isLater ? 'later' : 'next')
  const shown = pageOf(place.look(), refs, fromIn(context))
  const which = isLater
    ? 'that wait for their time, the next one first'
    : 'that run, and then those that start next'
  return listing(context, at, shown, {
    page: 'waiting',
    title: isLater ? 'Waiting for their time' : 'Waiting',
    source: `The ${isCut ? 'first ' : ''}${countText(refs.length)} tasks ${which}, as the daemon knows them; the files of this page are opened.`,
    empty: isLater ? 'No task waits for its time.' : 'No task is due.',
    columns: [dueColumn(snapshot.atMs), FAILED],
    ...(isLater ? { query: { show: 'later' } } : {}),
  })
}

/** Those that failed, and wait for their next run. */
export function retryingPage(context: PageContext, params: Params) {
  return recordedPage(context, params, {
    page: 'retrying',
    title: 'Retrying',
    what: 'failed and run again',
    isWanted: ({ state, record }) => state !== 'held' && (record?.attempts ?? 0) > 0,
    empty: 'No task has failed and runs again.',
  })
}

/** Those that somebody holds. */
export function heldPage(context: PageContext, params: Params) {
  return recordedPage(context, params, {
    page: 'held',
    title: 'Held',
    what: 'are held',
    isWanted: ({ state }) => state === 'held',
    empty: 'No task is held.',
  })
}

interface Recorded {
  readonly page: 'retrying' | 'held'
  readonly title: string
  readonly what: string
  readonly empty: string
  isWanted(task: TaskView): boolean
}

async function recordedPage(
  context: PageContext,
  params: Params,
  { page, title, what, empty, isWanted }: Recorded,
) {
  const at = await spoolScene(context, params)
  const { place, snapshot } = at
  const names = await recordedRefs(toByteString(place.directory))
  const shown = pageOf(place.look(), names.refs, fromIn(context), isWanted)
  return listing(context, at, shown, {
    page,
    title,
    source: `Of ${boundOf(names)} records of tasks that failed or are held: those that ${what}. ${countText(shown.opened)} were opened.`,
    empty: shown.next === null ? empty : 'None in this part of the records.',
    columns: [dueColumn(snapshot.atMs), FAILED, WHY],
    filter: { state: page },
  })
}

/** The dead letters, the last one first. */
export async function deadPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const { place, snapshot } = at
  const reason = context.query.get('reason')
  const names = await deadRefs(toByteString(place.directory))
  const isWanted = ({ letter }: TaskView) => reason === null || letter?.reason === reason
  const shown = pageOf(place.look(), names.refs, fromIn(context), isWanted)
  return listing(context, at, shown, {
    page: 'dead',
    title: 'Dead letters',
    source: `${boundOf(names)} dead letters, the last one first; ${countText(shown.opened)} were opened.`,
    empty:
      reason === null
        ? 'There are no dead letters.'
        : 'None of this reason in this part of the dead letters.',
    columns: [buriedColumn(snapshot.atMs), FAILED, WHY],
    filter: { state: 'dead', ...(reason === null ? {} : { reason }) },
    before: <Reasons id={place.id} byReason={at.spool.dead.byReason} chosen={reason} />,
    ...(reason === null ? {} : { query: { reason } }),
  })
}

function boundOf({ refs, isCut }: Names): string {
  return isCut ? `the first ${countText(MOST_NAMES)}` : countText(refs.length)
}

/** What runs now. */
export async function runningPage(context: PageContext, params: Params) {
  const { snapshot, place, spool } = await spoolScene(context, params)
  const { viewer } = context
  const next = spoolHref(place.id, 'running')
  const source =
    "From the daemon's snapshot: what its workers have begun. Other daemons of the spool have pages of their own."
  const actions = viewer.may('cancel')
    ? ({ ref }: { ref: Ref }) => (
        <TaskActions actor={viewer} at={place.urlOf(ref)} state="running" next={next} />
      )
    : null
  return framed(
    context,
    snapshot,
    place,
    { page: 'running', title: 'Running', source, isLive: true },
    <Running
      urlOf={ref => place.urlOf(ref)}
      rows={runningIn(spool)}
      nowMs={snapshot.atMs}
      actions={actions}
    />,
  )
}

import type { Child } from 'hono/jsx'
import { type Ref, toByteString } from '../../../base/task/ref.js'
import { MOST_REACHED, readTaskNames } from '../../../engines/control/task-names.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import type { PageContext } from '../context.js'
import { deadNames, MOST_NAMES, type Names, PAGE_SIZE, pageOf, recordedNames } from '../models/listings.js'
import { type RunningRow, runningIn } from '../models/running.js'
import { TaskActions } from '../views/actions.js'
import { spoolHref } from '../views/links.js'
import { Table } from '../views/parts.js'
import { buriedColumn, dueColumn, FAILED, Reasons, WHY } from '../views/tasks.js'
import { countOf, countText, spanText } from '../views/text.js'
import { framed, fromIn, spoolScene } from './framed.js'
import { listing } from './listing.js'

type Params = Readonly<Record<string, string>>

/** What starts next, and what waits for its time: in the daemon's own order. */
export async function waitingPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const { place, snapshot } = at
  const isLater = context.query.get('show') === 'later'
  const from = fromIn(context)
  const ask = (verb: string, args: object) => context.daemon.ask(verb, args)
  const { refs, next } = await upcomingRefs(ask, place.directory, isLater ? 'later' : 'next', from)
  const shown = { ...pageOf(await place.look(), refs, 0), from, next }
  const which = isLater
    ? 'that wait for their time, the next one first'
    : 'that run, and then those that start next'
  return listing(context, at, shown, {
    page: 'waiting',
    title: isLater ? 'Waiting for their time' : 'Waiting',
    source: `The tasks ${which}${refs.length === 0 ? '' : `: ${countText(from + 1)} to ${countText(from + refs.length)}`}. The daemon names the first ${countText(MOST_REACHED)}; the files of this page are opened.`,
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
  const names = await recordedNames(toByteString(place.directory))
  const shown = pageOf(await place.look(), names.refs, fromIn(context), isWanted)
  return listing(context, at, shown, {
    page,
    title,
    source: `Of ${boundOf(names, 'record')} of tasks that failed or are held: those that ${what}. ${countOf(shown.opened, 'was', 'were')} opened.`,
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
  const names = await deadNames(toByteString(place.directory))
  const isWanted = ({ letter }: TaskView) => reason === null || letter?.reason === reason
  const shown = pageOf(await place.look(), names.refs, fromIn(context), isWanted)
  return listing(context, at, shown, {
    page: 'dead',
    title: 'Dead letters',
    source: `${boundOf(names, 'dead letter')}, the last one first; ${countOf(shown.opened, 'was', 'were')} opened.`,
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

function boundOf({ refs, isCut }: Names, one: string): string {
  return isCut ? `the first ${countOf(MOST_NAMES, one)}` : countOf(refs.length, one)
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

/** Asks the daemon one verb of the control protocol. @throws why it was not answered */
type Ask = (verb: string, args: object) => Promise<unknown>

/** `next`: what starts next, and what runs already; `later`: what waits for its time. */
type Upcoming = 'next' | 'later'

/**
 * A page of the tasks of a spool in the order of the daemon, which knows them without a look at the directory.
 *
 * @param spool its real path
 * @param from how many are before it
 */
async function upcomingRefs(
  ask: Ask,
  spool: string,
  which: Upcoming,
  from: number,
): Promise<{ refs: readonly Ref[]; next: number | null }> {
  const answer = readTaskNames(await ask(which, { spool, limit: PAGE_SIZE + 1, from }))
  if (answer === undefined) throw new Error(`the daemon answered ${which} with something else than names`)
  return {
    refs: answer.refs.slice(0, PAGE_SIZE),
    next: answer.refs.length > PAGE_SIZE ? from + PAGE_SIZE : null,
  }
}

interface RunningProps {
  /** The page of a task. */
  urlOf(ref: string): string
  readonly rows: readonly RunningRow[]
  readonly nowMs: number
  readonly actions: ((row: RunningRow) => Child) | null
}

function Running({ urlOf, rows, nowMs, actions }: RunningProps) {
  return (
    <Table
      name="Running tasks"
      columns={[
        {
          title: 'Task',
          cell: ({ ref, name }) => (
            <a class="path" href={urlOf(ref)}>
              {name}
            </a>
          ),
        },
        { title: 'For', isNumber: true, cell: ({ sinceMs }) => spanText(nowMs - sinceMs) },
        { title: 'Process', isNumber: true, cell: ({ pid }) => String(pid) },
        ...(actions === null ? [] : [{ title: 'Actions', cell: actions }]),
      ]}
      rows={rows}
      empty="Nothing runs now."
    />
  )
}

import type { Child } from 'hono/jsx'
import type { ActionName } from '../../../admin/operate/actions.js'
import { ownStateOf, type TaskState } from '../../../engines/spool/admin/task-view.js'
import type { PageContext } from '../context.js'
import type { Page } from '../models/listings.js'
import { type TaskRow, taskRow } from '../models/task-row.js'
import type { ReadableSpool } from '../readable-spools.js'
import { canHave, Hidden, TaskActions, useBulkActions, WORDING } from '../views/actions.js'
import { type SpoolPage, spoolHref } from '../views/links.js'
import { Card, type Column, StateBadge, Table, When } from '../views/parts.js'
import { bytesText, countText, shortName } from '../views/text.js'
import { framed, type SpoolScene } from './framed.js'

/** The texts, the columns and the filter of a page with a listing. */
interface Scene {
  readonly page: SpoolPage
  readonly title: string
  readonly source: string
  readonly empty: string
  readonly query?: Readonly<Record<string, string>>
  readonly columns: ReadonlyArray<Column<TaskRow>>
  /** The filter that selects all tasks of the listing, for acts on many at once. Absent: no filter does. */
  readonly filter?: Readonly<Record<string, string>>
  /** Above the listing. */
  readonly before?: Child
}

/** A page of tasks, with what can be done to each task, to the selected ones, and to all. */
export function listing(context: PageContext, at: SpoolScene, shown: Page, scene: Scene) {
  const { place, snapshot } = at
  const { page, title, source, empty, query = {}, columns, filter, before = '' } = scene
  const { mayReadPayload } = context.viewer
  const rows = shown.tasks.map(task => taskRow(task, mayReadPayload, snapshot.atMs))
  const next = spoolHref(place.id, page, { ...query, from: shown.from === 0 ? undefined : shown.from })
  return framed(
    context,
    at,
    { page, title, source },
    <>
      {before}
      <Tasks name={title} place={place} next={next} rows={rows} empty={empty} columns={columns} />
      <Paging id={place.id} page={page} query={query} from={shown.from} next={shown.next} />
      {filter !== undefined && rows.length > 0 && <BulkLinks id={place.id} filter={filter} />}
    </>,
  )
}

interface TasksProps {
  readonly name: string
  readonly place: ReadableSpool
  /** The path of the page that follows an act. */
  readonly next: string
  readonly rows: readonly TaskRow[]
  readonly empty: string
  /** Further columns, before the actions. */
  readonly columns: ReadonlyArray<Column<TaskRow>>
}

/** A table of tasks, with what this visitor can do to each task, and to the selected ones. */
export function Tasks({ name, place, next, rows, empty, columns }: TasksProps) {
  const allowed = useBulkActions()
  const possible = allowed.filter(each => rows.some(({ state }) => canHave(each, state)))
  const check: Column<TaskRow> = {
    title: 'Select',
    cell: row => (
      <input
        type="checkbox"
        name="ref"
        form={CHOICE}
        value={place.textOf(row.ref)}
        aria-label={`Select ${row.kind ?? row.name}`}
      />
    ),
  }
  const actions: Column<TaskRow> = {
    title: 'Actions',
    cell: row => <TaskActions at={place.urlOf(row.ref)} state={row.state} next={next} />,
  }
  const priority: Column<TaskRow> = { title: 'Priority', isNumber: true, cell: row => row.priority ?? '' }
  return (
    <>
      <Table
        name={name}
        rows={rows}
        empty={empty}
        columns={[
          ...(possible.length > 0 ? [check] : []),
          { title: 'Task', cell: row => <TaskLink href={place.urlOf(row.ref)} row={row} /> },
          { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
          ...(rows.some(row => row.priority !== null) ? [priority] : []),
          { title: 'Arrived', cell: ({ arrivedMs }) => <When ms={arrivedMs} /> },
          ...columns,
          { title: 'Size', isNumber: true, cell: ({ bytes }) => bytesText(bytes) },
          ...(allowed.length > 0 ? [actions] : []),
        ]}
      />
      {possible.length > 0 && <Choice at={spoolHref(place.id, 'spool')} next={next} possible={possible} />}
    </>
  )
}

/** The id of the form that all check boxes of a page belong to. */
const CHOICE = 'choice'

interface ChoiceProps {
  /** The path of the spool. */
  readonly at: string
  readonly next: string
  readonly possible: readonly ActionName[]
}

/** The form for the selected tasks. Each button leads to a preview. A script adds their number and a box for all. */
function Choice({ at, next, possible }: ChoiceProps) {
  return (
    <Card id="selected" title="Do something to those selected">
      <form id={CHOICE} method="post">
        <Hidden fields={{ next }} />
        <p class="choice" hidden>
          <label>
            <input type="checkbox" id="select-all" /> Select all on this page
          </label>
          <output for="select-all">none selected</output>
        </p>
        <p class="quiet">A preview says which they are before anything is done.</p>
        <div class="actions">
          {possible.map(name => (
            <button type="submit" formaction={`${at}/chosen/${name}`}>
              {`${WORDING[name].label}…`}
            </button>
          ))}
        </div>
      </form>
    </Card>
  )
}

/** The link to a task. `More` unfolds the rest of the row on a phone. */
function TaskLink({ href, row }: { href: string; row: TaskRow }) {
  const title = row.kind ?? shortName(row.name)
  return (
    <>
      <span>
        <a class="path" href={href}>
          {title}
        </a>
        {row.kind !== null && <div class="quiet path name">{shortName(row.name)}</div>}
        {row.summary !== null && <div class="summary path">{row.summary}</div>}
      </span>
      <details class="more">
        <summary aria-label={`More about ${title}`}>More</summary>
      </details>
    </>
  )
}

/** When a task is due. */
export const DUE: Column<TaskRow> = {
  title: 'Due',
  cell: ({ state, dueAtMs }) => (ownStateOf(state) === 'due' ? 'now' : <When ms={dueAtMs} />),
}

/** Since when a task runs. */
export const SINCE: Column<TaskRow> = {
  title: 'Runs since',
  cell: ({ startedAtMs }) => <When ms={startedAtMs} />,
}

export const FAILED: Column<TaskRow> = {
  title: 'Failed',
  isNumber: true,
  cell: ({ attempts, crashes }) =>
    attempts === 0 ? '' : `${countText(attempts)}${crashes > 0 ? `, ${crashes} crashed` : ''}`,
}

/** What a parked task waits for. */
export const PARKED: Column<TaskRow> = { title: 'Waits because', cell: ({ parked }) => parked ?? '' }

/** Why a task is here: what it is parked for, why it was buried, its error. Viewers who may not read errors see the rest. */
export const WHY: Column<TaskRow> = {
  title: 'Why',
  cell: ({ parked, reason, error }) => {
    const failure = [reason, error].filter(part => part !== null).join(': ')
    return [parked ?? '', failure].filter(part => part !== '').join('; ')
  },
}

export const BURIED: Column<TaskRow> = { title: 'Buried', cell: ({ buriedAtMs }) => <When ms={buriedAtMs} /> }

interface PagingProps {
  readonly id: string
  readonly page: SpoolPage
  readonly query: Readonly<Record<string, string | undefined>>
  readonly from: number
  readonly next: number | null
}

/** Links to the beginning and to the next page of a listing, and a form to get to any other part. */
function Paging({ id, page, query, from, next }: PagingProps) {
  if (from === 0 && next === null) return null
  return (
    <nav class="paging" aria-label="Parts of the listing">
      {from > 0 && <a href={spoolHref(id, page, query)}>To the beginning</a>}
      {next !== null && <a href={spoolHref(id, page, { ...query, from: next })}>Next</a>}
      <form method="get" action={spoolHref(id, page)}>
        {Object.entries(query).map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <label>
          Pass over{' '}
          <input name="from" value={String(from)} inputmode="numeric" pattern="[0-9]{1,6}" size={7} />
        </label>{' '}
        <button type="submit">Go</button>
      </form>
    </nav>
  )
}

interface BulkLinksProps {
  /** The name of the spool in URLs. */
  readonly id: string
  /** The filter that selects the tasks. */
  readonly filter: Readonly<Record<string, string>>
}

/** Links to the previews of what can be done to all tasks that a filter selects. */
export function BulkLinks({ id, filter }: BulkLinksProps) {
  const { state = '' } = filter
  const query = new URLSearchParams(filter).toString()
  const possible = useBulkActions().filter(name => state === '' || canHave(name, state as TaskState))
  if (possible.length === 0) return null
  return (
    <Card id="all" title="Do something to all of them">
      <p class="quiet">A preview says how many they are before anything is done.</p>
      <div class="actions">
        {possible.map(name => (
          <a class="button" href={`${spoolHref(id, 'spool')}/bulk/${name}?${query}`}>
            {`${WORDING[name].label}…`}
          </a>
        ))}
      </div>
    </Card>
  )
}

import type { ActionName } from '../../../admin/operate/actions.js'
import { ownStateOf } from '../../../engines/spool/admin/task-view.js'
import type { TaskRow } from '../models/task-row.js'
import { type Actor, bulkActions, canHave, Hidden, TaskActions, WORDING } from './actions.js'
import { type SpoolPage, spoolHref } from './links.js'
import { type Column, StateBadge, Table, When } from './parts.js'
import { bytesText, countText, shortName } from './text.js'

/** A spool, as URLs and forms have it. */
interface Place {
  readonly id: string
  /** The page of a task. */
  urlOf(ref: string): string
  textOf(ref: string): string
}

interface TasksProps {
  readonly name: string
  readonly place: Place
  readonly actor: Actor
  /** Where to go after an act. */
  readonly next: string
  readonly rows: readonly TaskRow[]
  readonly nowMs: number
  readonly empty: string
  /** Further columns, before the actions. */
  readonly columns?: ReadonlyArray<Column<TaskRow>>
}

/** A listing of tasks, and what this visitor can do to each, and to those that are selected. */
export function Tasks({ name, place, actor, next, rows, nowMs, empty, columns = [] }: TasksProps) {
  const possible = bulkActions(actor).filter(each => rows.some(({ state }) => canHave(each, state)))
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
    cell: row => <TaskActions actor={actor} at={place.urlOf(row.ref)} state={row.state} next={next} />,
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
          { title: 'Arrived', cell: ({ arrivedMs }) => <When ms={arrivedMs} nowMs={nowMs} /> },
          ...columns,
          { title: 'Size', isNumber: true, cell: ({ bytes }) => bytesText(bytes) },
          ...(bulkActions(actor).length > 0 ? [actions] : []),
        ]}
      />
      {possible.length > 0 && (
        <Choice actor={actor} at={spoolHref(place.id, 'spool')} next={next} possible={possible} />
      )}
    </>
  )
}

/** The form of all check boxes of a page. */
const CHOICE = 'choice'

interface ChoiceProps {
  readonly actor: Actor
  /** The path of the spool. */
  readonly at: string
  readonly next: string
  readonly possible: readonly ActionName[]
}

/** What can be done to the tasks that are selected: each button leads to a preview. A script adds how many they are, and all at once. */
function Choice({ actor, at, next, possible }: ChoiceProps) {
  return (
    <section class="card" aria-labelledby="selected">
      <h2 id="selected">Do something to those selected</h2>
      <form id={CHOICE} method="post">
        <Hidden fields={{ csrf: actor.csrf, next }} />
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
    </section>
  )
}

/** With what unfolds the rest of the row on a phone. */
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

/** When it is due. */
export const dueColumn = (nowMs: number): Column<TaskRow> => ({
  title: 'Due',
  cell: ({ state, dueAtMs }) => (ownStateOf(state) === 'due' ? 'now' : <When ms={dueAtMs} nowMs={nowMs} />),
})

/** Of a task that runs. */
export const sinceColumn = (nowMs: number): Column<TaskRow> => ({
  title: 'Runs since',
  cell: ({ startedAtMs }) => <When ms={startedAtMs} nowMs={nowMs} />,
})

export const FAILED: Column<TaskRow> = {
  title: 'Failed',
  isNumber: true,
  cell: ({ attempts, crashes }) =>
    attempts === 0 ? '' : `${countText(attempts)}${crashes > 0 ? `, ${crashes} crashed` : ''}`,
}

/** What a parked task waits for. */
export const PARKED: Column<TaskRow> = { title: 'Waits because', cell: ({ parked }) => parked ?? '' }

/** Why; for those who may not read errors, the reason alone. */
export const WHY: Column<TaskRow> = {
  title: 'Why',
  cell: ({ parked, reason, error }) => {
    const failure = [reason, error].filter(part => part !== null).join(': ')
    return [parked ?? '', failure].filter(part => part !== '').join('; ')
  },
}

export const buriedColumn = (nowMs: number): Column<TaskRow> => ({
  title: 'Buried',
  cell: ({ buriedAtMs }) => <When ms={buriedAtMs} nowMs={nowMs} />,
})

interface PagingProps {
  readonly id: string
  readonly page: SpoolPage
  readonly query: Readonly<Record<string, string | undefined>>
  readonly from: number
  readonly next: number | null
}

/** To the beginning, to what follows, and to any other part. */
export function Paging({ id, page, query, from, next }: PagingProps) {
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

interface ReasonsProps {
  readonly id: string
  readonly byReason: Readonly<Record<string, number>>
  readonly chosen: string | null
}

/** Dead letters by their reason, each a link to those alone. */
export function Reasons({ id, byReason, chosen }: ReasonsProps) {
  const reasons = Object.entries(byReason)
  if (reasons.length < 2 && chosen === null) return null
  return (
    <nav aria-label="Reasons">
      <ul class="spools">
        <li>{chosen === null ? <strong>all</strong> : <a href={spoolHref(id, 'dead')}>all</a>}</li>
        {reasons.map(([reason, count]) => {
          const text = `${reason} ${countText(count)}`
          const href = spoolHref(id, 'dead', { reason })
          return <li>{reason === chosen ? <strong>{text}</strong> : <a href={href}>{text}</a>}</li>
        })}
      </ul>
    </nav>
  )
}

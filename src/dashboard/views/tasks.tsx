import type { Child } from 'hono/jsx'
import type { TaskRow } from '../models/task-row.js'
import { type SpoolPage, spoolHref } from './links.js'
import { type Column, StateBadge, Table, When } from './parts.js'
import { bytesText, countText } from './text.js'

interface TasksProps {
  readonly name: string
  /** The page of a task. */
  urlOf(ref: string): string
  readonly rows: readonly TaskRow[]
  readonly nowMs: number
  readonly empty: string
  /** What can be done with a row; null: nothing by this viewer. */
  readonly actions: ((row: TaskRow) => Child) | null
  /** Further columns, before the actions. */
  readonly columns?: ReadonlyArray<Column<TaskRow>>
}

/** A listing of tasks. */
export function Tasks({ name, urlOf, rows, nowMs, empty, actions, columns = [] }: TasksProps) {
  const priority: Column<TaskRow> = { title: 'Priority', isNumber: true, cell: row => row.priority ?? '' }
  return (
    <Table
      name={name}
      rows={rows}
      empty={empty}
      columns={[
        { title: 'Task', cell: row => <TaskLink href={urlOf(row.ref)} row={row} /> },
        { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
        ...(rows.some(row => row.priority !== null) ? [priority] : []),
        { title: 'Arrived', cell: ({ arrivedMs }) => <When ms={arrivedMs} nowMs={nowMs} /> },
        ...columns,
        { title: 'Size', isNumber: true, cell: ({ bytes }) => bytesText(bytes) },
        ...(actions === null ? [] : [{ title: 'Actions', cell: actions }]),
      ]}
    />
  )
}

function TaskLink({ href, row }: { href: string; row: TaskRow }) {
  return (
    <span>
      <a class="path" href={href}>
        {row.kind ?? row.name}
      </a>
      {row.kind !== null && <div class="quiet path">{row.name}</div>}
      {row.summary !== null && <div class="summary path">{row.summary}</div>}
    </span>
  )
}

/** When it is due. */
export const dueColumn = (nowMs: number): Column<TaskRow> => ({
  title: 'Due',
  cell: ({ state, dueAtMs }) => (state === 'due' ? 'now' : <When ms={dueAtMs} nowMs={nowMs} />),
})

export const FAILED: Column<TaskRow> = {
  title: 'Failed',
  isNumber: true,
  cell: ({ attempts, crashes }) =>
    attempts === 0 ? '' : `${countText(attempts)}${crashes > 0 ? `, ${crashes} crashed` : ''}`,
}

/** Why; for those who may not read errors, the reason alone. */
export const WHY: Column<TaskRow> = {
  title: 'Why',
  cell: ({ reason, error }) => [reason, error].filter(part => part !== null).join(': '),
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

/** To the beginning, and to what follows. */
export function Paging({ id, page, query, from, next }: PagingProps) {
  if (from === 0 && next === null) return null
  return (
    <nav class="paging" aria-label="Parts of the listing">
      {from > 0 && <a href={spoolHref(id, page, query)}>To the beginning</a>}
      {next !== null && <a href={spoolHref(id, page, { ...query, from: next })}>Next</a>}
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

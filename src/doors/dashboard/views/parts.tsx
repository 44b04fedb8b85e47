import { type Child, createContext, useContext } from 'hono/jsx'
import type { TaskState } from '../../../engines/spool/admin/task-view.js'
import type { Viewer } from '../context.js'
import { fromNowText, isoText } from './text.js'

interface Look {
  readonly viewer: Viewer
  /** The time of the snapshot that the page shows. */
  readonly nowMs: number
}

/** Who looks at a page, and when. The frame of the page tells all components in it. */
export const LookContext = createContext<Look>({
  viewer: { name: '', role: 'viewer', mayReadPayload: false, hasSession: false, csrf: '', may: () => false },
  nowMs: 0,
})

/** Returns who looks, and when. Only components may call it, because only what is rendered is in a frame. */
export function useLook(): Look {
  return useContext(LookContext)
}

/** A time, as its distance from now. The whole time is its title. */
export function When({ ms }: { ms: number | null }) {
  const { nowMs } = useLook()
  if (ms === null) return <span class="quiet">unknown</span>
  const iso = isoText(ms)
  return (
    <time datetime={iso} title={iso}>
      {fromNowText(ms, nowMs)}
    </time>
  )
}

const TONES: Readonly<Partial<Record<TaskState, string>>> = {
  running: 'good',
  parked: 'warn',
  retrying: 'warn',
  held: 'warn',
  incomplete: 'bad',
  malformed: 'bad',
  unreadable: 'bad',
  dead: 'bad',
}

export function StateBadge({ state }: { state: TaskState }) {
  return <span class={`badge ${TONES[state] ?? ''}`}>{state}</span>
}

interface Tile {
  readonly label: string
  readonly value: string
  readonly note?: string
  readonly href?: string
}

/** A few figures that matter, each with a link to what it counts, if there is such a page. */
export function Tiles({ tiles }: { tiles: readonly Tile[] }) {
  return (
    <dl class="tiles">
      {tiles.map(({ label, value, note, href }) => (
        <div>
          <dt>{href === undefined ? label : <a href={href}>{label}</a>}</dt>
          <dd>
            {value}
            {note !== undefined && (
              <>
                {' '}
                <small>{note}</small>
              </>
            )}
          </dd>
        </div>
      ))}
    </dl>
  )
}

/** A list of names and their values. Names whose value is null are left out. */
export function Facts({ facts }: { facts: ReadonlyArray<readonly [name: string, value: Child | null]> }) {
  const known = facts.filter(([, value]) => value !== null)
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  )
}

/** A part of a page, with a heading. @param id unique in its page */
export function Card({ id, title, children }: { id: string; title: Child; children?: Child }) {
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  )
}

export interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  cell(row: Row): Child
}

interface TableProps<Row> {
  /** The name of the table, for people who do not see the heading above it. */
  readonly name: string
  readonly columns: ReadonlyArray<Column<Row>>
  readonly rows: readonly Row[]
  readonly empty: string
}

/** A table that becomes a list of cards on a narrow screen. The explicit roles keep it a table for screen readers. */
export function Table<Row>({ name, columns, rows, empty }: TableProps<Row>) {
  if (rows.length === 0) return <p class="quiet">{empty}</p>
  return (
    // biome-ignore-start lint/a11y/noRedundantRoles: laid out as blocks, the elements would lose their roles
    <table class="stacked" role="table" aria-label={name}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ title, isNumber }) => (
            <th scope="col" role="columnheader" class={isNumber ? 'number' : ''}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map(row => (
          <tr role="row">
            {columns.map(({ title, isNumber, cell }) => (
              <td role="cell" data-label={title} class={isNumber ? 'number' : ''}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
    // biome-ignore-end lint/a11y/noRedundantRoles: as above
  )
}

/** A text field of a form. */
export function Field({ name, label, hint }: { name: string; label: string; hint: string }) {
  return (
    <label>
      {label}
      <br />
      <input name={name} placeholder={hint} autocomplete="off" />
    </label>
  )
}

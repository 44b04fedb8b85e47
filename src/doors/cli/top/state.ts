import type { Ref } from '../../../base/task/ref.js'
import type { TaskState } from '../../../engines/spool/admin/task-view.js'
import type { SpoolStatus } from '../status/spool-status.js'
import type { TabName } from './tabs.js'

/** A line of a table. */
export interface Row {
  /** Identifies the row, and stays the same from look to look. */
  readonly id: string
  /** The texts unescaped: the screen escapes what a terminal would obey. */
  readonly cells: readonly string[]
  readonly task?: { readonly ref: Ref; readonly state: TaskState }
}

/** The subject of the screen. */
interface Topic {
  /** The spool as the user named it. */
  readonly spool: string
  readonly tab: TabName
  readonly filter: string
}

/** The result of one look at a spool. */
export interface Look extends Topic {
  readonly atMs: number
  /** One snapshot for each daemon, or one of the directory. */
  readonly statuses: readonly SpoolStatus[]
  readonly rows: readonly Row[]
  /** Which tasks the rows show, in words for people. */
  readonly scope: string
}

/** An action that waits for a yes. */
export interface Intent {
  readonly action: string
  readonly rows: readonly Row[]
  readonly args: Readonly<Record<string, string>>
  /** What the action will do, in words for people, with the number of tasks. */
  readonly text: string
}

export type Mode =
  | { readonly kind: 'list' }
  | { readonly kind: 'prompt'; readonly of: 'filter' | 'scale'; readonly text: string }
  | { readonly kind: 'confirm'; readonly intent: Intent }
  | {
      readonly kind: 'text'
      readonly title: string
      readonly lines: readonly string[]
      readonly first: number
    }

export interface TopState extends Topic {
  readonly spools: readonly string[]
  /** The last look at this topic. */
  readonly look: Look | undefined
  /** How much was done at each look, the last look last. */
  readonly history: readonly Sample[]
  /** The row that has the cursor. */
  readonly cursor: number
  /** The ids of the selected rows. */
  readonly selected: ReadonlySet<string>
  readonly mode: Mode
  /** The message of the last key. */
  readonly message: string
}

/** How much a daemon had done at a time. */
export interface Sample {
  readonly atMs: number
  readonly daemon: string
  readonly done: number
}

/** What a key asks for besides drawing. */
export type Effect =
  | { readonly kind: 'quit' | 'suspend' | 'redraw' | 'look' }
  | { readonly kind: 'show'; readonly row: Row }
  | { readonly kind: 'act'; readonly intent: Intent }

export interface Step {
  readonly state: TopState
  readonly effect?: Effect
}

const MOST_SAMPLES = 240

export function initialState(spools: readonly string[]): TopState {
  return {
    spools,
    spool: spools[0] ?? '',
    tab: 'overview',
    filter: '',
    look: undefined,
    history: [],
    cursor: 0,
    selected: new Set(),
    mode: { kind: 'list' },
    message: '',
  }
}

/** Switches to another topic, to which nothing that was seen or selected belongs. */
export function turnedTo(state: TopState, topic: Partial<Topic>): Step {
  const next = { ...state, ...topic, look: undefined, cursor: 0, selected: new Set<string>(), message: '' }
  const history = next.spool === state.spool ? state.history : []
  return { state: { ...next, history, mode: { kind: 'list' } }, effect: { kind: 'look' } }
}

/** Takes in a look. The cursor stays on its row, and rows that are gone are no longer selected. */
export function looked(state: TopState, look: Look): TopState {
  const history = withSample(state.history, look, state.spool)
  const isOfTopic = look.tab === state.tab && look.filter === state.filter && look.spool === state.spool
  if (!isOfTopic) return { ...state, history }
  const at = state.look?.rows[state.cursor]?.id
  const found = at === undefined ? -1 : look.rows.findIndex(({ id }) => id === at)
  const ids = new Set(look.rows.map(({ id }) => id))
  return {
    ...state,
    look,
    history,
    cursor: found >= 0 ? found : clamp(state.cursor, look.rows.length),
    selected: new Set([...state.selected].filter(id => ids.has(id))),
  }
}

function withSample(history: readonly Sample[], look: Look, spool: string): readonly Sample[] {
  const [status] = look.statuses
  if (look.spool !== spool || status?.source !== 'daemon') return history
  const { pid, startedAtMs } = status.daemon
  const sample = { atMs: status.atMs, daemon: `${pid} ${startedAtMs}`, done: status.totals.done }
  if (history.at(-1)?.atMs === sample.atMs) return history
  return [...history, sample].slice(-MOST_SAMPLES)
}

export function clamp(cursor: number, rows: number): number {
  return Math.max(0, Math.min(cursor, rows - 1))
}

/** The rows that an action is for: the selected ones, or else the one under the cursor. */
export function targetsOf({ look, selected, cursor }: TopState): readonly Row[] {
  const rows = look?.rows ?? []
  if (selected.size > 0) return rows.filter(({ id }) => selected.has(id))
  const row = rows[cursor]
  return row === undefined ? [] : [row]
}

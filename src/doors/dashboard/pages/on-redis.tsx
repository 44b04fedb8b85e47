import type { TaskState, TaskView } from '../../../engines/spool/admin/task-view.js'
import type { PageContext, Page as PageOf } from '../context.js'
import type { TaskRow } from '../models/task-row.js'
import type { SpoolPage } from '../views/links.js'
import type { Column } from '../views/parts.js'
import { buriedColumn, dueColumn, FAILED, PARKED, Reasons, sinceColumn, WHY } from '../views/tasks.js'
import { countOf } from '../views/text.js'
import { fromIn, type SpoolScene, spoolScene } from './framed.js'
import { listing } from './listing.js'

/** A listing of a spool on Redis, which has its tasks in order: a page of it reads no other. */
interface Listing {
  readonly page: SpoolPage
  readonly title: string
  /** In which order, for people. */
  readonly order: string
  readonly empty: string
  /** Tasks in other states are at the same places: they are passed over. */
  readonly states: readonly TaskState[]
  readonly isReversed?: true
  columns(nowMs: number): ReadonlyArray<Column<TaskRow>>
}

const due = (nowMs: number) => [dueColumn(nowMs), FAILED]
const failed = (nowMs: number) => [dueColumn(nowMs), FAILED, WHY]

const NEXT: Listing = {
  ...{
    page: 'waiting',
    title: 'Waiting',
    order: 'in the order in which they start',
    empty: 'No task is due.',
  },
  ...{ states: ['due', 'malformed'], columns: due },
}
const LATER: Listing = {
  ...{ page: 'waiting', title: 'Waiting for their time', order: 'the next one first', columns: due },
  ...{ states: ['waiting', 'retrying', 'parked'], empty: 'No task waits for its time.' },
}
const LISTINGS = {
  waiting: NEXT,
  running: {
    ...{
      page: 'running',
      title: 'Running',
      order: 'the one that has run for longest first',
      empty: 'No task runs.',
    },
    ...{ states: ['running'], columns: nowMs => [sinceColumn(nowMs), FAILED] },
  },
  retrying: {
    ...{ page: 'retrying', title: 'Retrying', order: 'the next one first', columns: failed },
    ...{ states: ['retrying'], empty: 'No task has failed and runs again.' },
  },
  held: {
    ...{ page: 'held', title: 'Held', order: 'in the order of their ids', columns: failed },
    ...{ states: ['held'], empty: 'No task is held.' },
  },
  parked: {
    ...{ page: 'parked', title: 'Parked', order: 'the next one to be offered again first' },
    ...{
      states: ['parked'],
      columns: () => [FAILED, PARKED],
      empty: 'No task has a name that no handler knows.',
    },
  },
  dead: {
    ...{
      page: 'dead',
      title: 'Dead letters',
      order: 'the last one first',
      empty: 'There are no dead letters.',
    },
    ...{ states: ['dead'], isReversed: true, columns: nowMs => [buriedColumn(nowMs), FAILED, WHY] },
  },
} as const satisfies Readonly<Record<string, Listing>>

type Render = PageOf['render']

/** The page of a directory, and that of a spool on Redis which takes its place. */
export function orOnRedis(name: keyof typeof LISTINGS, page: Render): Render {
  return (context, params) =>
    context.spools.get(params.spool ?? '').isOnRedis ? listed(context, params, name) : page(context, params)
}

async function listed(
  context: PageContext,
  params: Readonly<Record<string, string>>,
  name: keyof typeof LISTINGS,
) {
  const at = await spoolScene(context, params)
  const { place, snapshot } = at
  const isLater = name === 'waiting' && context.query.get('show') === 'later'
  const what: Listing = isLater ? LATER : LISTINGS[name]
  const reason = name === 'dead' ? context.query.get('reason') : null
  const isWanted = ({ state, letter }: TaskView) =>
    what.states.includes(state) && (reason === null || letter?.reason === reason)
  const shown = await place.part(what.states, fromIn(context), isWanted, what.isReversed)
  const { page, title, order, empty } = what
  return listing(context, at, shown, {
    page,
    title,
    source: `From Redis, ${order}, of all machines; ${countOf(shown.opened, 'job was', 'jobs were')} read, without bodies.`,
    empty: shown.next === null ? empty : 'None in this part.',
    columns: what.columns(snapshot.atMs),
    ...(isLater ? { query: { show: 'later' } } : {}),
    ...(reason === null ? {} : { query: { reason } }),
    ...allOf(what, reason),
    ...(name === 'dead' ? { before: reasonsOf(at, reason) } : {}),
  })
}

/** What selects all of a listing, for acts on many at once. */
function allOf({ states }: Listing, reason: string | null) {
  const [state, ...others] = states
  const isOne = others.length === 0 && (state === 'retrying' || state === 'held' || state === 'dead')
  return isOne ? { filter: { state, ...(reason === null ? {} : { reason }) } } : {}
}

function reasonsOf({ place, spool }: SpoolScene, reason: string | null) {
  return <Reasons id={place.id} byReason={spool.dead.byReason} chosen={reason} />
}

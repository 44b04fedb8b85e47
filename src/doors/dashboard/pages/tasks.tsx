import { printable } from '../../../base/printable.js'
import { baseName, displayName, type Ref, toByteString } from '../../../base/task/ref.js'
import { MOST_REACHED, readTaskNames } from '../../../engines/control/task-names.js'
import type { TaskState, TaskView } from '../../../engines/spool/admin/task-view.js'
import { runningRef } from '../../../runtime/stats/read-snapshot.js'
import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext, Page as PageOf } from '../context.js'
import { deadNames, type Names, PAGE_SIZE, type Page, pageOf, recordedNames } from '../models/listings.js'
import type { TaskRow } from '../models/task-row.js'
import type { ReadableSpool } from '../readable-spools.js'
import { TaskActions } from '../views/actions.js'
import { spoolHref } from '../views/links.js'
import { type Column, Table, useLook } from '../views/parts.js'
import { countOf, countText, spanText } from '../views/text.js'
import { framed, fromIn, type SpoolScene, spoolScene } from './framed.js'
import { BURIED, DUE, FAILED, listing, PARKED, SINCE, WHY } from './listing.js'

type Params = Readonly<Record<string, string>>

/** A listing of the tasks in some states, in any engine. */
interface Listing {
  readonly title: string
  readonly empty: string
  readonly columns: ReadonlyArray<Column<TaskRow>>
  /** The states that a listing on Redis shows. Tasks in other states are at the same places there, and are passed over. */
  readonly states: readonly TaskState[]
  /** The order of the tasks on Redis, for people. */
  readonly order: string
  readonly isReversed?: true
}

const LISTINGS = {
  waiting: {
    ...{ title: 'Waiting', empty: 'No task is due.', columns: [DUE, FAILED] },
    ...{ states: ['due', 'malformed'], order: 'in the order in which they start' },
  },
  later: {
    ...{ title: 'Waiting for their time', empty: 'No task waits for its time.', columns: [DUE, FAILED] },
    ...{ states: ['waiting', 'retrying', 'parked'], order: 'the next one first' },
  },
  running: {
    ...{ title: 'Running', empty: 'No task runs.', columns: [SINCE, FAILED] },
    ...{ states: ['running'], order: 'the one that has run for longest first' },
  },
  retrying: {
    ...{ title: 'Retrying', empty: 'No task has failed and runs again.', columns: [DUE, FAILED, WHY] },
    ...{ states: ['retrying'], order: 'the next one first' },
  },
  held: {
    ...{ title: 'Held', empty: 'No task is held.', columns: [DUE, FAILED, WHY] },
    ...{ states: ['held'], order: 'in the order of their ids' },
  },
  parked: {
    ...{ title: 'Parked', empty: 'No task has a name that no handler knows.', columns: [FAILED, PARKED] },
    ...{ states: ['parked'], order: 'the next one to be offered again first' },
  },
  dead: {
    ...{ title: 'Dead letters', empty: 'There are no dead letters.', columns: [BURIED, FAILED, WHY] },
    ...{ states: ['dead'], order: 'the last one first', isReversed: true },
  },
} as const satisfies Readonly<Record<string, Listing>>

type Name = keyof typeof LISTINGS
type PageName = Exclude<Name, 'later'>

/** A page of a listing, the source of its tasks, and the text that it shows if there are none. */
interface Part {
  readonly shown: Page
  readonly source: string
  readonly empty: string
}

type PartOf = (context: PageContext, at: SpoolScene, name: Name, reason: string | null) => Promise<Part>

/** Returns a page with a listing. @param inDirectory finds its tasks, unless the spool is on Redis */
function listingPage(page: PageName, inDirectory: PartOf): PageOf['render'] {
  return async (context, params) => listed(context, await spoolScene(context, params), page, inDirectory)
}

/** The page of a listing. @param inDirectory finds the tasks in a directory; may be left out if the spool is on Redis */
export async function listed(
  context: PageContext,
  at: SpoolScene,
  page: PageName,
  inDirectory: PartOf = onRedis,
) {
  const isLater = page === 'waiting' && context.query.get('show') === 'later'
  const name = isLater ? 'later' : page
  const reason = page === 'dead' ? context.query.get('reason') : null
  const part = await (at.place.isOnRedis ? onRedis : inDirectory)(context, at, name, reason)
  const query = reason === null ? {} : { reason }
  const hasBulk = page === 'retrying' || page === 'held' || page === 'dead'
  return listing(context, at, part.shown, {
    ...{ page, title: LISTINGS[name].title, columns: LISTINGS[name].columns },
    ...{ source: part.source, empty: part.empty },
    query: isLater ? { show: 'later' } : query,
    ...(hasBulk ? { filter: { state: page, ...query } } : {}),
    ...(page === 'dead' ? { before: <Reasons at={at} chosen={reason} /> } : {}),
  })
}

/** Finds tasks on Redis. Redis has them in order, so no task before the page is read. */
const onRedis: PartOf = async (context, { place }, name, reason) => {
  const { states, order, empty, isReversed }: Listing = LISTINGS[name]
  const isWanted = ({ state, letter }: TaskView) =>
    states.includes(state) && (reason === null || letter?.reason === reason)
  const shown = await place.part(states, fromIn(context), isWanted, isReversed)
  return {
    shown,
    source: `From Redis, ${order}, of all machines; ${countOf(shown.opened, 'job was', 'jobs were')} read, without bodies.`,
    empty: shown.next === null ? empty : 'None in this part.',
  }
}

/** Finds the tasks that start next, or that are later, in the daemon's order, which needs no look at the directory. */
const upcoming: PartOf = async (context, { place }, name) => {
  const from = fromIn(context)
  const verb = name === 'later' ? 'later' : 'next'
  const asked = { spool: place.directory, limit: PAGE_SIZE + 1, from }
  const answer = readTaskNames(await context.daemon.ask(verb, asked))
  if (answer === undefined) throw new Error(`the daemon answered ${verb} with something other than names`)
  const refs = answer.refs.slice(0, PAGE_SIZE)
  const next = answer.refs.length > PAGE_SIZE ? from + PAGE_SIZE : null
  const which =
    name === 'later'
      ? 'that wait for their time, the next one first'
      : 'that run, and then those that start next'
  return {
    shown: { ...(await pageOf(await place.look(), refs, 0)), from, next },
    source: `The tasks ${which}${refs.length === 0 ? '' : `: ${countText(from + 1)} to ${countText(from + refs.length)}`}. The daemon names the first ${countText(MOST_REACHED)}; the files of this page are opened.`,
    empty: LISTINGS[name].empty,
  }
}

/** Finds the tasks with a record that failed and wait for their next run, or that somebody holds. */
const recorded: PartOf = async (context, { place }, name) => {
  const isHeld = name === 'held'
  const names = await recordedNames(toByteString(place.directory))
  const shown = await pageOf(await place.look(), names.refs, fromIn(context), ({ state, record }) =>
    isHeld ? state === 'held' : state !== 'held' && (record?.attempts ?? 0) > 0,
  )
  return {
    shown,
    source: `Of ${boundOf(names, 'record')} of tasks that failed or are held: those that ${isHeld ? 'are held' : 'failed and run again'}. ${countOf(shown.opened, 'was', 'were')} opened.`,
    empty: shown.next === null ? LISTINGS[name].empty : 'None in this part of the records.',
  }
}

/** Finds the dead letters, the last one first. */
const buried: PartOf = async (context, { place }, name, reason) => {
  const names = await deadNames(toByteString(place.directory))
  const isWanted = ({ letter }: TaskView) => reason === null || letter?.reason === reason
  const bound = names.isCut ? ' in the order of the directory (newer ones may be missing)' : ''
  const shown = await pageOf(await place.look(), names.refs, fromIn(context), isWanted)
  return {
    shown,
    source: `${boundOf(names, 'dead letter')}${bound}, the last one first; ${countOf(shown.opened, 'was', 'were')} opened.`,
    empty: reason === null ? LISTINGS[name].empty : 'None of this reason in this part of the dead letters.',
  }
}

function boundOf({ refs, isCut }: Names, one: string): string {
  return `${isCut ? 'the first ' : ''}${countOf(refs.length, one)}`
}

export const waitingPage = listingPage('waiting', upcoming)
export const retryingPage = listingPage('retrying', recorded)
export const heldPage = listingPage('held', recorded)
export const deadPage = listingPage('dead', buried)

/** The reasons of the dead letters, each with their number and a link to those of that reason. */
function Reasons({ at: { place, spool }, chosen }: { at: SpoolScene; chosen: string | null }) {
  const { id } = place
  const reasons = Object.entries(spool.dead.byReason)
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

/** The page of what runs now. */
export async function runningPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const { place, spool } = at
  if (place.isOnRedis) return listed(context, at, 'running')
  const source =
    "From the daemon's snapshot: what its workers have begun. Other daemons of the spool have pages of their own."
  return framed(
    context,
    at,
    { page: 'running', title: 'Running', source, isLive: true },
    <Running place={place} rows={runningIn(spool)} />,
  )
}

/** A task that a worker of this daemon runs. */
interface RunningRow {
  readonly ref: Ref
  /** The name of the task file, for people. */
  readonly name: string
  readonly sinceMs: number
  readonly pid: number
}

/** Returns the running tasks. Those that have run for longest come first. */
function runningIn({ processes: { workers } }: SpoolSnapshot): RunningRow[] {
  return workers
    .flatMap(({ pid, running }) =>
      running.map(task => {
        const ref = runningRef(task)
        return { ref, name: printable(displayName(baseName(ref))), sinceMs: task.sinceMs, pid }
      }),
    )
    .sort((a, b) => a.sinceMs - b.sinceMs)
}

function Running({ place, rows }: { place: ReadableSpool; rows: readonly RunningRow[] }) {
  const { viewer, nowMs } = useLook()
  const next = spoolHref(place.id, 'running')
  const actions: Column<RunningRow> = {
    title: 'Actions',
    cell: ({ ref }) => <TaskActions at={place.urlOf(ref)} state="running" next={next} />,
  }
  return (
    <Table
      name="Running tasks"
      columns={[
        {
          title: 'Task',
          cell: ({ ref, name }) => (
            <a class="path" href={place.urlOf(ref)}>
              {name}
            </a>
          ),
        },
        { title: 'For', isNumber: true, cell: ({ sinceMs }) => spanText(nowMs - sinceMs) },
        { title: 'Process', isNumber: true, cell: ({ pid }) => String(pid) },
        ...(viewer.may('cancel') ? [actions] : []),
      ]}
      rows={rows}
      empty="Nothing runs now."
    />
  )
}

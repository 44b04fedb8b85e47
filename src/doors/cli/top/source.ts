import { selectionOf } from '../../../admin/operate/selection.js'
import { Slices } from '../../../base/each.js'
import { messageOf } from '../../../base/errors.js'
import { displayName, type Ref, toByteString } from '../../../base/task/ref.js'
import { askParked } from '../../../engines/control/parked-tasks.js'
import { refsOf } from '../../../engines/directory/next-tasks.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { seenTask, sinceMsOf, type TaskState, type TaskView } from '../../../engines/spool/admin/task-view.js'
import { recordedRefs } from '../../../engines/spool/records.js'
import type { ListingPlan, TaskStore } from '../../../engines/task-store.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { ownersSight } from '../../../formats/protocol/sight.js'
import { runningRef } from '../../../runtime/stats/read-snapshot.js'
import { linesOf, smallBody } from '../commands/show.js'
import { placeAt } from '../places.js'
import { type SpoolStatus, schedulesOf, statusAt, statusOf } from '../status/spool-status.js'
import { cellsOf, SCHEDULE_COLUMNS, TASK_COLUMNS, type TaskTab, taskOf, WORKER_COLUMNS } from './columns.js'
import { type NamedState, nameRows } from './name-rows.js'
import type { Look, Row } from './state.js'
import type { TabName } from './tabs.js'

/** The most rows of a tab; and the most tasks that are looked at to fill it. */
const MOST_ROWS = 1000
const MOST_LOOKED_AT = 10_000

/** What a look asks for. */
export interface Question {
  readonly spool: string
  readonly tab: TabName
  readonly filter: string
  readonly daemons: Daemons
}

/** The sockets of `--control`, where daemons are asked instead of at the sockets in their spools. */
export interface Daemons {
  readonly sockets?: readonly string[]
}

/** Looks at spools: asks their daemons or, where none answers, the directories. Changes nothing. */
export async function look({ daemons, ...topic }: Question): Promise<Look> {
  const statuses = await statusesOf(topic.spool, daemons)
  const found = statuses.every(({ source }) => source === 'none')
    ? { rows: [], scope: '' }
    : await rowsOf({ ...topic, daemons }, statuses).catch(error => ({
        rows: [],
        scope: messageOf(error),
      }))
  return { ...topic, atMs: Date.now(), statuses, ...found }
}

/** The spool as one of the named daemons sees it, if one of them answers and runs the spool. */
async function statusesOf(spool: string, { sockets = [] }: Daemons): Promise<SpoolStatus[]> {
  const answers = await Promise.all(sockets.map(path => statusAt(path, false)))
  const named = answers.flat().filter(({ source, directory }) => source === 'daemon' && directory === spool)
  return named.length > 0 ? named : statusOf(spool, false)
}

/** Everything about one task, in lines; undefined if the task is gone. */
export async function showTask(
  directory: string,
  ref: Ref,
  daemons: Daemons,
): Promise<readonly string[] | undefined> {
  const store = await openTaskStore(placeAt(directory).spool, { asksDaemons: true, ...daemons })
  const task = await store.view(ref)
  if (task === undefined) return undefined
  const hide = await store.hide()
  const body = await smallBody(store, task).catch(() => undefined)
  const file = displayName(`${store.spool}/${ref}`)
  return linesOf({ file, task: seenTask(task, ownersSight(hide)), body: body && hide.body(body) })
}

async function rowsOf(
  { spool: directory, tab, filter, daemons }: Question,
  statuses: readonly SpoolStatus[],
): Promise<Pick<Look, 'rows' | 'scope'>> {
  if (tab === 'overview') return { rows: [], scope: '' }
  if (tab === 'workers' || tab === 'schedules')
    return { rows: matching(factRows(tab, statuses, Date.now()), filter), scope: '' }
  const spool = toByteString(placeAt(directory).spool)
  const where = { spool, statuses, daemons }
  if (tab === 'names') return namesOf(where, filter)
  const { seen, isCut, scope } = await tasksOf(tab, where, filter)
  const sorted = [...seen].sort((a, b) => a.order - b.order)
  const more = isCut || seen.length > MOST_ROWS ? 'there are more' : ''
  return {
    rows: sorted.slice(0, MOST_ROWS).map(({ row }) => row),
    scope: [scope, more].filter(text => text !== '').join('; '),
  }
}

interface Where {
  readonly spool: string
  readonly statuses: readonly SpoolStatus[]
  readonly daemons: Daemons
}

/** The names of the tasks that the other tabs have. */
async function namesOf(where: Where, filter: string): Promise<Pick<Look, 'rows' | 'scope'>> {
  const all = new Map<string, NamedState>()
  let isAnyCut = false
  for (const tab of ['running', 'waiting', 'dead', 'held', 'retrying'] as const) {
    const { seen, isCut } = await tasksOf(tab, where, '')
    for (const { row, name, state } of seen) all.set(row.id, { name, state })
    isAnyCut ||= isCut
  }
  const rows = matching(nameRows([...all.values()], where.statuses, Date.now()), filter)
  return { rows, scope: isAnyCut ? `of the ${all.size.toLocaleString('en')} tasks that were looked at` : '' }
}

/** The part of a task that is kept, because its packet may be large. */
interface Seen extends NamedState {
  readonly row: Row
  readonly order: number
}

interface Found {
  readonly seen: readonly Seen[]
  /** True if there may be more tasks than these. */
  readonly isCut: boolean
  readonly scope: string
}

async function tasksOf(tab: TaskTab, where: Where, filter: string): Promise<Found> {
  const nowMs = Date.now()
  const store = await openTaskStore(displayName(where.spool), { asksDaemons: true, ...where.daemons })
  const selection = selectionOf(filter === '' ? {} : { grep: [filter] })
  const sight = ownersSight(await store.hide())
  const seen = new Map<Ref, Seen>()
  let looks = 0
  /** @returns false if these are enough */
  const visit = (found: TaskView | undefined): boolean => {
    if (looks++ >= MOST_LOOKED_AT) return false
    if (found === undefined || !STATES_OF[tab].includes(found.state)) return true
    const task = seenTask(found, sight)
    if (selection.has(task)) seen.set(task.ref, seenAs(tab, task, nowMs))
    return true
  }
  const scope = await visitTasks(tab, where, store, visit)
  return { seen: [...seen.values()], isCut: looks > MOST_LOOKED_AT, scope }
}

/** @returns which tasks these are, in words for people */
async function visitTasks(
  tab: TaskTab,
  { spool, statuses, daemons }: Where,
  store: TaskStore,
  visit: (task: TaskView | undefined) => boolean,
): Promise<string> {
  const isOnRedis = isRedisAddress(spool)
  const refs = isOnRedis ? undefined : await candidatesOf(tab, spool, statuses, daemons.sockets)
  if (refs === undefined) {
    const plan: ListingPlan = {
      ...{ states: STATES_OF[tab], isReversed: tab === 'dead', limit: MOST_LOOKED_AT },
      ...{ sort: 'none', mayHave: () => true, has: () => true },
      failed(_place, error) {
        if (tab === 'dead') throw error // of living tasks, a part that cannot be listed does not hide the others
      },
    }
    await store.list(plan, visit)
    return isOnRedis || tab === 'dead' ? '' : 'as a listing of the directory meets them'
  }
  const slices = new Slices()
  for await (const ref of refs) {
    if (!visit(await store.view(ref))) break
    await slices.rest()
  }
  return tab === 'waiting' ? 'as its daemon starts them, then those that wait' : ''
}

/** The states of the tasks that a tab shows. Its candidates may be in other states. */
const STATES_OF: Readonly<Record<TaskTab, readonly TaskState[]>> = {
  running: ['running'],
  waiting: ['due', 'waiting', 'retrying'],
  retrying: ['retrying'],
  dead: ['dead'],
  held: ['held', 'parked'],
}

/** How many parked tasks are asked for, per reason and name. */
const PARKED_EACH = 200

/** Returns the tasks among which those of a tab are, if something knows them; undefined: they are found by a listing. */
async function candidatesOf(
  tab: TaskTab,
  spool: string,
  statuses: readonly SpoolStatus[],
  sockets: readonly string[] | undefined,
): Promise<AsyncIterable<Ref> | readonly Ref[] | undefined> {
  const hasDaemon = statuses.some(({ source }) => source === 'daemon')
  switch (tab) {
    case 'running':
      return hasDaemon ? runningRefs(statuses) : undefined
    case 'waiting': {
      const next = async (verb: 'next' | 'later') => (hasDaemon ? refsOf(spool, verb, sockets) : [])
      const refs = [...(await next('next')), ...(await next('later'))]
      return refs.length > 0 ? refs : undefined
    }
    case 'retrying':
      return recordedRefs(spool)
    case 'held':
      return heldRefs(spool, sockets)
    case 'dead':
      return undefined
  }
}

/** The running tasks that the snapshots name. */
function runningRefs(statuses: readonly SpoolStatus[]): Ref[] {
  return statuses.flatMap(status =>
    status.source === 'daemon'
      ? status.processes.workers.flatMap(({ running }) => running.map(runningRef))
      : [],
  )
}

async function* heldRefs(spool: string, sockets: readonly string[] | undefined): AsyncGenerator<Ref> {
  const groups = await askParked(spool, PARKED_EACH, sockets)
  yield* new Set(groups.flat().flatMap(({ tasks }) => tasks))
  yield* recordedRefs(spool)
}

function seenAs(tab: TaskTab, task: TaskView, nowMs: number): Seen {
  const { ref, state } = task
  const row = { id: ref, cells: cellsOf(TASK_COLUMNS[tab], task, nowMs), task: { ref, state } }
  return { row, state, name: taskOf(task), order: orderOf(tab, task, nowMs) }
}

/** Returns the place of a task among the rows, the lowest first. Waiting tasks stay in the order of their source. */
function orderOf(tab: TaskTab, task: TaskView, nowMs: number): number {
  switch (tab) {
    case 'running':
      return task.file.startedAtMs ?? nowMs
    case 'waiting':
      return 0
    case 'retrying':
      return task.dueAtMs
    case 'dead':
      return -(sinceMsOf(task, nowMs) ?? 0)
    case 'held':
      return sinceMsOf(task, nowMs) ?? nowMs
  }
}

function matching(rows: readonly Row[], filter: string): readonly Row[] {
  return filter === '' ? rows : rows.filter(({ cells }) => cells.some(cell => cell.includes(filter)))
}

/** The rows of the tabs that only daemons can fill. */
function factRows(tab: 'workers' | 'schedules', statuses: readonly SpoolStatus[], nowMs: number): Row[] {
  if (tab === 'schedules')
    return schedulesOf(statuses).map(each => ({ id: each.id, cells: cellsOf(SCHEDULE_COLUMNS, each, nowMs) }))
  const daemons = statuses.filter(status => status.source === 'daemon')
  return daemons.flatMap(({ daemon, processes }) =>
    processes.workers.map((worker, i) => ({
      id: `${daemon.pid} ${worker.pid} ${i}`,
      cells: cellsOf(WORKER_COLUMNS, worker, nowMs),
    })),
  )
}

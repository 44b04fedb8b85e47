import type { Ref } from '../../../base/task/ref.js'
import { scheduleText } from '../../../base/task/schedule.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import { deadNameOf } from '../../../engines/spool/dead-letters.js'
import { isNamed, taskNameOf } from '../../../formats/protocol/named.js'
import type { ScheduleSnapshot, WorkerSnapshot } from '../../../runtime/stats/snapshot.js'
import { shortDuration, terminalName } from '../render.js'
import { bytes } from '../status/rows.js'
import type { Column } from '../table.js'
import { ageCell, dueIn, errorOf, failuresCell, priorityCell } from '../task-rows.js'
import type { Row } from './state.js'
import type { TabName } from './tabs.js'

/** A column of a tab, and what it shows of one row's subject. */
interface Cells<Item> extends Pick<Column<Row>, 'title' | 'isRight' | 'fit' | 'isOptional'> {
  cell(item: Item, nowMs: number): string
}

export type TaskTab = 'running' | 'waiting' | 'retrying' | 'dead' | 'held'

const STATE: Cells<TaskView> = { title: 'STATE', cell: ({ state }) => state }
const PRIORITY: Cells<TaskView> = {
  title: 'PRI',
  isRight: true,
  isOptional: true,
  cell: priorityCell,
}
const DUE_IN: Cells<TaskView> = { title: 'DUE IN', isRight: true, cell: dueIn }
const AGE: Cells<TaskView> = { title: 'AGE', isRight: true, cell: ageCell }
const FAILED: Cells<TaskView> = {
  title: 'FAILED',
  isRight: true,
  isOptional: true,
  cell: failuresCell,
}
const TASK: Cells<TaskView> = {
  title: 'TASK',
  fit: 'shared',
  isOptional: true,
  cell: task => taskOf(task),
}
const ERROR: Cells<TaskView> = {
  title: 'ERROR',
  fit: 'shared',
  isOptional: true,
  cell: errorOf,
}
const NAME: Cells<TaskView> = { title: 'NAME', fit: 'rest', cell: ({ ref }) => shortName(ref) }

export const TASK_COLUMNS: Readonly<Record<TaskTab, ReadonlyArray<Cells<TaskView>>>> = {
  running: [
    { title: 'FOR', isRight: true, cell: ({ file: { startedAtMs } }, nowMs) => ago(startedAtMs, nowMs) },
    { title: 'PID', isRight: true, cell: ({ file: { pid } }) => String(pid ?? '') },
    FAILED,
    TASK,
    NAME,
  ],
  waiting: [STATE, DUE_IN, AGE, PRIORITY, TASK, NAME],
  retrying: [{ ...DUE_IN, title: 'AGAIN IN' }, FAILED, TASK, ERROR, NAME],
  dead: [
    { ...AGE, title: 'BURIED' },
    { title: 'REASON', cell: ({ letter }) => letter?.reason ?? 'unknown' },
    FAILED,
    TASK,
    ERROR,
    NAME,
  ],
  held: [
    STATE,
    AGE,
    TASK,
    { title: 'WHY', fit: 'shared', cell: ({ parked }) => parked?.detail ?? 'held by hand' },
    NAME,
  ],
}

export const WORKER_COLUMNS: ReadonlyArray<Cells<WorkerSnapshot>> = [
  { title: 'PID', isRight: true, cell: ({ pid }) => String(pid) },
  { title: 'STATE', cell: ({ state, isLone }) => (isLone ? `${state}, alone` : state) },
  { title: 'UP', isRight: true, cell: ({ spawnedAtMs }, nowMs) => ago(spawnedAtMs, nowMs) },
  { title: 'DONE', isRight: true, cell: ({ ran }) => ran.toLocaleString('en') },
  {
    title: 'MS/TASK',
    isRight: true,
    cell: ({ paceMs }) =>
      paceMs === null ? '' : paceMs < 10 ? paceMs.toFixed(1) : String(Math.round(paceMs)),
  },
  { title: 'MEMORY', isRight: true, cell: ({ rssBytes }) => (rssBytes === null ? '' : bytes(rssBytes)) },
  { title: 'RUNS', fit: 'rest', cell: ({ running }, nowMs) => runningText(running, nowMs) },
]

/** The number of tasks of a name, among those that were read. */
export interface NameCounts {
  readonly name: string
  readonly running: number
  readonly due: number
  readonly waiting: number
  readonly parked: number
  readonly retrying: number
  readonly dead: number
  /** How many tasks of the name may run at a time; undefined if unknown, or if there is no limit. */
  readonly slots: number | undefined
  /** Runs that ended well and otherwise since the daemons started; and the rates of both per second, over five minutes. */
  readonly done: number
  readonly failed: number
  readonly perSecond: number
  readonly isPaused: boolean
}

const number = (
  title: string,
  key: 'running' | 'due' | 'waiting' | 'parked' | 'retrying' | 'dead' | 'done' | 'failed',
): Cells<NameCounts> => ({
  title,
  isRight: true,
  isOptional: true,
  cell: counts => (counts[key] === 0 ? '' : counts[key].toLocaleString('en')),
})

export const NAME_COLUMNS: ReadonlyArray<Cells<NameCounts>> = [
  { title: 'TASK', fit: 'shared', cell: ({ name }) => name },
  number('RUNNING', 'running'),
  number('DUE', 'due'),
  number('WAITING', 'waiting'),
  number('PARKED', 'parked'),
  number('RETRYING', 'retrying'),
  number('DEAD', 'dead'),
  number('DONE', 'done'),
  number('FAILED', 'failed'),
  {
    title: '/S',
    isRight: true,
    isOptional: true,
    cell: ({ perSecond }) => (perSecond === 0 ? '' : perSecond.toFixed(1)),
  },
  { title: 'LIMIT', isRight: true, isOptional: true, cell: ({ slots }) => String(slots ?? '') },
  { title: 'PAUSED', isOptional: true, cell: ({ isPaused }) => (isPaused ? 'paused' : '') },
]

export const SCHEDULE_COLUMNS: ReadonlyArray<Cells<ScheduleSnapshot>> = [
  {
    title: 'NEXT IN',
    isRight: true,
    cell: ({ nextAtMs, pausedSinceMs }, nowMs) =>
      pausedSinceMs !== null ? 'paused' : nextInText(nextAtMs, nowMs),
  },
  { title: 'FROM', cell: ({ origin }) => origin },
  { title: 'WHEN', fit: 'shared', cell: ({ schedule, zone }) => scheduleText(schedule, zone).when },
  { title: 'WHAT', fit: 'rest', cell: ({ schedule }) => scheduleText(schedule).what },
]

function nextInText(nextAtMs: number | null, nowMs: number): string {
  if (nextAtMs === null) return ''
  return nextAtMs <= nowMs ? 'now' : shortDuration(nextAtMs - nowMs)
}

const HEADS: Readonly<Record<Exclude<TabName, 'overview'>, ReadonlyArray<Omit<Cells<never>, 'cell'>>>> = {
  ...TASK_COLUMNS,
  workers: WORKER_COLUMNS,
  names: NAME_COLUMNS,
  schedules: SCHEDULE_COLUMNS,
}

/** The columns of a tab whose cells are texts, which may have come from anybody. */
export function columnsOf(tab: Exclude<TabName, 'overview'>): Array<Column<Row>> {
  return HEADS[tab].map((head, i) => ({ ...head, cell: ({ cells }) => cells[i] ?? '' }))
}

export function cellsOf<Item>(columns: ReadonlyArray<Cells<Item>>, item: Item, nowMs: number): string[] {
  return columns.map(({ cell }) => cell(item, nowMs))
}

/** Returns the name of a named task; '' for a dictionary. A copy, because a slice would keep the whole packet in memory. */
export function taskOf({ file: { vars } }: TaskView): string {
  return vars !== undefined && isNamed(vars) ? Buffer.from(taskNameOf(vars) ?? '', 'latin1').toString() : ''
}

/** The name without the prefix that the names of all tasks have. */
function shortName(ref: Ref): string {
  const name = deadNameOf(ref) ?? ref
  return terminalName(Buffer.from(name.replace('uwsgi_spoolfile_on_', ''), 'latin1'))
}

function ago(sinceMs: number | undefined, nowMs: number): string {
  return sinceMs === undefined ? '' : shortDuration(nowMs - sinceMs)
}

function runningText(running: WorkerSnapshot['running'], nowMs: number): string {
  const [first, ...others] = running
  if (first === undefined) return ''
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return `${shortDuration(nowMs - first.sinceMs)}: ${first.task}${more}`
}

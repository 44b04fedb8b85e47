import { failureLine } from '../../base/task/failure-text.js'
import { displayName, priorityOf, toByteString } from '../../base/task/ref.js'
import {
  arrivedMsOf,
  sinceMsOf,
  type TaskState,
  type TaskView,
  taskPriority,
} from '../../engines/spool/admin/task-view.js'
import { deadNameOf } from '../../engines/spool/dead-letters.js'
import { lastValue, toPairs, type Vars, valuesOf } from '../../formats/protocol/vars.js'
import { namedTaskOf } from './named-rows.js'
import { isoTime, jsonBytes, shortDuration, terminalName } from './render.js'
import type { Column } from './table.js'
import { cellText, fit } from './text-width.js'

/** The values of packets that a listing shows. */
export interface ShownValues {
  /** The keys that were asked for. */
  readonly keys: readonly string[]
  readonly hasAll: boolean
}

const COLORS = {
  due: 'green',
  parked: 'magenta',
  waiting: 'blue',
  retrying: 'yellow',
  held: 'magenta',
  running: 'cyan',
  incomplete: 'red',
  malformed: 'red',
  unreadable: 'red',
  dead: 'red',
} as const satisfies Record<TaskState, string>

const MAX_NOTE_COLUMNS = 80

/** The columns of `spoold ls`. */
export function taskColumns({ keys, hasAll }: ShownValues, nowMs: number): Array<Column<TaskView>> {
  const values = keys.map(
    (key): Column<TaskView> => ({
      title: key,
      cell: ({ file }) => displayName(lastValueOf(file.vars, key) ?? ''),
      fit: 'shared',
    }),
  )
  const all: Column<TaskView> = { title: 'VARS', cell: ({ file }) => allValues(file.vars), fit: 'shared' }
  return [
    { title: 'STATE', cell: ({ state }) => state, style: ({ state }) => COLORS[state] },
    {
      title: 'PRIORITY',
      cell: priorityCell,
      isRight: true,
      isOptional: true,
    },
    { title: 'DUE IN', cell: task => dueIn(task, nowMs), isRight: true },
    { title: 'AGE', cell: task => ageCell(task, nowMs), isRight: true },
    { title: 'BYTES', cell: ({ file }) => String(file.bytes), isRight: true },
    { title: 'FAILED', cell: failuresCell, isRight: true, isOptional: true },
    ...values,
    ...(hasAll ? [all] : []),
    { title: 'NAME', cell: ({ ref }) => terminalName(Buffer.from(ref, 'latin1')), fit: 'whole' },
    {
      title: 'NOTE',
      cell: task => fit(cellText(noteOf(task, nowMs)), MAX_NOTE_COLUMNS),
      fit: 'rest',
      isOptional: true,
      style: () => 'dim',
    },
  ]
}

/** Returns the name of the priority's directory, because `05` is not `5`. */
export function priorityCell({ ref, priority }: TaskView): string {
  if (priority !== undefined) return priority === null ? '' : String(priority)
  const path = deadNameOf(ref) ?? ref
  return priorityOf(path) === null ? '' : path.slice(0, path.indexOf('/'))
}

export function dueIn({ state, dueAtMs }: TaskView, nowMs: number): string {
  const waits = state === 'waiting' || state === 'retrying'
  return waits ? shortDuration(dueAtMs - nowMs) : state === 'due' ? 'now' : ''
}

export function ageCell(task: TaskView, nowMs: number): string {
  const sinceMs = sinceMsOf(task, nowMs)
  return sinceMs === undefined ? '' : shortDuration(nowMs - sinceMs)
}

export function failuresCell({ record, letter }: TaskView): string {
  return String((letter ?? record)?.attempts || '')
}

/** Returns the first line of the last error; of a dead letter without one, why it was buried. */
export function errorOf({ record, letter }: TaskView): string {
  return failureLine((letter ?? record)?.lastError ?? letter?.detail ?? '')
}

/** Returns the last value of a key, as handlers see it; one character per byte. */
export function lastValueOf(vars: Vars | undefined, key: string): string | undefined {
  return vars === undefined ? undefined : lastValue(vars, toByteString(key))
}

const PLAIN = /^[^\s"'=]+$/

/** Returns all values, such as `to=joe subject="a b"`. */
function allValues(vars: Vars | undefined): string {
  const pairs = vars === undefined ? [] : valuesOf(vars)
  const shown = (bytes: string) => {
    const text = displayName(bytes)
    return PLAIN.test(text) ? text : JSON.stringify(text)
  }
  return pairs.map(({ key, value }) => `${shown(key)}=${shown(value)}`).join(' ')
}

/** Returns the most important fact about a task. */
function noteOf({ state, file, record, letter, parked }: TaskView, nowMs: number): string {
  if (state === 'running') {
    const { pid, startedAtMs } = file
    const since = startedAtMs === undefined ? '' : `for ${shortDuration(nowMs - startedAtMs)}`
    return [pid === undefined ? '' : `pid ${pid}`, since].filter(part => part !== '').join(', ')
  }
  if (parked !== undefined) return parked.detail
  const moved = record?.movedTo === undefined ? '' : `a move to ${record.movedTo} did not end`
  const why =
    letter === undefined
      ? moved || (file.vars === undefined ? undefined : file.detail) || record?.lastError
      : `${letter.reason}: ${failureLine(letter.lastError ?? letter.detail)}`
  return failureLine(why ?? file.detail ?? '')
}

/** Returns a task as `ls --json` prints it. */
export function taskAsJson(spooler: string, task: TaskView, { keys, hasAll }: ShownValues, nowMs: number) {
  const { ref, state, dueAtMs, file, record, letter, parked } = task
  const { attempts, crashes, lastError } = letter ?? record ?? {}
  const { pid, startedAtMs, vars } = file
  const arrivedMs = arrivedMsOf(task, nowMs)
  const namedTask = namedTaskOf(task, vars)
  return {
    state,
    spooler,
    name: jsonBytes(Buffer.from(ref, 'latin1')),
    priority: taskPriority(task),
    ...(letter === undefined
      ? { due: isoTime(dueAtMs) }
      : { buried: isoTime(letter.buriedAt), reason: letter.reason }),
    ...(namedTask === undefined ? {} : { task: namedTask }),
    ...(parked === undefined ? {} : { parked }),
    ...(arrivedMs === undefined ? {} : { arrived: isoTime(arrivedMs) }),
    mtime: isoTime(file.mtimeMs),
    bytes: file.bytes,
    ...(file.detail === undefined ? {} : { detail: file.detail }),
    ...(attempts === undefined ? {} : { attempts, crashes }),
    ...(lastError === undefined ? {} : { lastError }),
    ...(pid === undefined ? {} : { pid }),
    ...(startedAtMs === undefined ? {} : { started: isoTime(startedAtMs) }),
    ...(keys.length === 0
      ? {}
      : { values: Object.fromEntries(keys.map(key => [key, jsonValue(vars, key)])) }),
    // an array of pairs: a packet may contain a key twice, and arbitrary keys
    ...(hasAll && vars !== undefined
      ? { vars: toPairs(vars).map(([key, value]) => [jsonBytes(key), jsonBytes(value)]) }
      : {}),
  }
}

/** Returns the value for JSON, or null if the packet does not have the key. */
function jsonValue(vars: Vars | undefined, key: string): ReturnType<typeof jsonBytes> | null {
  const value = lastValueOf(vars, key)
  return value === undefined ? null : jsonBytes(Buffer.from(value, 'latin1'))
}

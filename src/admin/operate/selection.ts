import { baseName, displayName, priorityOf, type Ref, toByteString } from '../../base/task/ref.js'
import { isPlainNumber, isSeconds, parseDuration, parseTime } from '../../base/time-text.js'
import {
  sinceMsOf,
  TASK_STATES,
  type TaskState,
  type TaskView,
  taskPriority,
} from '../../engines/spool/admin/task-view.js'
import { matches } from '../../formats/ini/glob.js'
import { lastValue, valuesOf } from '../../formats/protocol/vars.js'
import { wrongArg } from './args.js'

/** The filter flags, unparsed. */
export interface SelectionOptions {
  readonly state?: string
  readonly olderThan?: string
  readonly newerThan?: string
  readonly priority?: string
  readonly key?: readonly string[]
  readonly task?: string
  readonly match?: readonly string[]
  readonly grep?: readonly string[]
  readonly name?: string
  readonly reason?: string
}

/** Selects the tasks that pass every filter. */
export interface Selection {
  /** True if no filter was given. */
  readonly isAll: boolean
  /** Undefined: the command's default states. */
  readonly states: readonly TaskState[] | undefined
  /** True if a filter looks at the packets in the files. */
  readonly needsPackets: boolean
  /** Tests the path alone, before the file is opened. */
  mayHave(ref: Ref): boolean
  has(task: TaskView): boolean
}

/** True if a filter tests packets or errors. Whoever may not read those must not find out by filters what is in them, either. */
export function usesPayload({ key = [], match = [], grep = [] }: SelectionOptions): boolean {
  return key.length + match.length + grep.length > 0
}

type Test = (task: TaskView) => boolean

/** Parses the filter flags. @throws SpooldError USAGE, with what was expected */
export function selectionOf(options: SelectionOptions, nowMs = Date.now()): Selection {
  const { olderThan, newerThan, priority, key = [], task, match = [], grep = [], name, reason } = options
  const nameTests: Array<(ref: Ref) => boolean> = []
  const tests: Test[] = []
  if (name !== undefined) nameTests.push(ref => matches(displayName(baseName(ref)), name))
  if (priority !== undefined) {
    const wanted = priorityIn(priority)
    nameTests.push(ref => mayHavePriority(ref, wanted))
    tests.push(task => taskPriority(task) === wanted)
  }
  if (olderThan !== undefined)
    tests.push(timeTest('--older-than', olderThan, nowMs, (since, limit) => since < limit))
  if (newerThan !== undefined)
    tests.push(timeTest('--newer-than', newerThan, nowMs, (since, limit) => since >= limit))
  for (const each of key) tests.push(hasPair(each))
  if (task !== undefined) tests.push(hasValue('task', value => value === toByteString(task)))
  for (const each of match) tests.push(hasMatch(each))
  for (const each of grep) tests.push(contains(each))
  if (reason !== undefined) tests.push(({ letter }) => letter?.reason === reason)
  const states = statesOf(options)
  if (states !== undefined) tests.push(({ state }) => states.includes(state))
  return {
    isAll: nameTests.length + tests.length === 0,
    states,
    needsPackets: task !== undefined || key.length + match.length + grep.length > 0,
    mayHave: ref => nameTests.every(test => test(ref)),
    has: task => tests.every(test => test(task)),
  }
}

function statesOf({ state, reason }: SelectionOptions): TaskState[] | undefined {
  if (state === undefined) return reason === undefined ? undefined : ['dead']
  return state.split(',').map(word => {
    const known = TASK_STATES.find(each => each === word.trim())
    if (known === undefined) throw wrongArg('--state', `one or more of ${TASK_STATES.join(',')}`, word)
    return known
  })
}

function priorityIn(text: string): number {
  if (!/^[0-9]+$/.test(text)) throw wrongArg('--priority', 'a whole number', text)
  return Number(text)
}

/** True if a ref may have this priority. A ref without directories does not tell its priority, so the task has to be read. */
function mayHavePriority(ref: Ref, wanted: number): boolean {
  const path = ref.replace(/^\.spoold\/dead\//, '')
  return !path.includes('/') || priorityOf(path) === wanted
}

function timeTest(
  flag: string,
  text: string,
  nowMs: number,
  isWanted: (sinceMs: number, limitMs: number) => boolean,
): Test {
  const limitMs = limitOf(flag, text, nowMs)
  return task => {
    const sinceMs = sinceMsOf(task, nowMs)
    return sinceMs !== undefined && isWanted(sinceMs, limitMs)
  }
}

/** Parses an age, a date, or a day of the calendar, which begins at midnight in this machine's time zone. @returns epoch ms */
function limitOf(flag: string, text: string, nowMs: number): number {
  const daysAgo = ['today', 'yesterday'].indexOf(text)
  if (daysAgo >= 0) return midnight(nowMs, daysAgo)
  if (parseDuration(text) !== undefined) return nowMs - ageOf(flag, text)
  const seconds = isSeconds(text) || text.startsWith('+') ? undefined : parseTime(text, nowMs)
  if (seconds === undefined)
    throw wrongArg(
      flag,
      "an age such as 90m, 2h or 7d, today, yesterday, or a date such as '2026-12-24 08:00'",
      text,
    )
  return seconds * 1000
}

function midnight(nowMs: number, daysAgo: number): number {
  const date = new Date(nowMs)
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() - daysAgo).getTime()
}

/**
 * Parses an age, which must have a unit: a plain `--max-age 7` could mean days or seconds.
 *
 * @returns milliseconds
 * @throws SpooldError USAGE
 */
export function ageOf(flag: string, text: string): number {
  const ms = parseDuration(text)
  if (ms === undefined) throw wrongArg(flag, 'a time such as 90m, 2h or 7d', text)
  if (isPlainNumber(text)) throw wrongArg(flag, `a unit, such as ${text}s or ${text}d`, text)
  return ms
}

/** Tests the exact bytes of a value. */
function hasPair(text: string): Test {
  const [key, value] = bytePair('--key', 'key=value', text)
  return hasValue(key, each => each === value)
}

/** Tests a whole value, as text, against a pattern. */
function hasMatch(text: string): Test {
  const [key, pattern] = bytePair('--match', 'key=pattern', text)
  const glob = displayName(pattern)
  return hasValue(key, value => matches(displayName(value), glob))
}

/** Parses the value of `--key`. @throws SpooldError USAGE */
export function pairOf(text: string): readonly [key: Buffer, value: Buffer] {
  const [key, value] = bytePair('--key', 'key=value', text)
  return [Buffer.from(key, 'latin1'), Buffer.from(value, 'latin1')]
}

function bytePair(flag: string, expected: string, text: string): [key: string, value: string] {
  const cut = text.indexOf('=')
  if (cut <= 0) throw wrongArg(flag, expected, text)
  return [toByteString(text.slice(0, cut)), toByteString(text.slice(cut + 1))]
}

/** Tests the value of a key. Of a repeated key the last value counts, as for handlers. */
function hasValue(key: string, isWanted: (value: string) => boolean): Test {
  return ({ file: { vars } }) => {
    const value = vars === undefined ? undefined : lastValue(vars, key)
    return value !== undefined && isWanted(value)
  }
}

/** Looks for bytes in the ref, in a value and in the last error. */
function contains(text: string): Test {
  if (text === '') throw wrongArg('--grep', 'a text', text)
  const bytes = toByteString(text)
  return ({ ref, file: { vars }, record, letter }) =>
    ref.includes(bytes) ||
    (vars !== undefined && valuesOf(vars).some(({ value }) => value.includes(bytes))) ||
    ((letter ?? record)?.lastError ?? '').includes(text)
}

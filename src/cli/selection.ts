import { isPlainNumber, parseDuration } from '../base/duration.js'
import { SpooldError } from '../base/errors.js'
import { matches } from '../ini/glob.js'
import { toPairs } from '../protocol/vars.js'
import { sinceMsOf, TASK_STATES, type TaskState, type TaskView } from '../spool/admin/task-view.js'
import { baseName, displayName, priorityOf, type Ref } from '../task/ref.js'

/** The filter flags, unparsed. */
export interface SelectionOptions {
  readonly state?: string
  readonly olderThan?: string
  readonly newerThan?: string
  readonly priority?: string
  readonly key?: readonly string[]
  readonly name?: string
  readonly reason?: string
}

/** Selects the tasks that pass every filter. */
export interface Selection {
  /** No filter was given. */
  readonly isAll: boolean
  /** undefined: the command's default states. */
  readonly states: readonly TaskState[] | undefined
  /** A filter looks at the packets in the files. */
  readonly needsPackets: boolean
  /** Tests the path alone, before the file is opened. */
  mayHave(ref: Ref): boolean
  has(task: TaskView): boolean
}

type Test = (task: TaskView) => boolean

/** @throws SpooldError USAGE, with what was expected */
export function selectionOf(options: SelectionOptions, nowMs = Date.now()): Selection {
  const { olderThan, newerThan, priority, key = [], name, reason } = options
  const nameTests: Array<(ref: Ref) => boolean> = []
  const tests: Test[] = []
  if (name !== undefined) nameTests.push(ref => matches(displayName(baseName(ref)), name))
  if (priority !== undefined) nameTests.push(isOfPriority(priority))
  if (olderThan !== undefined)
    tests.push(ageTest('--older-than', olderThan, nowMs, (age, limit) => age > limit))
  if (newerThan !== undefined)
    tests.push(ageTest('--newer-than', newerThan, nowMs, (age, limit) => age < limit))
  for (const each of key) tests.push(hasPair(each))
  if (reason !== undefined) tests.push(({ letter }) => letter?.reason === reason)
  const states = statesOf(options)
  if (states !== undefined) tests.push(({ state }) => states.includes(state))
  return {
    isAll: nameTests.length + tests.length === 0,
    states,
    needsPackets: key.length > 0,
    mayHave: ref => nameTests.every(test => test(ref)),
    has: task => tests.every(test => test(task)),
  }
}

function statesOf({ state, reason }: SelectionOptions): TaskState[] | undefined {
  if (state === undefined) return reason === undefined ? undefined : ['dead']
  return state.split(',').map(word => {
    const known = TASK_STATES.find(each => each === word.trim())
    if (known === undefined) throw wrong('--state', `one or more of ${TASK_STATES.join(',')}`, word)
    return known
  })
}

function isOfPriority(text: string): (ref: Ref) => boolean {
  if (!/^[0-9]+$/.test(text)) throw wrong('--priority', 'a whole number', text)
  return ref => priorityOf(ref.replace(/^\.spoold\/dead\//, '')) === Number(text)
}

function ageTest(
  flag: string,
  text: string,
  nowMs: number,
  isWanted: (ageMs: number, limitMs: number) => boolean,
): Test {
  const limitMs = ageOf(flag, text)
  return task => {
    const sinceMs = sinceMsOf(task, nowMs)
    return sinceMs !== undefined && isWanted(nowMs - sinceMs, limitMs)
  }
}

/**
 * Parses an age, which must have a unit: a plain `--max-age 7` could mean days or seconds.
 *
 * @returns milliseconds
 * @throws SpooldError USAGE
 */
export function ageOf(flag: string, text: string): number {
  const ms = parseDuration(text)
  if (ms === undefined) throw wrong(flag, 'a time such as 90m, 2h or 7d', text)
  if (isPlainNumber(text)) throw wrong(flag, `a unit, such as ${text}s or ${text}d`, text)
  return ms
}

/** Compares exact bytes; if a key occurs twice, either value may match. */
function hasPair(text: string): Test {
  const [key, value] = pairOf(text)
  return ({ file: { vars } }) =>
    vars !== undefined && toPairs(vars).some(([k, v]) => k.equals(key) && v.equals(value))
}

/** Parses the value of `--key`. @throws SpooldError USAGE */
export function pairOf(text: string): readonly [key: Buffer, value: Buffer] {
  const cut = text.indexOf('=')
  if (cut <= 0) throw wrong('--key', 'key=value', text)
  return [Buffer.from(text.slice(0, cut)), Buffer.from(text.slice(cut + 1))]
}

function wrong(flag: string, expected: string, got: string): SpooldError {
  return new SpooldError('USAGE', `${flag}: expected ${expected}, got ${JSON.stringify(got)}`)
}

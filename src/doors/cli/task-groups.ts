import { displayName } from '../../base/task/ref.js'
import { sinceMsOf, type TaskView, taskPriority } from '../../engines/spool/admin/task-view.js'
import { isoTime, jsonBytes, shortDuration } from './render.js'
import type { Column } from './table.js'
import { errorOf, lastValueOf } from './task-rows.js'

/** The values that the tasks of a group have in common, as byte strings; undefined where they have none. */
type Values = ReadonlyArray<string | undefined>

export interface Group {
  readonly values: Values
  count: number
  bytes: number
  /** When the oldest task of the group arrived, or was buried; epoch ms. */
  oldestMs: number
  /** How many tasks are of each age: younger than the bound of AGE_BOUNDS at this place, and last those that are older. */
  readonly ages: number[]
}

const MINUTE = 60_000
/** Ages in minutes, as in Postfix's qshape. */
export const AGE_BOUNDS = [5, 10, 20, 40, 80, 160, 320, 640, 1280]

const latin1 = (text: string) => Buffer.from(text).toString('latin1')

/** The facts that tasks can be grouped by. Any other word is a key of the packet. */
const FACTS = new Map<string, (task: TaskView) => string | undefined>([
  ['state', ({ state }) => state],
  ['priority', task => taskPriority(task)?.toString()],
  ['reason', ({ letter }) => letter?.reason],
  [
    'error',
    task => {
      const error = errorOf(task)
      return error === '' ? undefined : latin1(error)
    },
  ],
])
/** The names of the facts, for completion. */
export const GROUP_FACTS = [...FACTS.keys()]
/** The prefix of a word that is a key, for keys that have the name of a fact. */
export const KEY_PREFIX = 'key:'

/** The most groups. Tasks with further values are counted together, because values are strangers' input. */
const MAX_GROUPS = 10_000

export const GROUP_SORTS = ['count', 'age', 'bytes', 'name'] as const
export type GroupSort = (typeof GROUP_SORTS)[number]

/** Counts tasks that have the same values. */
export class TaskGroups {
  readonly #words: readonly string[]
  readonly #nowMs: number
  readonly #most: number
  readonly #groups = new Map<string, Group>()
  #others: Group | undefined

  /** @param words facts and keys */
  constructor(words: readonly string[], nowMs: number, most = MAX_GROUPS) {
    this.#words = words
    this.#nowMs = nowMs
    this.#most = most
  }

  add(task: TaskView): true {
    const group = this.#groupOf(this.#words.map(word => valueFor(word, task)))
    const sinceMs = sinceMsOf(task, this.#nowMs) ?? this.#nowMs
    const younger = AGE_BOUNDS.findIndex(minutes => this.#nowMs - sinceMs < minutes * MINUTE)
    const age = younger < 0 ? AGE_BOUNDS.length : younger
    group.count++
    group.bytes += task.file.bytes
    group.oldestMs = Math.min(group.oldestMs, sinceMs)
    group.ages[age] = (group.ages[age] ?? 0) + 1
    return true
  }

  /** Returns the groups in order; the one of the tasks that were counted together is the last. */
  sorted(sort: GroupSort, isReversed: boolean): Group[] {
    const direction = isReversed ? -1 : 1
    const groups = [...this.#groups.values()].sort((a, b) => direction * ORDERS[sort](a, b))
    return this.#others === undefined ? groups : [...groups, this.#others]
  }

  columns(): Array<Column<Group>> {
    const values = this.#words.map(
      (word, i): Column<Group> => ({
        title: FACTS.has(word) ? word.toUpperCase() : keyOf(word),
        cell: ({ values: found }) =>
          found.length === 0 ? '(others)' : found[i] === undefined ? '-' : displayName(found[i]),
        fit: i === this.#words.length - 1 ? 'rest' : 'shared',
      }),
    )
    return [
      { title: 'COUNT', cell: ({ count }) => String(count), isRight: true, style: () => 'bold' },
      { title: 'OLDEST', cell: ({ oldestMs }) => shortDuration(this.#nowMs - oldestMs), isRight: true },
      { title: 'BYTES', cell: ({ bytes }) => String(bytes), isRight: true },
      ...values,
    ]
  }

  /** Returns a group as `ls --by --json` prints it. */
  asJson(spooler: string, { values, count, bytes, oldestMs }: Group) {
    const by = this.#words.map((word, i) => [word, jsonOf(values[i])])
    return {
      spooler,
      ...(values.length === 0 ? { others: true } : { by: Object.fromEntries(by) }),
      count,
      bytes,
      oldest: isoTime(oldestMs),
    }
  }

  #groupOf(values: Values): Group {
    const id = JSON.stringify(values)
    const known = this.#groups.get(id)
    if (known !== undefined) return known
    if (this.#groups.size >= this.#most) {
      this.#others ??= this.#emptyGroup([])
      return this.#others
    }
    const group = this.#emptyGroup(values)
    this.#groups.set(id, group)
    return group
  }

  #emptyGroup(values: Values): Group {
    return { values, count: 0, bytes: 0, oldestMs: this.#nowMs, ages: [...AGE_BOUNDS, 0].map(() => 0) }
  }
}

const ORDERS: Readonly<Record<GroupSort, (a: Group, b: Group) => number>> = {
  count: (a, b) => b.count - a.count || byValues(a, b),
  age: (a, b) => a.oldestMs - b.oldestMs || byValues(a, b),
  bytes: (a, b) => b.bytes - a.bytes || byValues(a, b),
  name: byValues,
}

/** Compares groups by their values, one after the other; a missing value comes last. */
function byValues({ values: a }: Group, { values: b }: Group): number {
  for (const [i, left] of a.entries()) {
    const right = b[i]
    if (left === right) continue
    if (left === undefined || right === undefined) return left === undefined ? 1 : -1
    return left < right ? -1 : 1
  }
  return 0
}

function valueFor(word: string, task: TaskView): string | undefined {
  const fact = FACTS.get(word)
  return fact === undefined ? lastValueOf(task.file.vars, keyOf(word)) : fact(task)
}

function keyOf(word: string): string {
  return word.startsWith(KEY_PREFIX) ? word.slice(KEY_PREFIX.length) : word
}

function jsonOf(value: string | undefined): ReturnType<typeof jsonBytes> | null {
  return value === undefined ? null : jsonBytes(Buffer.from(value, 'latin1'))
}

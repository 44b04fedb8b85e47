import assert, { AssertionError } from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { times } from '../../base/counted.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'

/** What `assertScheduled` may expect besides the arguments. */
export interface Expected {
  /** The exact number of times. Default: at least once. */
  readonly times?: number
  /** The task's time. It is rounded up to whole seconds, as the times of stored tasks are. */
  readonly at?: Date
  readonly queue?: string
}

type Compared = Partial<Pick<ScheduledTask, 'args' | 'queue'>> & { readonly at?: string }

/** @param all everything that was scheduled, under any name @throws AssertionError with a diff from the closest scheduled task */
export function assertScheduled(
  all: readonly ScheduledTask[],
  name: string,
  args: readonly unknown[] | undefined,
  { times, at, queue }: Expected,
  called: (...args: never[]) => void,
): void {
  const expected: Compared = {
    ...(args === undefined ? {} : { args }),
    ...(at === undefined ? {} : { at: secondOf(at) }),
    ...(queue === undefined ? {} : { queue }),
  }
  const named = all.filter(task => task.name === name)
  const compared = named.map(task => comparedOf(task, expected))
  const found = compared.filter(each => isDeepStrictEqual(each, expected)).length
  if (times === undefined ? found > 0 : found === times) return
  const actual = closestTo(expected, compared)
  const isOnlyCount = found > 0 || actual === undefined
  const how = Object.keys(expected).length === 0 ? '' : ' like this'
  const what = `${name} was ${found === 0 ? 'never scheduled' : 'scheduled'}${how}${found === 0 ? '' : ` ${timesText(found)}`}`
  throw new AssertionError({
    message: isOnlyCount
      ? `${what}, expected ${times === undefined ? 'at least once' : timesText(times)}; ${summaryOf(all)}`
      : `${name} was scheduled ${timesText(named.length)}, but not like this; the closest one:\n${diffOf(actual, expected)}`,
    ...(isOnlyCount ? { actual: found, expected: times } : { actual, expected }),
    operator: 'assertScheduled',
    stackStartFn: called,
  })
}

/** Throws if there is any task. @throws AssertionError with the arguments of the first one */
export function assertNone(
  tasks: readonly ScheduledTask[],
  what: string,
  called: (...args: never[]) => void,
): void {
  const [first] = tasks
  if (first === undefined) return
  throw new AssertionError({
    message: `expected ${what}, but ${summaryOf(tasks)}; the first has the arguments ${JSON.stringify(first.args)}`,
    actual: tasks.map(({ name, args }) => ({ name, args })),
    expected: [],
    operator: 'assertNotScheduled',
    stackStartFn: called,
  })
}

/** Returns the parts of a task that are compared, as the diff shows them. */
function comparedOf({ args, at, queue }: ScheduledTask, expected: Compared): Compared {
  return {
    ...('args' in expected ? { args: [...args] } : {}),
    ...('at' in expected ? { at: at.toISOString() } : {}),
    ...('queue' in expected ? { queue } : {}),
  }
}

function secondOf(at: Date): string {
  return new Date(Math.ceil(at.getTime() / 1000) * 1000).toISOString()
}

/** Returns the task that matches best. The first arguments weigh more than the last ones. */
function closestTo(expected: Compared, all: readonly Compared[]): Compared | undefined {
  const score = ({ args = [], at, queue }: Compared) =>
    args.reduce(
      (sum: number, arg, i) => sum + (isDeepStrictEqual(arg, expected.args?.[i]) ? 1 + 1 / (i + 1) : 0),
      0,
    ) +
    (args.length === expected.args?.length ? 0.1 : 0) +
    (at === expected.at ? 1 : 0) +
    (queue === expected.queue ? 1 : 0)
  return [...all].sort((a, b) => score(b) - score(a))[0]
}

function diffOf(actual: Compared | undefined, expected: Compared): string {
  try {
    assert.deepStrictEqual(actual, expected)
    return ''
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^.*\n/, '') : ''
  }
}

function summaryOf(tasks: readonly ScheduledTask[]): string {
  const counts = new Map<string, number>()
  for (const { name } of tasks) counts.set(name, (counts.get(name) ?? 0) + 1)
  if (counts.size === 0) return 'nothing was scheduled'
  return `scheduled: ${Array.from(counts, ([name, n]) => (n === 1 ? name : `${name} (${n})`)).join(', ')}`
}

function timesText(n: number): string {
  return n === 0 ? 'never' : times(n)
}

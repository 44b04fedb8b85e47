import { MAX_TIMER_MS } from '../../../base/clock.js'
import { parseDuration } from '../../../base/duration.js'
import { SpooldError } from '../../../base/errors.js'
import type { Ref } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import type { Ended } from '../../../engines/task-store.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { candidatesOf, type IniOptions } from '../ini-spools.js'
import { type AwaitedTask, awaitedTasks } from '../wait/awaited-tasks.js'
import { type ReportOptions, WaitReport } from '../wait/wait-report.js'

interface WaitOptions extends IniOptions, ReportOptions {
  readonly timeout?: string
}

/** `spoold wait PATH…`. @returns 0 if all are done, 1 if one is dead, 124 if one has not ended in time */
export async function wait(
  named: readonly string[],
  options: WaitOptions,
  { output, ownProcess }: CommandContext,
): Promise<number> {
  output.purpose = 'judge'
  const timeoutMs = timeoutOf(options.timeout)
  const report = new WaitReport(options, output)
  const bySpool = new Map<string, Map<Ref, AwaitedTask>>()
  for (const paths of candidatesOf(named, options))
    for (const task of await tasksOf(paths, ownProcess.part === undefined ? report : undefined)) {
      const tasks = bySpool.get(task.spool) ?? new Map<Ref, AwaitedTask>()
      bySpool.set(task.spool, tasks.set(task.ref, task))
    }
  return asOwners(ownProcess, [...bySpool.keys()], async spools => {
    const signal = timeoutMs === undefined ? new AbortController().signal : AbortSignal.timeout(timeoutMs)
    const waits = spools.map(spool => waitIn(spool, bySpool.get(spool) ?? new Map(), report, signal))
    await report.unfinished((await Promise.all(waits)).flat(), timeoutMs ?? 0)
    return report.exitCode
  })
}

/** @returns undefined: for ever */
function timeoutOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = parseDuration(text)
  if (ms !== undefined) return Math.min(ms, MAX_TIMER_MS)
  throw new SpooldError(
    'USAGE',
    `--timeout: expected a time such as 30s, 10m or 1h, got ${JSON.stringify(text)}`,
  )
}

/** @param report undefined: another process of this command reports what is wrong */
async function tasksOf(paths: readonly string[], report: WaitReport | undefined): Promise<AwaitedTask[]> {
  try {
    return await awaitedTasks(paths)
  } catch (error) {
    if (!(error instanceof SpooldError) || error.code === 'USAGE') throw error
    report?.fault(error.message)
    return []
  }
}

/** @returns what has not ended */
async function waitIn(
  spool: string,
  tasks: ReadonlyMap<Ref, AwaitedTask>,
  report: WaitReport,
  signal: AbortSignal,
): Promise<AwaitedTask[]> {
  const taskOf = (ref: Ref) => tasks.get(ref) ?? []
  report.expect(tasks.size)
  const store = await openTaskStore(spool)
  const tell = (ref: Ref, how: Ended) => {
    for (const task of [taskOf(ref)].flat()) report.ended(task, how)
  }
  return (await store.awaitEnds([...tasks.keys()], tell, signal)).flatMap(taskOf)
}

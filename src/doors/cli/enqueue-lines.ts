import { statSync } from 'node:fs'
import { messageOf, SpooldError } from '../../base/errors.js'
import { Batch, BatchError } from '../../engines/client/batch.js'
import type { TaskOptions } from '../../engines/client/request-from.js'
import type { Destination } from '../../engines/client/target.js'
import type { CommandContext } from './context.js'
import { type JsonTask, readJsonTasks } from './json-tasks.js'
import { Progress } from './progress.js'
import { openInput, type Pair } from './task-input.js'

interface EnqueueLines {
  /** `-`: standard input. */
  readonly file: string
  /** Added to every task. */
  readonly pairs: readonly Pair[]
  /** Its id becomes the prefix of each task's id, so that an interrupted run can be repeated without duplicates. */
  readonly common: TaskOptions
  readonly destination: Destination
  /** Called once the input is open. */
  opened(): Promise<void>
  readonly isQuiet: boolean
  readonly context: CommandContext
  /** Called for each task. */
  warn(task: { readonly pairs: readonly Pair[]; readonly common: TaskOptions }): void
}

/** Tasks per sync. */
const CHUNK = 1000

/**
 * Stores the tasks of a JSON input in chunks, and prints their paths.
 *
 * @throws SpooldError at the first line that cannot be stored; the message says how many tasks were stored
 */
export async function enqueueLines(work: EnqueueLines): Promise<void> {
  const { output, stdin } = work.context
  const tasks = readJsonTasks(openInput('the input', work.file, stdin))
  const progress = new Progress(output, 'tasks', !work.isQuiet)
  const bytes = sizeOf(work.file)
  await work.opened()
  const batch = new Batch(work.destination)
  let stored = 0
  const flush = async () => {
    const { paths, failure } = await spoolAll(batch)
    stored += paths.length
    if (!work.isQuiet && paths.length > 0) output.write(`${paths.join('\n')}\n`)
    if (failure !== undefined) throw failure
  }
  try {
    for await (const task of tasks) {
      addTask(batch, task, work)
      if (batch.size < CHUNK) continue
      await flush()
      progress.show(stored, bytes === undefined ? undefined : task.bytes / bytes)
    }
    await flush()
  } catch (error) {
    if (batch.size > 0) await flush() // the tasks before the faulty line
    throw withCount(error, stored)
  }
}

function addTask(batch: Batch, { line, pairs }: JsonTask, { pairs: more, common, warn }: EnqueueLines) {
  const options = common.id === undefined ? common : { ...common, id: `${common.id}:${line}` }
  try {
    const all = [...pairs, ...more]
    batch.add(all, options)
    warn({ pairs: all, common })
  } catch (error) {
    const code = error instanceof SpooldError ? error.code : 'REQUEST_INVALID'
    throw new SpooldError(code, `line ${line}: ${messageOf(error)}`, { cause: error, details: { line } })
  }
}

async function spoolAll(batch: Batch): Promise<{ paths: string[]; failure?: unknown }> {
  try {
    return { paths: (await batch.spool()).map(({ path }) => path) }
  } catch (failure) {
    const results = failure instanceof BatchError ? failure.results : []
    return { paths: results.flatMap(result => ('stored' in result ? [result.stored.path] : [])), failure }
  }
}

function withCount(error: unknown, stored: number): unknown {
  if (!(error instanceof SpooldError) || stored === 0) return error
  const { code, message, cause, details } = error
  return new SpooldError(code, `${message} (${stored === 1 ? '1 task is' : `${stored} tasks are`} stored)`, {
    cause,
    details,
  })
}

function sizeOf(file: string): number | undefined {
  const stats = file === '-' ? undefined : statSync(file, { throwIfNoEntry: false })
  return stats?.isFile() ? stats.size : undefined
}

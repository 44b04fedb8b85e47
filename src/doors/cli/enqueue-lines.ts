import { statSync } from 'node:fs'
import { doEach } from '../../base/each.js'
import { messageOf, SpooldError } from '../../base/errors.js'
import { Batch, BatchError } from '../../engines/client/batch.js'
import type { TaskOptions } from '../../engines/client/request-from.js'
import type { CommandContext } from './context.js'
import { becomeWriter, type EnqueueDestination } from './destination.js'
import { type JsonTask, readJsonTasks } from './json-tasks.js'
import { Progress } from './progress.js'
import { countText } from './render.js'
import { openInput, type Pair } from './task-input.js'

/** The tasks to store, and where. */
export interface EnqueueWork {
  /** Added to every task. */
  readonly pairs: readonly Pair[]
  readonly common: TaskOptions
  readonly target: EnqueueDestination
  readonly isQuiet: boolean
  readonly context: CommandContext
  /** Paths of tasks that were stored, at least one of each spool. */
  readonly stored: Set<string>
  /** Called for each stored task. */
  warn(pairs: readonly Pair[]): void
}

/** The number of tasks per sync. */
const CHUNK = 1000

/**
 * Stores the tasks of a JSON input in chunks, and prints their paths. An id becomes the prefix of each task's id, so that an
 * interrupted run can be repeated without duplicates.
 *
 * @param file `-` is standard input
 * @throws SpooldError at the first line that cannot be stored; the message says how many tasks were stored
 */
export async function enqueueLines(work: EnqueueWork, file: string): Promise<void> {
  const { output, ownProcess, stdin, interruption } = work.context
  const tasks = readJsonTasks(openInput('the input', file, stdin))
  const progress = new Progress(output, 'task', !work.isQuiet)
  const bytes = sizeOf(file)
  await becomeWriter(work.target, ownProcess)
  const batch = new Batch(work.target.destination)
  let [stored, inHand] = [0, 0]
  interruption.heed(
    () => `${countText(stored)} stored${inHand === 0 ? '' : `, and up to ${countText(inHand)} more`}`,
  )
  const store = async ({ tasks: chunk, fault }: Chunk) => {
    let failed = fault
    try {
      for (const task of chunk) addTask(batch, task, work)
    } catch (error) {
      failed = { error } // the tasks before the faulty line are stored
    }
    inHand = batch.size
    const { paths, failure } = inHand === 0 ? NOTHING : await spoolAll(batch)
    inHand = 0
    stored += paths.length
    const [first] = paths
    if (first !== undefined) work.stored.add(first)
    if (!work.isQuiet) output.lines(paths)
    if (failure !== undefined) throw failure
    if (failed !== undefined) throw failed.error
    const read = chunk.at(-1)?.bytes ?? 0
    progress.show(stored, bytes === undefined ? undefined : read / bytes)
    await output.room()
  }
  try {
    await doEach(chunksOf(tasks), store, { signal: interruption.signal })
  } catch (error) {
    throw withCount(error, stored)
  }
}

const NOTHING = { paths: [], failure: undefined }

/** The tasks that are stored with one sync, and the error that ended the input after them. */
interface Chunk {
  readonly tasks: readonly JsonTask[]
  readonly fault?: { readonly error: unknown }
}

async function* chunksOf(tasks: AsyncIterable<JsonTask>): AsyncGenerator<Chunk> {
  let chunk: JsonTask[] = []
  try {
    for await (const task of tasks) {
      chunk.push(task)
      if (chunk.length < CHUNK) continue
      yield { tasks: chunk }
      chunk = []
    }
  } catch (error) {
    yield { tasks: chunk, fault: { error } }
    return
  }
  if (chunk.length > 0) yield { tasks: chunk }
}

function addTask(batch: Batch, { line, pairs }: JsonTask, { pairs: more, common, warn }: EnqueueWork) {
  const options = common.id === undefined ? common : { ...common, id: `${common.id}:${line}` }
  try {
    const all = [...pairs, ...more]
    batch.add(all, options)
    warn(all)
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

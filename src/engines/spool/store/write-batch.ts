import { SpooldError, toError } from '../../../base/errors.js'
import type { Request } from '../../../base/task/request.js'
import { needsNoWaiting, perform, writeTask } from './write.js'
import { type WriteResult, writeMany } from './write-many.js'
import { type Steps, type Wait, type WriteOptions, writeSteps } from './write-steps.js'

interface BatchOptions extends WriteOptions {
  /** When one cannot be stored, none is. Tasks whose ids are taken stay: the same batch may simply be stored again. */
  readonly isAllOrNothing: boolean
}

/** Files that are written and synced side by side; each holds a descriptor meanwhile. */
const MAX_PARALLEL_WRITES = 128

/** One task on its way: where it stands, or what became of it. */
interface PendingWrite {
  readonly request: Request
  readonly steps: Steps
  wait: Wait | undefined
  result: WriteResult | undefined
}

/**
 * Stores many tasks with one sync: first all files, then each directory once. Results come in the order of the requests.
 * Nothing is published before everything is written, so an error (a full disk) comes before the first rename.
 */
export async function writeTasks(
  requests: readonly Request[],
  options: BatchOptions,
): Promise<WriteResult[]> {
  if (!options.sync && !options.isAllOrNothing)
    return requests.every(one => needsNoWaiting(one, options))
      ? writeMany(requests, options)
      : Promise.all(requests.map(one => resultOf(one, options)))
  const pending = requests.map(
    (request): PendingWrite => ({
      request,
      steps: writeSteps(request, options),
      wait: undefined,
      result: undefined,
    }),
  )
  for (let i = 0; i < pending.length; i += MAX_PARALLEL_WRITES)
    await Promise.all(pending.slice(i, i + MAX_PARALLEL_WRITES).map(advanceToWritten))
  for (;;) {
    if (options.isAllOrNothing && pending.some(hasFailed)) giveUp(pending)
    const waiting = pending.filter(({ wait }) => wait !== undefined)
    if (waiting.length === 0) break
    const failures = await syncDirectories(waiting)
    for (const write of waiting) advance(write, failures.get(pathOf(write.wait)))
  }
  return pending.map(({ result }) => result ?? { error: new Error('unreachable') })
}

/** Nothing to share, nothing to take back. */
async function resultOf(request: Request, options: WriteOptions): Promise<WriteResult> {
  try {
    return { stored: await writeTask(request, options) }
  } catch (error) {
    return { error: toError(error) }
  }
}

async function advanceToWritten(write: PendingWrite): Promise<void> {
  advance(write)
  while (write.wait !== undefined && write.wait.kind !== 'written')
    try {
      await perform(write.wait)
      advance(write)
    } catch (error) {
      advance(write, error)
    }
}

/** @returns the directories whose sync failed, with the reason */
async function syncDirectories(pending: readonly PendingWrite[]): Promise<Map<string, unknown>> {
  const failures = new Map<string, unknown>()
  const paths = new Set(pending.map(({ wait }) => pathOf(wait)).filter(path => path !== ''))
  for (const path of paths)
    await perform({ kind: 'directory', path }).catch(error => failures.set(path, error))
  return failures
}

function pathOf(wait: Wait | undefined): string {
  return wait?.kind === 'directory' ? wait.path : ''
}

/** To the next wait; with an error, it ends as one that failed. */
function advance(write: PendingWrite, error?: unknown): void {
  write.wait = undefined
  try {
    const step = error === undefined ? write.steps.next() : write.steps.throw(error)
    if (step.done === true) write.result = { stored: step.value }
    else write.wait = step.value
  } catch (reason) {
    write.result = { error: toError(reason) }
  }
}

function hasFailed({ result }: PendingWrite): boolean {
  return result !== undefined && 'error' in result
}

/** What waits still can be taken back, but for a promise that others may rely on (spool/ids). */
function giveUp(pending: readonly PendingWrite[]): void {
  const failed = pending.find(hasFailed)?.result
  if (failed === undefined || !('error' in failed)) return
  const { error: cause } = failed
  const code = cause instanceof SpooldError ? cause.code : 'ENQUEUE_FAILED'
  const message = `not stored, because another task of the batch was not: ${cause.message}`
  for (const write of pending)
    if (write.wait?.kind === 'written' || (write.wait !== undefined && write.request.id === undefined))
      advance(write, new SpooldError(code, message, { cause }))
}

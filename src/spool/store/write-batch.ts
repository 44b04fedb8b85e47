import { SpooldError, toError } from '../../base/errors.js'
import type { Request } from '../../task/request.js'
import { needsNoWaiting, perform, writeTask } from './write.js'
import { type WriteResult, writeMany } from './write-many.js'
import { type Steps, type Wait, type WriteOptions, writeSteps } from './write-steps.js'

export interface BatchOptions extends WriteOptions {
  /** When one cannot be stored, none is. Tasks whose ids are taken stay: the same batch may simply be stored again. */
  readonly isAllOrNothing: boolean
}

/** Files that are written and synced side by side; each holds a descriptor meanwhile. */
const ABREAST = 128

/** One task on its way: where it stands, or what became of it. */
interface Walker {
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
      ? writeMany(requests, options.spool)
      : Promise.all(requests.map(one => resultOf(one, options)))
  const walkers = requests.map(
    (request): Walker => ({
      request,
      steps: writeSteps(request, options),
      wait: undefined,
      result: undefined,
    }),
  )
  for (let i = 0; i < walkers.length; i += ABREAST)
    await Promise.all(walkers.slice(i, i + ABREAST).map(walkToWritten))
  for (;;) {
    if (options.isAllOrNothing && walkers.some(hasFailed)) giveUp(walkers)
    const waiting = walkers.filter(({ wait }) => wait !== undefined)
    if (waiting.length === 0) break
    const failures = await syncDirectories(waiting)
    for (const walker of waiting) advance(walker, failures.get(pathOf(walker.wait)))
  }
  return walkers.map(({ result }) => result ?? { error: new Error('unreachable') })
}

/** Nothing to share, nothing to take back. */
async function resultOf(request: Request, options: WriteOptions): Promise<WriteResult> {
  try {
    return { stored: await writeTask(request, options) }
  } catch (error) {
    return { error: toError(error) }
  }
}

async function walkToWritten(walker: Walker): Promise<void> {
  advance(walker)
  while (walker.wait !== undefined && walker.wait.kind !== 'written')
    try {
      await perform(walker.wait)
      advance(walker)
    } catch (error) {
      advance(walker, error)
    }
}

/** @returns the directories whose sync failed, with the reason */
async function syncDirectories(walkers: readonly Walker[]): Promise<Map<string, unknown>> {
  const failures = new Map<string, unknown>()
  const paths = new Set(walkers.map(({ wait }) => pathOf(wait)).filter(path => path !== ''))
  for (const path of paths)
    await perform({ kind: 'directory', path }).catch(error => failures.set(path, error))
  return failures
}

function pathOf(wait: Wait | undefined): string {
  return wait?.kind === 'directory' ? wait.path : ''
}

/** To the next wait; with an error, it ends as one that failed. */
function advance(walker: Walker, error?: unknown): void {
  walker.wait = undefined
  try {
    const step = error === undefined ? walker.steps.next() : walker.steps.throw(error)
    if (step.done === true) walker.result = { stored: step.value }
    else walker.wait = step.value
  } catch (reason) {
    walker.result = { error: toError(reason) }
  }
}

function hasFailed({ result }: Walker): boolean {
  return result !== undefined && 'error' in result
}

/** What waits still can be taken back, but for a promise that others may rely on (spool/ids). */
function giveUp(walkers: readonly Walker[]): void {
  const failed = walkers.find(hasFailed)?.result
  if (failed === undefined || !('error' in failed)) return
  const { error: cause } = failed
  const code = cause instanceof SpooldError ? cause.code : 'ENQUEUE_FAILED'
  const message = `not stored, because another task of the batch was not: ${cause.message}`
  for (const walker of walkers)
    if (walker.wait?.kind === 'written' || (walker.wait !== undefined && walker.request.id === undefined))
      advance(walker, new SpooldError(code, message, { cause }))
}

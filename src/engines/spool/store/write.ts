import { closeSync, constants, fdatasyncSync, fsyncSync } from 'node:fs'
import { SpooldError } from '../../../base/errors.js'
import { toFsPath } from '../../../base/task/ref.js'
import type { Request, Stored } from '../../../base/task/request.js'
import { named, nameOf, openSync } from '../../../system/files/anchored-path.js'
import { syncData, syncDirectory } from '../../../system/files/disk-sync.js'
import { hasChosen, tryHold } from '../../../system/libc.js'
import { type Draft, newTaskPath, writeInPlace } from './draft.js'
import { writeError } from './write-error.js'
import { type Steps, type Wait, type WriteOptions, writeSteps } from './write-steps.js'

export type { WriteOptions } from './write-steps.js'

/** One page of memory: readers see all or nothing of a write within it. */
const PAGE_BYTES = 4096

/**
 * Stores a task. With `sync` it is on disk when the promise resolves; concurrent calls share the journal's commits and the
 * sync of the directory.
 *
 * @throws SpooldError REQUEST_INVALID before anything is written; SPOOL_FULL, ENQUEUE_FAILED if nothing of it is left
 */
export async function writeTask(request: Request, options: WriteOptions): Promise<Stored> {
  return writeAtOnce(request, options) ?? (await drive(writeSteps(request, options)))
}

/** The same, but blocking. A body that is a stream is refused. */
export function writeTaskSync(request: Request, options: WriteOptions): Stored {
  return writeAtOnce(request, options) ?? driveSync(writeSteps(request, options))
}

/** Runs a write to its end. */
async function drive(steps: Steps): Promise<Stored> {
  let step = steps.next()
  while (step.done !== true)
    try {
      await perform(step.value)
      step = steps.next()
    } catch (error) {
      step = steps.throw(error)
    }
  return step.value
}

/** Performs what a write waits for. */
export async function perform(wait: Wait): Promise<void> {
  switch (wait.kind) {
    case 'body':
      return receive(wait.draft, wait.body)
    case 'data':
      return syncData(wait.fd)
    case 'directory':
      return syncDirectory(wait.path).catch(error => Promise.reject(named(error)))
    case 'written':
  }
}

/** Far less than `spooler-sweep` is ever set to. */
const SIGN_OF_LIFE_MS = 1000

/**
 * A streamed body may take long, and the sweep has to see that its writer is alive: by new times of change, which cost next
 * to nothing; and by a lock, but only where libc has been loaded for other reasons. A program that stores does not load it.
 */
async function receive(draft: Draft, body: AsyncIterable<Uint8Array>): Promise<void> {
  if (hasChosen()) await tryHold(draft.fd).catch(() => {})
  const life = setInterval(() => draft.showLife(), SIGN_OF_LIFE_MS)
  try {
    for await (const bytes of body) draft.append(bytes)
  } finally {
    clearInterval(life)
  }
}

function driveSync(steps: Steps): Stored {
  let step = steps.next()
  while (step.done !== true)
    try {
      performSync(step.value)
      step = steps.next()
    } catch (error) {
      step = steps.throw(error)
    }
  return step.value
}

function performSync(wait: Wait): void {
  switch (wait.kind) {
    case 'body':
      throw new SpooldError('REQUEST_INVALID', 'a body that comes in pieces cannot be stored synchronously')
    case 'data':
      return fdatasyncSync(wait.fd)
    case 'directory': {
      const fd = openSync(toFsPath(`${wait.path}/.`), constants.O_RDONLY) // an anchored path is a link
      try {
        return fsyncSync(fd)
      } finally {
        closeSync(fd)
      }
    }
    case 'written':
  }
}

/**
 * Small tasks without sync are written directly under their final name, as in uWSGI, which takes a third less time. A writer
 * that dies between creating and writing leaves an empty file, which is not a task for any reader.
 *
 * @returns undefined for all other tasks
 */
export function writeAtOnce(request: Request, options: WriteOptions): Stored | undefined {
  if (!needsNoWaiting(request, options)) return undefined
  const path = newTaskPath(options.spool, request)
  try {
    writeInPlace(path, request.packet, options.owner)
    return { path: nameOf(path), isDuplicate: false }
  } catch (error) {
    throw writeError(options.spool, error)
  }
}

export function needsNoWaiting(
  { packet, body, atSeconds, priority, id }: Request,
  { sync }: WriteOptions,
): boolean {
  const isPlain = body === undefined && atSeconds === undefined && priority === undefined && id === undefined
  return isPlain && !sync && packet.length <= PAGE_BYTES
}

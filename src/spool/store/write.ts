import { closeSync, constants, fdatasyncSync, fsyncSync } from 'node:fs'
import { SpooldError } from '../../base/errors.js'
import { openSync } from '../../files/anchored-path.js'
import { syncData, syncDirectory } from '../../files/disk-sync.js'
import { tryHold } from '../../files/record-lock.js'
import { displayName, toFsPath } from '../../task/ref.js'
import type { Request, Stored } from '../../task/request.js'
import { type Draft, newTaskPath, writeInPlace } from './draft.js'
import { writeError } from './write-error.js'
import { type Steps, type Wait, type WriteOptions, writeSteps } from './write-steps.js'

export type { WriteOptions } from './write-steps.js'

/** One page of memory: the kernel lets a reader see none or all of a write that stays inside. */
const PAGE_BYTES = 4096

/**
 * Stores a task. With `sync` it is on disk when the promise resolves, and calls that run at the same time share the
 * journal's commits and the sync of the directory.
 *
 * @throws SpooldError REQUEST_INVALID before anything is written; SPOOL_FULL, ENQUEUE_FAILED after nothing was left
 */
export async function writeTask(request: Request, options: WriteOptions): Promise<Stored> {
  return writeAtOnce(request, options) ?? (await drive(writeSteps(request, options)))
}

/** The same, blocking. A body that comes in pieces is refused. */
export function writeTaskSync(request: Request, options: WriteOptions): Stored {
  return writeAtOnce(request, options) ?? driveSync(writeSteps(request, options))
}

/** Takes a write to its end. */
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

/** Does what a write waits for. */
export async function perform(wait: Wait): Promise<void> {
  switch (wait.kind) {
    case 'body':
      return receive(wait.draft, wait.body)
    case 'data':
      return syncData(wait.fd)
    case 'directory':
      return syncDirectory(wait.path)
    case 'written':
  }
}

/** A body that comes in pieces may take long: the lock tells the sweep that its writer lives. */
async function receive(draft: Draft, body: AsyncIterable<Uint8Array>): Promise<void> {
  await tryHold(draft.fd).catch(() => {}) // where there are no locks, age alone protects it
  for await (const bytes of body) draft.append(bytes)
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
      const fd = openSync(toFsPath(wait.path), constants.O_RDONLY)
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
 * Small tasks without sync are written as uWSGI does it, straight under their name, which takes a third less time: there
 * is nothing to be done between the one write and the end. A writer that dies between creating and writing leaves an
 * empty file, which is no task for anybody.
 *
 * @returns undefined for all others
 */
export function writeAtOnce(request: Request, options: WriteOptions): Stored | undefined {
  if (!needsNoWaiting(request, options)) return undefined
  const path = newTaskPath(options.spool)
  try {
    writeInPlace(path, request.packet)
    return { path: displayName(path), isDuplicate: false }
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

import { closeSync, constants, fdatasyncSync, fsyncSync } from 'node:fs'
import { errnoOf, messageOf, quietly, SpooldError } from '../../../base/errors.js'
import { type Ref, toFsPath } from '../../../base/task/ref.js'
import type { Request, Stored } from '../../../base/task/request.js'
import { named, nameOf, openSync } from '../../../system/files/anchored-path.js'
import { syncData, syncDirectory } from '../../../system/files/disk-sync.js'
import { hasChosen, tryHold } from '../../../system/libc.js'
import type { Owner } from '../permissions.js'
import { Draft, findId, idsDirectory, newTaskPath, publishPromised, writeInPlace } from './draft.js'

export interface WriteOptions {
  /** The spool directory's real path, a byte string, or one that is anchored to it. */
  readonly spool: string
  /** The user to whom root gives the files that it stores. */
  readonly owner?: Owner | undefined
  /** True if data and directory entry must be on disk before the task counts as stored. Otherwise they only survive `kill -9`. */
  readonly sync: boolean
}

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

/** One page of memory: readers see all or nothing of a write within it. */
const PAGE_BYTES = 4096

/** Stores a task that needs no waiting. Returns undefined for all other tasks. */
export function writeAtOnce(request: Request, options: WriteOptions): Stored | undefined {
  return needsNoWaiting(request, options) ? writeNow(request, options) : undefined
}

/**
 * Writes a task that needs no waiting directly under its final name, as uWSGI does. That takes a third less time than a hidden
 * file and a rename. A writer that dies between creating and writing leaves an empty file, which is not a task for any
 * reader.
 */
export function writeNow(request: Request, { spool, owner }: WriteOptions): Stored {
  const path = newTaskPath(spool, request)
  try {
    writeInPlace(path, request.packet, owner)
    return { path: nameOf(path), isDuplicate: false }
  } catch (error) {
    throw writeError(spool, error)
  }
}

/** True for a small task without sync. */
export function needsNoWaiting(
  { packet, body, atSeconds, priority, id }: Request,
  { sync }: WriteOptions,
): boolean {
  const isPlain = body === undefined && atSeconds === undefined && priority === undefined && id === undefined
  return isPlain && !sync && packet.length <= PAGE_BYTES
}

/** A step that a write waits for. The driver decides how to wait: `drive` or `driveSync`. */
export type Wait =
  | { readonly kind: 'body'; readonly draft: Draft; readonly body: AsyncIterable<Uint8Array> }
  | { readonly kind: 'data'; readonly fd: number }
  /** The task is complete in its hidden file: the last moment at which it can be given up. */
  | { readonly kind: 'written'; readonly draft: Draft }
  | { readonly kind: 'directory'; readonly path: string }

type Steps = Generator<Wait, Stored, void>

/**
 * Stores one task, with uWSGI's name, mode and mtime (core/spooler.c, uwsgi_spool_request), step by step. The process, or the
 * machine, may die after any step: then either a complete task or a hidden leftover is on disk.
 *
 * @throws SpooldError REQUEST_INVALID before anything is written; SPOOL_FULL, ENQUEUE_FAILED if nothing of it is left
 */
export function* writeSteps(request: Request, options: WriteOptions): Steps {
  const { id, priority } = request
  const { spool, owner } = options
  if (id !== undefined && owner !== undefined) throw idRefused(spool, owner)
  let directory = spool
  let draft: Draft | undefined
  try {
    const first = id === undefined ? undefined : findId(spool, id)
    if (first !== undefined) return yield* fulfil(first, options, true)
    if (priority !== undefined) directory = `${spool}/${priority}`
    draft = new Draft(spool, request, owner)
    yield* fill(draft, request, options)
    yield { kind: 'written', draft }
    return id === undefined ? yield* publish(draft, options) : yield* publishOnce(draft, id, options)
  } catch (error) {
    throw writeError(directory, error)
  } finally {
    draft?.end()
  }
}

/** Root refuses ids, because they are made below a directory that the spool's owner may exchange at any time. */
function idRefused(spool: string, { uid }: Owner): SpooldError {
  return new SpooldError(
    'ENQUEUE_FAILED',
    `root stores no task with an id in ${nameOf(spool)}, which is a spool of uid ${uid}: run this as uid ${uid}, or call spoold enqueue`,
    { details: { key: 'id', path: nameOf(spool) } },
  )
}

function* publish(draft: Draft, { sync }: WriteOptions): Steps {
  draft.publish()
  try {
    if (sync) yield* syncEntry(draft)
  } catch (error) {
    draft.takeBack()
    throw error
  }
  return { path: nameOf(draft.path), isDuplicate: false }
}

/**
 * Publishes a task under an id. The link is a promise: the complete task is on disk before the link is created. The link is
 * never removed, because others may have relied on it. If a later sync fails, the caller has to retry with the same id.
 */
function* publishOnce(draft: Draft, id: string, options: WriteOptions): Steps {
  if (options.sync) yield* syncEntry(draft)
  draft.renew()
  const ref = draft.promise(id)
  return yield* fulfil(ref, options, ref !== draft.ref)
}

/** Publishes a promised task, unless that was done before: the first writer may have died, or still be at work. */
function* fulfil(ref: Ref, { spool, sync }: WriteOptions, isDuplicate: boolean): Steps {
  const path = `${spool}/${ref}`
  if (sync) yield { kind: 'directory', path: idsDirectory(spool) }
  publishPromised(spool, ref)
  if (sync) yield { kind: 'directory', path: path.slice(0, path.lastIndexOf('/')) }
  return { path: nameOf(path), isDuplicate }
}

function* fill(
  draft: Draft,
  { packet, body, atSeconds }: Request,
  { sync }: WriteOptions,
): Generator<Wait, void, void> {
  if (body === undefined || !(body instanceof Uint8Array)) draft.append(packet)
  else draft.append(Buffer.concat([packet, body]))
  if (body !== undefined && !(body instanceof Uint8Array)) yield { kind: 'body', draft, body }
  if (atSeconds !== undefined) draft.setTime(atSeconds)
  if (sync) yield { kind: 'data', fd: draft.fd }
  draft.close()
}

function* syncEntry(draft: Draft): Generator<Wait, void, void> {
  yield { kind: 'directory', path: draft.heldDirectory }
  if (draft.isDirectoryNew) yield { kind: 'directory', path: draft.spool }
}

/** Runs a write to its end. @param waitFor performs what the write waits for */
export async function drive(steps: Steps, waitFor = perform): Promise<Stored> {
  let step = steps.next()
  while (step.done !== true)
    try {
      await waitFor(step.value)
      step = steps.next()
    } catch (error) {
      step = steps.throw(error)
    }
  return step.value
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

/** How often drafts are renewed. It is far less than `spooler-sweep` is ever set to. */
const SIGN_OF_LIFE_MS = 1000
/** How many drafts are renewed at once, which takes some 10 ms. Of a million, each is renewed within half an hour. */
const MAX_RENEWED = 1000

/**
 * Shows a sweep that the writer of these drafts is alive, by renewing their ctimes, one after the other. More may be added.
 *
 * @returns a function that ends this
 */
export function keepAlive(drafts: readonly Draft[]): () => void {
  let next = 0
  const life = setInterval(() => {
    // a failure is ignored: the next step of the write reports what is wrong
    for (let n = Math.min(drafts.length, MAX_RENEWED); n > 0; n--)
      quietly(() => drafts[next++ % drafts.length]?.renew())
  }, SIGN_OF_LIFE_MS)
  return () => clearInterval(life)
}

/**
 * Stores a streamed body. That may take long, and a sweep has to see that the writer is alive: by new ctimes, which cost
 * next to nothing, and by a lock, but only where libc has been loaded for other reasons. A program that only stores tasks
 * does not load it.
 */
async function receive(draft: Draft, body: AsyncIterable<Uint8Array>): Promise<void> {
  if (hasChosen()) await tryHold(draft.fd).catch(() => {})
  const rest = keepAlive([draft])
  try {
    for await (const bytes of body) draft.append(bytes)
  } finally {
    rest()
  }
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

/** No blocks, no inodes, or a user's quota used up: there may be room later. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT'])

export function isNoRoom(error: unknown): boolean {
  return NO_ROOM.has(errnoOf(error) ?? '')
}

/** The error for a task that could not be stored. Deliberate refusals stay as they are. */
export function writeError(directory: string, error: unknown): SpooldError {
  if (error instanceof SpooldError) return error
  const errno = errnoOf(error)
  const code = isNoRoom(error) ? 'SPOOL_FULL' : 'ENQUEUE_FAILED'
  const path = nameOf(directory)
  const hint = code === 'SPOOL_FULL' ? '; make room (df, df -i, quota) and try again' : ''
  return new SpooldError(code, `the task could not be stored in ${path}: ${messageOf(error)}${hint}`, {
    cause: error,
    details: { path, ...(errno === undefined ? {} : { errno }) },
  })
}

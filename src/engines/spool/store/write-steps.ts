import { SpooldError } from '../../../base/errors.js'
import type { Ref } from '../../../base/task/ref.js'
import type { Request, Stored } from '../../../base/task/request.js'
import { nameOf } from '../../../system/files/anchored-path.js'
import type { Owner } from '../permissions.js'
import { Draft } from './draft.js'
import { findId, idsDirectory, publishPromised, takeId } from './ids.js'
import { writeError } from './write-error.js'

export interface WriteOptions {
  /** The spool directory's real path, a byte string, or one that is anchored to it. */
  readonly spool: string
  /** Whom root gives what it stores. */
  readonly owner?: Owner | undefined
  /** Whether data and directory entry are on disk before the task counts as stored. Otherwise they only survive `kill -9`. */
  readonly sync: boolean
}

/** What a write waits for. The driver decides how to wait (write.ts, write-batch.ts). */
export type Wait =
  | { readonly kind: 'body'; readonly draft: Draft; readonly body: AsyncIterable<Uint8Array> }
  | { readonly kind: 'data'; readonly fd: number }
  /** The task is complete in its hidden file: the last moment at which it can be given up. */
  | { readonly kind: 'written' }
  | { readonly kind: 'directory'; readonly path: string }

const WRITTEN: Wait = { kind: 'written' }

export type Steps = Generator<Wait, Stored, void>

/**
 * Stores one task, with uWSGI's name, mode and mtime (core/spooler.c, uwsgi_spool_request), step by step. The process, or the
 * machine, may die after any step: then either a complete task or a hidden leftover is on disk.
 *
 * @throws SpooldError REQUEST_INVALID before anything is written; SPOOL_FULL, ENQUEUE_FAILED if nothing of it is left
 */
export function* writeSteps(request: Request, options: WriteOptions): Steps {
  const { id } = request
  if (id !== undefined && options.owner !== undefined) throw idRefused(options.spool, options.owner)
  const first = id === undefined ? undefined : findFirst(options.spool, id)
  if (first !== undefined) return yield* duplicate(first, options)
  const draft = openDraft(request, options)
  try {
    yield* written(draft, request, options)
    return id === undefined ? yield* publish(draft, options) : yield* publishOnce(draft, id, request, options)
  } finally {
    draft.end()
  }
}

/** Ids are made below what the owner may exchange at any time. */
function idRefused(spool: string, { uid }: Owner): SpooldError {
  return new SpooldError(
    'ENQUEUE_FAILED',
    `root stores no task with an id in ${nameOf(spool)}, which is a spool of uid ${uid}: run this as uid ${uid}, or call spoold enqueue`,
    { details: { key: 'id', path: nameOf(spool) } },
  )
}

function* written(draft: Draft, request: Request, options: WriteOptions): Generator<Wait, void, void> {
  try {
    yield* fill(draft, request, options)
    yield WRITTEN
  } catch (error) {
    draft.discard(false)
    throw writeError(draft.directory, error)
  }
}

function findFirst(spool: string, id: string): Ref | undefined {
  try {
    return findId(spool, id)
  } catch (error) {
    throw writeError(spool, error)
  }
}

function* publish(draft: Draft, { sync }: WriteOptions): Steps {
  let isPublished = false
  try {
    draft.publish()
    isPublished = true
    if (sync) yield* syncEntry(draft)
    return { path: nameOf(draft.path), isDuplicate: false }
  } catch (error) {
    draft.discard(isPublished)
    throw writeError(draft.directory, error)
  }
}

/**
 * The link is a promise: the complete task is on disk before it is created. It is never removed, because others may have
 * relied on it. If a later sync fails, the caller has to retry with the same id.
 */
function* publishOnce(draft: Draft, id: string, { atSeconds }: Request, options: WriteOptions): Steps {
  const { spool, sync } = options
  let ref: Ref | undefined
  try {
    if (sync) yield* syncEntry(draft)
    draft.renew(atSeconds)
    ref = takeId(spool, id, draft.ref)
    if (ref !== draft.ref) {
      draft.discard(false)
      return yield* duplicate(ref, options)
    }
    if (sync) yield { kind: 'directory', path: idsDirectory(spool) }
    publishPromised(spool, ref) // another process that found the promise may have done it
    if (sync) yield { kind: 'directory', path: draft.heldDirectory }
    return { path: nameOf(draft.path), isDuplicate: false }
  } catch (error) {
    if (ref === undefined) draft.discard(false)
    throw writeError(draft.directory, error)
  }
}

function openDraft(request: Request, { spool, owner }: WriteOptions): Draft {
  const { priority } = request
  try {
    return new Draft(spool, request, owner)
  } catch (error) {
    throw writeError(priority === undefined ? spool : `${spool}/${priority}`, error)
  }
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

/** The first writer may have died, or still be at work: finish and sync its publish before reporting a duplicate. */
function* duplicate(ref: Ref, { spool, sync }: WriteOptions): Steps {
  const path = `${spool}/${ref}`
  try {
    publishPromised(spool, ref)
    if (sync) {
      yield { kind: 'directory', path: idsDirectory(spool) }
      const cut = ref.indexOf('/')
      yield { kind: 'directory', path: cut < 0 ? spool : `${spool}/${ref.slice(0, cut)}` }
    }
    return { path: nameOf(path), isDuplicate: true }
  } catch (error) {
    throw writeError(spool, error)
  }
}

function* syncEntry(draft: Draft): Generator<Wait, void, void> {
  yield { kind: 'directory', path: draft.heldDirectory }
  if (draft.isDirectoryNew) yield { kind: 'directory', path: draft.spool }
}

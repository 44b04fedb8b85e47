import { displayName, type Ref } from '../../task/ref.js'
import type { Request, Stored } from '../../task/request.js'
import { Draft } from './draft.js'
import { findId, idsDirectory, publishPromised, takeId } from './ids.js'
import { writeError } from './write-error.js'

export interface WriteOptions {
  /** The spool directory's real path, a byte string. */
  readonly spool: string
  /** Data and directory entry are on disk before the task counts as stored. Without it they are safe from `kill -9` only. */
  readonly sync: boolean
}

/** What a write waits for. How it is waited for is the driver's business (spool/write, spool/write-batch). */
export type Wait =
  | { readonly kind: 'body'; readonly draft: Draft; readonly body: AsyncIterable<Uint8Array> }
  | { readonly kind: 'data'; readonly fd: number }
  /** It is whole, in its hidden file: the last moment at which all of it can be given up. */
  | { readonly kind: 'written' }
  | { readonly kind: 'directory'; readonly path: string }

const WRITTEN: Wait = { kind: 'written' }

export type Steps = Generator<Wait, Stored, void>

/**
 * Stores one task, with uWSGI's name, mode and mtime (core/spooler.c, uwsgi_spool_request), step by step. Every step
 * may be the last one of the process, or of the machine: what is on disk then is a whole task or a hidden leftover.
 *
 * @throws SpooldError REQUEST_INVALID before anything is written; SPOOL_FULL, ENQUEUE_FAILED after nothing was left
 */
export function* writeSteps(request: Request, options: WriteOptions): Steps {
  const { id } = request
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
    return { path: displayName(draft.path), isDuplicate: false }
  } catch (error) {
    draft.discard(isPublished)
    throw writeError(draft.directory, error)
  }
}

/**
 * Before the link there is the whole task, also after a power failure: the link is a promise. It is never taken back,
 * because others may have relied on it; when a sync fails behind it, the caller comes again with the same id.
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
    publishPromised(spool, ref) // who found the promise may have done it
    if (sync) yield { kind: 'directory', path: draft.directory }
    return { path: displayName(draft.path), isDuplicate: false }
  } catch (error) {
    if (ref === undefined) draft.discard(false)
    throw writeError(draft.directory, error)
  }
}

function openDraft({ priority }: Request, { spool }: WriteOptions): Draft {
  try {
    return new Draft(spool, priority)
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

/** The first writer may have died, or may not be through: what it promised is made good, and safe, before we rely on it. */
function* duplicate(ref: Ref, { spool, sync }: WriteOptions): Steps {
  const path = `${spool}/${ref}`
  try {
    publishPromised(spool, ref)
    if (sync) {
      yield { kind: 'directory', path: idsDirectory(spool) }
      const cut = ref.indexOf('/')
      yield { kind: 'directory', path: cut < 0 ? spool : `${spool}/${ref.slice(0, cut)}` }
    }
    return { path: displayName(path), isDuplicate: true }
  } catch (error) {
    throw writeError(spool, error)
  }
}

function* syncEntry(draft: Draft): Generator<Wait, void, void> {
  yield { kind: 'directory', path: draft.directory }
  if (draft.isDirectoryNew) yield { kind: 'directory', path: draft.spool }
}

import { createHash, randomUUID } from 'node:crypto'
import { SpooldError } from '../../base/errors.js'
import type { Request } from '../../base/task/request.js'
import { HEADER_BYTES } from '../../formats/protocol/header.js'
import { parseVars } from '../../formats/protocol/vars.js'
import { wholeBody } from '../body.js'
import type { JobJson } from './libraries.js'
import { dataOf, jobNameOf, jobPriority, MAX_TASK_BYTES } from './task-job.js'

/** A request whose body is whole, as a job. */
export interface Draft {
  readonly json: JobJson
  /** What the task is recognized by: of two tasks with the same identity, one is stored. */
  readonly identity: Identity
}

/**
 * How long Redis remembers the identity of a task whose reply nobody has seen: longer than it may take until somebody who was cut
 * off, or stopped over a long weekend, asks again. All others are forgotten as soon as the reply has been seen.
 */
export const TOMBSTONE_MS = 7 * 86_400_000

/**
 * `id`: the hash of an id that the caller gave. `add`: the id of the job, which is the same for whoever tries again to store this
 * task. BullMQ remembers it in the script that adds the job: it stores one job per deduplication id while that lasts, whatever
 * becomes of the job.
 */
interface Identity {
  readonly kind: 'id' | 'add'
  readonly text: string
}

const MARK = /^(id)-([0-9a-f]{64})$|^(add)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/** Returns what a task is recognized by in the spool that it is forwarded to, for the name of its file; see Request.mark. */
export function markOf({ id, mark, name }: Request): string {
  if (mark !== undefined) return mark
  if (name !== undefined) return `add-${name}`
  return id === undefined ? `add-${randomUUID()}` : `id-${sha256(id)}`
}

/**
 * Returns the mark in the name of a file. A file that another program wrote gets a mark from its name, which no program uses
 * twice.
 */
export function markOfFile(name: string): string {
  const mark = name.split('_').at(-3) ?? ''
  if (MARK.test(mark)) return mark
  const [a, b, c, d, e] = /^(.{8})(.{4})(.{4})(.{4})(.{12})/.exec(sha256(name))?.slice(1) ?? []
  return `add-${a}-${b}-${c}-${d}-${e}`
}

/** Returns the key of an identity, behind the prefix of a spool's keys: one of spoold's for `id`, one of BullMQ's for `add`. */
export function identityKey({ kind, text }: Identity): string {
  return kind === 'id' ? `spoold:id:${text}` : addKey(text)
}

/** @param job the id of the job */
export function addKey(job: string): string {
  return `de:${job}`
}

/** A request whose body is read. */
type WholeRequest = Request & { readonly body?: Buffer }

/**
 * Returns a request with its body read; a promise only if the body is a stream, or too large.
 *
 * @throws SpooldError REQUEST_INVALID if no spool on Redis can have the task; and what the body throws
 */
export function wholeRequest(request: Request): WholeRequest | Promise<WholeRequest> {
  jobPriority(request.priority)
  const most = MAX_TASK_BYTES - request.packet.length
  if (hasBodyWithin(request, most)) return request
  return wholeBody(request, most).then((body = Buffer.alloc(0)) => ({ ...request, body }))
}

function hasBodyWithin(request: Request, most: number): request is WholeRequest {
  const { body } = request
  return body === undefined || (Buffer.isBuffer(body) && body.length <= most)
}

/** Returns a request as a job. @throws SpooldError REQUEST_INVALID */
export function draftOf(request: WholeRequest, nowMs: number): Draft {
  const { packet, atSeconds = 0, body } = request
  const priority = jobPriority(request.priority)
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) throw new SpooldError('REQUEST_INVALID', vars.fault)
  const delay = Math.max(0, Math.ceil(atSeconds * 1000) - nowMs)
  const identity = identityOf(request)
  const isAdd = identity.kind === 'add'
  const id = isAdd ? identity.text : randomUUID()
  const opts = { priority, attempts: 1, ...(delay === 0 ? {} : { delay }) }
  return {
    json: {
      ...{ id, name: jobNameOf(vars), data: dataOf(packet, body), timestamp: nowMs },
      opts: isAdd ? { ...opts, deduplication: { id, ttl: TOMBSTONE_MS } } : opts,
      ...{ delay, priority, attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0 },
      ...{ progress: 0, failedReason: '', returnvalue: '' },
      ...(isAdd ? { deduplicationId: id } : {}),
    },
    identity,
  }
}

function identityOf({ id, mark, name = randomUUID() }: Request): Identity {
  if (mark === undefined)
    return id === undefined ? { kind: 'add', text: name } : { kind: 'id', text: sha256(id) }
  const [, isId, hash, , job] = MARK.exec(mark) ?? []
  return isId === undefined ? { kind: 'add', text: job ?? randomUUID() } : { kind: 'id', text: hash ?? '' }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

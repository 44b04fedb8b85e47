import { createHash, randomUUID } from 'node:crypto'
import { SpooldError } from '../../base/errors.js'
import { HEADER_BYTES } from '../../protocol/header.js'
import { parseVars } from '../../protocol/vars.js'
import type { Request } from '../../task/request.js'
import { wholeBody } from '../body.js'
import type { JobJson } from './libraries.js'
import { dataOf, jobNameOf, jobPriority, MAX_TASK_BYTES } from './task-job.js'

/** A request whose body is whole, as a job. */
export interface Draft {
  readonly json: JobJson
  /** What it is recognized by: of two with the same, one is stored. */
  readonly identity: Identity
}

/**
 * `id`: the hash of an id that the caller gave. `add`: the id of the job, which is the same for whoever tries again to store
 * this task.
 */
interface Identity {
  readonly kind: 'id' | 'add'
  readonly text: string
}

const MARK = /^(id)-([0-9a-f]{64})$|^(add)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/** The name of a task in the spool that it is forwarded to, for its file's name; see Request.mark. */
export function markOf({ id, mark, name }: Request): string {
  if (mark !== undefined) return mark
  if (name !== undefined) return `add-${name}`
  return id === undefined ? `add-${randomUUID()}` : `id-${sha256(id)}`
}

/** The mark in the name of a file. One that another program wrote gets that of its name, which no program uses twice. */
export function markOfFile(name: string): string {
  const mark = name.split('_').at(-3) ?? ''
  if (MARK.test(mark)) return mark
  const [a, b, c, d, e] = /^(.{8})(.{4})(.{4})(.{4})(.{12})/.exec(sha256(name))?.slice(1) ?? []
  return `add-${a}-${b}-${c}-${d}-${e}`
}

/** Behind the prefix of a spool's keys. */
export function identityKey({ kind, text }: Identity): string {
  return `spoold:${kind}:${text}`
}

/** @throws SpooldError REQUEST_INVALID if no spool on Redis can have it; and what the body throws */
export async function wholeRequest(request: Request): Promise<Request> {
  jobPriority(request.priority)
  const body = await wholeBody(request, MAX_TASK_BYTES - request.packet.length)
  return body === undefined ? request : { ...request, body }
}

/** @throws SpooldError REQUEST_INVALID, and what the body throws */
export async function draftOf(request: Request, nowMs: number): Promise<Draft> {
  const { packet, atSeconds = 0, body } = await wholeRequest(request)
  const priority = jobPriority(request.priority)
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) throw new SpooldError('REQUEST_INVALID', vars.fault)
  const delay = Math.max(0, atSeconds * 1000 - nowMs)
  const identity = identityOf(markOf(request))
  const id = identity.kind === 'add' ? identity.text : randomUUID()
  return {
    json: {
      ...{ id, name: jobNameOf(vars), data: dataOf(packet, body as Buffer | undefined), timestamp: nowMs },
      opts: { priority, delay, attempts: 1 },
      ...{ delay, priority, attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0 },
      ...{ progress: 0, failedReason: '', returnvalue: '' },
    },
    identity,
  }
}

function identityOf(mark: string): Identity {
  const [, id, hash, , job] = MARK.exec(mark) ?? []
  return id === undefined ? { kind: 'add', text: job ?? randomUUID() } : { kind: 'id', text: hash ?? '' }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

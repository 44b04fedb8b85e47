import { printableJson } from '../../base/printable.js'

/**
 * The control protocol: one JSON object per line, both ways, over a unix stream socket. docs/control.md describes it.
 *
 *     {"v":1,"id":1,"verb":"snapshot","args":{}}
 *     {"v":1,"id":1,"ok":{…}}      or    {"v":1,"id":1,"error":{"code":"forbidden","message":"…"}}
 *
 * A verb may stream: then any number of {"v":1,"id":1,"event":…} come before its `ok` or `error`. The requests of one
 * connection are answered one after another.
 */
const CONTROL_VERSION = 1

/** The longest request, in bytes, with its newline. */
export const MAX_REQUEST_BYTES = 65_536

/** What a socket lets its clients do: a `viewer` reads, an `operator` also acts. */
export type Role = 'viewer' | 'operator'
export const ROLES: readonly Role[] = ['viewer', 'operator']

export type Id = string | number

export interface ControlRequest {
  readonly id: Id
  readonly verb: string
  readonly args: object
}

/** Why a request was refused, or a stream ended. */
type ControlErrorCode =
  | 'malformed' // not a request; the connection is closed
  | 'version' // of a version that this daemon does not speak
  | 'unknown-verb'
  | 'invalid-args'
  | 'forbidden' // not for the role of this socket
  | 'failed' // the action could not be carried out
  | 'too-slow' // the client reads a stream too slowly; the connection is closed
  | 'stopped' // the daemon stops

/** Thrown by an action whose message is to reach the client. */
export class ControlError extends Error {
  readonly code: ControlErrorCode

  constructor(code: ControlErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

export type ControlReply =
  | { readonly ok: unknown }
  | { readonly event: unknown }
  | { readonly error: { readonly code: string; readonly message: string } }

const LONGEST_ID = 64

/** @throws ControlError malformed, version */
export function parseRequest(line: string): ControlRequest {
  const request = jsonObject(line)
  if (request === undefined) throw new ControlError('malformed', 'expected a JSON object on one line')
  const { v, id, verb, args = {} } = request
  if (v !== CONTROL_VERSION)
    throw new ControlError('version', `expected "v":${CONTROL_VERSION}, got ${JSON.stringify(v)}`)
  if (!isId(id))
    throw new ControlError(
      'malformed',
      `expected "id" to be a number, or a text of up to ${LONGEST_ID} characters`,
    )
  if (typeof verb !== 'string') throw new ControlError('malformed', 'expected "verb" to be a text')
  if (typeof args !== 'object' || args === null || Array.isArray(args))
    throw new ControlError('malformed', 'expected "args" to be an object')
  return { id, verb, args }
}

export function formatReply(id: Id | null, reply: ControlReply): string {
  const head = JSON.stringify({ v: CONTROL_VERSION, id }).slice(0, -1)
  const body = 'ok' in reply ? `"ok":${textOf(reply.ok)}` : JSON.stringify(reply).slice(1, -1)
  return `${printableJson(`${head},${body}}`)}\n`
}

/** The texts of results that several clients get, such as a snapshot, so that each is written out once. */
const texts = new WeakMap<object, string>()

function textOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const text = texts.get(value) ?? JSON.stringify(value)
  texts.set(value, text)
  return text
}

export function formatRequest({ id, verb, args }: ControlRequest): string {
  return `${JSON.stringify({ v: CONTROL_VERSION, id, verb, args })}\n`
}

/** @returns undefined if the line is no reply, because another program listens there */
export function parseReply(line: string): ControlReply | undefined {
  const reply = jsonObject(line)
  if (reply?.v !== CONTROL_VERSION) return undefined
  if ('ok' in reply) return { ok: reply.ok }
  if ('event' in reply) return { event: reply.event }
  const { error } = reply
  if (typeof error !== 'object' || error === null || !('code' in error) || !('message' in error))
    return undefined
  return { error: { code: String(error.code), message: String(error.message) } }
}

function jsonObject(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function isId(id: unknown): id is Id {
  return typeof id === 'number' || (typeof id === 'string' && id.length <= LONGEST_ID)
}

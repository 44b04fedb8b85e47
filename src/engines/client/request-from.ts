import { describe, SpooldError } from '../../base/errors.js'
import type { Request } from '../../base/task/request.js'
import { readAt } from '../../formats/protocol/at.js'
import { encodePacket, type VarPair } from '../../formats/protocol/packet.js'
import { bytesOf, type Value } from './value.js'

/** Keys and values. A Map keeps the order of its keys; any other iterable of pairs may also repeat keys. */
export type Dictionary = Readonly<Record<string, Value>> | Iterable<readonly [key: string, value: Value]>

export interface TaskOptions {
  /**
   * Run no earlier than this: epoch seconds, a Date, ISO 8601 text (in this machine's zone unless it names one), or `+1h30m`.
   * Default: now.
   */
  readonly at?: number | Date | string
  /** The priority directory, in digits. Lower runs first. The daemon needs spooler-ordered. */
  readonly priority?: number | string
  /** Any number of bytes, which handlers get as `body`. A stream is read to its end while the task is written. */
  readonly body?: Value | AsyncIterable<Uint8Array>
  /** Your own name for the task, any text: a spool stores it once, even after the task has run (docs/enqueue.md). */
  readonly id?: string
}

/** A request, and the spool that its dictionary names. */
interface Addressed {
  readonly request: Request
  readonly spooler: Buffer | undefined
}

/**
 * Turns a dictionary into a request. uWSGI's magic keys have their meaning: `spooler`, `at` and `priority` stay in the packet,
 * `body` does not. Options override keys; `at` and `priority` are written into the packet as well.
 *
 * @throws TypeError that names the key, for a value that cannot become bytes
 * @throws SpooldError REQUEST_INVALID for an invalid size, priority, time or id; details has key and sizes
 */
export function addressedFrom(dictionary: Dictionary, options: TaskOptions = {}): Addressed {
  const vars: VarPair[] = []
  const magic: Magic = {}
  if (typeof dictionary !== 'object' || dictionary === null)
    throw new TypeError(`expected a dictionary, got ${describe(dictionary)}`)
  if (isPairs(dictionary)) for (const [key, value] of dictionary) addPair(vars, magic, key, value)
  else for (const key of Object.keys(dictionary)) addPair(vars, magic, key, dictionary[key])
  const at = options.at === undefined ? magic.at : readAt(options.at)
  if (options.at !== undefined) magicOption(vars, 'at', at?.text)
  const priority = magicOption(vars, 'priority', options.priority) ?? magic.priority
  const request: { -readonly [Key in keyof Request]: Request[Key] } = { packet: encodePacket(vars) }
  const body = bodyOf(options.body) ?? magic.body
  if (body !== undefined) request.body = body
  if (at?.seconds !== undefined) request.atSeconds = at.seconds
  if (priority !== undefined && priority.length > 0) request.priority = checkedPriority(priority)
  if (options.id !== undefined) request.id = checkedId(options.id)
  return { request, spooler: magic.spooler }
}

type Magic = { [Key in 'body' | 'priority' | 'spooler']?: Buffer } & { at?: ReturnType<typeof readAt> }

function isPairs(dictionary: Dictionary): dictionary is Iterable<readonly [string, Value]> {
  return Symbol.iterator in dictionary
}

function addPair(vars: VarPair[], magic: Magic, key: string, value: unknown): void {
  const bytes = bytesOf(key, value)
  switch (key) {
    case 'body':
      magic.body = bytes
      return
    case 'at':
      magic.at = readAt(value instanceof Date ? value : bytes.toString())
      vars.push([Buffer.from(key), Buffer.from(magic.at.text)])
      return
    case 'priority':
    case 'spooler':
      magic[key] = bytes
  }
  vars.push([Buffer.from(key), bytes])
}

/** Writes an option into the packet, in place of the last pair with this key if there is one. */
function magicOption(vars: VarPair[], key: string, value: string | number | undefined): Buffer | undefined {
  if (value === undefined) return undefined
  const bytes = bytesOf(key, value)
  const i = vars.findLastIndex(([name]) => name.toString() === key)
  vars.splice(i < 0 ? vars.length : i, i < 0 ? 0 : 1, [Buffer.from(key), bytes])
  return bytes
}

function bodyOf(body: TaskOptions['body']): Request['body'] | undefined {
  if (body === undefined) return undefined
  if (typeof body === 'object' && body !== null && Symbol.asyncIterator in body) return body
  return bytesOf('body', body)
}

function checkedPriority(bytes: Buffer): string {
  const priority = bytes.toString('latin1')
  if (/^[0-9]{1,255}$/.test(priority)) return priority
  throw new SpooldError(
    'REQUEST_INVALID',
    `priority must be digits only, got ${describe(bytes.toString())}`,
    {
      details: { key: 'priority', got: bytes.toString() },
    },
  )
}

function checkedId(id: unknown): string {
  if (typeof id !== 'string') throw new TypeError(`id must be a string, got ${describe(id)}`)
  if (id === '') throw new SpooldError('REQUEST_INVALID', 'the id is empty', { details: { key: 'id' } })
  return id
}

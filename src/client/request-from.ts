import { describe, SpooldError } from '../base/errors.js'
import type { Request } from '../task/request.js'

/** What may be given as a value; docs/spool-format.md says which bytes become of each. */
export type Value = string | number | bigint | boolean | Date | Uint8Array

export interface SpoolOptions {
  /** Not before: epoch seconds, a Date, or a text that Date understands. */
  readonly at?: number | Date | string
  /** The priority directory: digits. Needs spooler-ordered on the other side. */
  readonly priority?: number | string
  /** Any number of bytes, given to the handler as `body`. */
  readonly body?: string | Uint8Array
}

/**
 * A dictionary as a request. `at` and `priority` are also written into the packet, as uWSGI's callers do it; `at`,
 * `priority` and `body` inside the dictionary mean the same.
 *
 * @throws TypeError that names the key, for a value that has no bytes
 * @throws SpooldError REQUEST_INVALID for a priority or a time that cannot be
 */
export function requestFrom(
  dictionary: Readonly<Record<string, Value>>,
  options: SpoolOptions = {},
): Request {
  const { body: bodyKey, ...rest } = dictionary
  const priority = options.priority ?? (rest.priority === undefined ? undefined : String(rest.priority))
  const at = options.at ?? (rest.at as SpoolOptions['at'])
  const atSeconds = at === undefined ? undefined : secondsOf(at)
  const vars: Record<string, Value> = { ...rest }
  if (atSeconds !== undefined) vars.at = atSeconds
  if (priority !== undefined) vars.priority = String(priority)
  const body = options.body ?? bodyKey
  return {
    vars: Object.entries(vars).map(([key, value]) => [Buffer.from(key), bytesOf(key, value)] as const),
    ...(body === undefined ? {} : { body: bytesOf('body', body) }),
    ...(atSeconds === undefined || atSeconds <= 0 ? {} : { atSeconds: Math.floor(atSeconds) }),
    ...(priority === undefined || priority === '' ? {} : { priority: String(priority) }),
  }
}

function bytesOf(key: string, value: unknown): Buffer {
  if (typeof value === 'string') return Buffer.from(value)
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (value instanceof Date) return Buffer.from(value.toISOString())
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return Buffer.from(String(value))
  throw new TypeError(
    `the value of "${key}" must be a string, bytes, a number, a boolean or a Date, got ${describe(value)}`,
  )
}

function secondsOf(at: number | Date | string): number {
  if (typeof at === 'number' && Number.isFinite(at)) return at
  const text = String(at)
  const seconds =
    at instanceof Date
      ? at.getTime() / 1000
      : /^[0-9]+(\.[0-9]*)?$/.test(text)
        ? Number(text)
        : Date.parse(text) / 1000
  if (!Number.isFinite(seconds))
    throw new SpooldError(
      'REQUEST_INVALID',
      `at must be epoch seconds, a Date or a date as text, got ${describe(at)}`,
      {
        details: { key: 'at', got: at },
      },
    )
  return seconds
}

import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { describe, messageOf, SpooldError } from '../base/errors.js'
import type { Value } from '../client/value.js'

/** One task of the input. */
export interface JsonTask {
  /** Counted from 1. */
  readonly line: number
  /** Bytes of the input up to here, about. */
  readonly bytes: number
  readonly pairs: ReadonlyArray<readonly [key: string, value: Value]>
}

/** One object over several lines may take so much. */
const MAX_OBJECT_CHARS = 64 * 1024 * 1024

/**
 * The tasks of a JSON input: one object, over as many lines as it likes, or one object a line. Values are strings,
 * numbers, booleans, or bytes as `{"base64": "…"}`, as `spoold show --json` writes them.
 *
 * @throws SpooldError REQUEST_INVALID that names the line
 */
export async function* readJsonTasks(input: Readable): AsyncGenerator<JsonTask> {
  let line = 0
  let bytes = 0
  let isLines: boolean | undefined
  let text = ''
  for await (const row of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    line++
    bytes += row.length + 1
    if (row.trim() === '') continue
    isLines ??= isJson(row)
    if (isLines) yield { line, bytes, pairs: pairsOf(row, line) }
    else text += `${row}\n`
    if (text.length > MAX_OBJECT_CHARS)
      throw invalid(1, `an object of more than ${MAX_OBJECT_CHARS} characters, or no JSON at all`)
  }
  if (text !== '') yield { line: 1, bytes, pairs: pairsOf(text, 1) }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function pairsOf(text: string, line: number): JsonTask['pairs'] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw invalid(line, messageOf(error))
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(line, `expected an object, got ${describe(value)}`)
  return Object.entries(value).map(([key, each]) => [key, jsonValue(key, each, line)] as const)
}

function jsonValue(key: string, value: unknown, line: number): Value {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (typeof value === 'object' && value !== null && 'base64' in value && typeof value.base64 === 'string')
    return Buffer.from(value.base64, 'base64')
  throw invalid(
    line,
    `the value of ${JSON.stringify(key)} must be a string, a number, a boolean or {"base64": "…"}, got ${describe(value)}`,
    { key },
  )
}

function invalid(line: number, what: string, details: Record<string, unknown> = {}): SpooldError {
  return new SpooldError('REQUEST_INVALID', `line ${line}: ${what}`, { details: { line, ...details } })
}

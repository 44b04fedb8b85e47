import { isUtf8 } from 'node:buffer'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { describe, messageOf, SpooldError } from '../../base/errors.js'
import type { Value } from '../../engines/client/value.js'

/** One task of the input. */
export interface JsonTask {
  /** Counted from 1. */
  readonly line: number
  /** Approximate number of input bytes read so far. */
  readonly bytes: number
  readonly pairs: ReadonlyArray<readonly [key: string, value: Value]>
}

/** The maximum size of one object that spans several lines. */
const MAX_OBJECT_CHARS = 64 * 1024 * 1024

/**
 * Reads the tasks of a JSON input: a single object, on any number of lines, or one object per line. Values are strings,
 * numbers, booleans, or bytes as `{"base64": "…"}`, as `spoold show --json` writes them.
 *
 * @throws SpooldError REQUEST_INVALID, naming the line
 */
export async function* readJsonTasks(source: AsyncIterable<Uint8Array>): AsyncGenerator<JsonTask> {
  // latin1, which keeps bytes: readline would take U+2028 for the end of a line, and hide invalid UTF-8
  const input = Readable.from(source, { objectMode: false }).setEncoding('latin1')
  let line = 0
  let bytes = 0
  let isLines: boolean | undefined
  let text = ''
  for await (const latin1 of rowsOf(input)) {
    line++
    bytes += latin1.length + 1
    const row = textOf(latin1, line)
    if (row.trim() === '') continue
    isLines ??= isJson(row)
    if (isLines) yield { line, bytes, pairs: pairsOf(row, line) }
    else text += `${row}\n`
    if (text.length > MAX_OBJECT_CHARS)
      throw invalid(1, `an object of more than ${MAX_OBJECT_CHARS} characters, or no JSON at all`)
  }
  if (text !== '') yield { line: 1, bytes, pairs: pairsOf(text, 1) }
}

/** Yields the input's lines, and throws the input's error: readline alone would leave it unhandled. */
async function* rowsOf(input: Readable): AsyncGenerator<string> {
  const rows = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })[Symbol.asyncIterator]()
  const failure = new Promise<never>((_, reject) => input.once('error', reject))
  failure.catch(() => {}) // awaited in the race below
  for (;;) {
    const next = await Promise.race([rows.next(), failure])
    if (next.done === true) return
    yield next.value
  }
}

function textOf(latin1: string, line: number): string {
  const bytes = Buffer.from(latin1, 'latin1')
  if (!isUtf8(bytes)) throw invalid(line, 'it is not UTF-8; write bytes as {"base64": "…"}')
  return bytes.toString()
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
  const entries = Object.entries(value)
  if (entries.some(([, each]) => typeof each === 'number')) refuseInexact(text, line)
  return entries.map(([key, each]) => [wellFormed(key, key, line), jsonValue(key, each, line)] as const)
}

function jsonValue(key: string, value: unknown, line: number): Value {
  if (typeof value === 'string') return wellFormed(key, value, line)
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return value
  if (typeof value === 'object' && value !== null && 'base64' in value && typeof value.base64 === 'string')
    return fromBase64(key, value.base64, line)
  throw invalid(
    line,
    `the value of ${JSON.stringify(key)} must be a string, a number, a boolean or {"base64": "…"}, got ${describe(value)}`,
    { key },
  )
}

/** No number that a double can hold needs more digits. */
const MAX_NUMBER_CHARS = 400
/** A string and, if it is the key of a number, that number. */
const STRING_AND_NUMBER = /"((?:[^"\\]|\\.)*)"(?:\s*:\s*(-?[0-9][0-9.eE+-]*))?/g

/**
 * Refuses numbers that JSON.parse would round: it turns every number into a double.
 *
 * @param text valid JSON
 * @throws SpooldError REQUEST_INVALID
 */
function refuseInexact(text: string, line: number): void {
  for (const [, key = '', number] of text.matchAll(STRING_AND_NUMBER)) {
    if (number === undefined) continue
    if (number.length <= MAX_NUMBER_CHARS && isSame(number, String(Number(number)))) continue
    const what = `the value of "${key}" is a number that would be rounded; write it as a string, in quotes`
    throw invalid(line, what, { key })
  }
}

/** True if two decimals denote the same number. */
function isSame(a: string, b: string): boolean {
  const [one, other] = [a, b].map(decimal => {
    const [, sign, whole = '', fraction = '', exponent = '0'] =
      /^(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-]?[0-9]+))?$/i.exec(decimal) ?? []
    const digits = (whole + fraction).replace(/0+$/, '')
    const point = Number(exponent) + whole.length - digits.length + digits.replace(/^0+/, '').length
    return `${digits === '' ? '' : sign}${digits.replace(/^0+/, '')}e${digits === '' ? 0 : point}`
  })
  return one === other
}

const LONE_SURROGATE = /\p{Cs}/u

function wellFormed(key: string, text: string, line: number): string {
  if (!LONE_SURROGATE.test(text)) return text
  throw invalid(
    line,
    `${JSON.stringify(key)} has half of a surrogate pair, which has no bytes; write bytes as {"base64": "…"}`,
    { key },
  )
}

/** Base64 in the standard or the URL alphabet, padded or not. Checked here because Buffer.from silently skips other characters. */
const BASE64 = /^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$/

function fromBase64(key: string, text: string, line: number): Buffer {
  const digits = text.replace(/=+$/, '').length
  const isWhole = digits % 4 !== 1 && (digits === text.length || text.length % 4 === 0)
  if (isWhole && BASE64.test(text)) return Buffer.from(text, 'base64')
  throw invalid(line, `the value of ${JSON.stringify(key)} is not base64, got ${describe(text)}`, { key })
}

function invalid(line: number, what: string, details: Record<string, unknown> = {}): SpooldError {
  return new SpooldError('REQUEST_INVALID', `line ${line}: ${what}`, { details: { line, ...details } })
}

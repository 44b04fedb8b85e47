import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { IN_BODY } from '../../formats/protocol/named.js'
import { issuesText, type StandardSchema } from './standard-schema.js'

/** The most bytes of arguments. Larger data belongs in a file or a database, and its place in the arguments. */
const MAX_JSON_BYTES = 1_048_576
/** The most bytes of arguments in a packet, whose 65,535 bytes also need room for the other keys. More go into the body. */
const MAX_IN_PACKET_BYTES = 64_000

/** How the arguments are stored: in the packet, or in the body. */
interface StoredArguments {
  readonly args: string
  readonly body?: Buffer
}

/**
 * Returns the arguments as JSON that gives back exactly the values that were put in.
 *
 * @throws SpooldError ARGUMENTS_INVALID with the task and the place in the arguments
 */
export function toStored(task: string, args: readonly unknown[]): StoredArguments {
  for (let i = 0; i < args.length; i++) checkJson(task, args[i], i)
  const json = JSON.stringify(args)
  const bytes = json.length > MAX_IN_PACKET_BYTES / 3 ? Buffer.byteLength(json) : 0 // at most 3 bytes per character
  if (bytes > MAX_JSON_BYTES)
    throw invalid(
      task,
      `the arguments take ${bytes} bytes as JSON; ${MAX_JSON_BYTES} is the limit: store the data, and pass its place`,
      { bytes, limit: MAX_JSON_BYTES },
    )
  return bytes > MAX_IN_PACKET_BYTES
    ? { args: IN_BODY, body: Buffer.from(`{"args":${json}}`) }
    : { args: json }
}

function checkJson(task: string, value: unknown, index: number): void {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return
  if (typeof value === 'number' && Number.isFinite(value)) return
  const fault = faultIn(value, `args[${index}]`, [])
  if (fault !== undefined) throw invalid(task, fault)
}

/** Returns why JSON cannot carry the value, or would change it. @param holders the objects that contain the value */
function faultIn(value: unknown, place: string, holders: readonly object[]): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined
    case 'number':
      return Number.isFinite(value) ? undefined : `${place} is ${value}, which JSON does not have; pass null`
    case 'bigint':
      return `${place} is a BigInt, which JSON does not have; pass String(value)`
    case 'undefined':
      return `${place} is undefined, which JSON does not have; leave it out, or pass null`
    case 'object':
      return value === null ? undefined : faultInObject(value, place, holders)
    default:
      return `${place} is ${describe(value)}; pass what JSON can carry`
  }
}

const MAX_DEPTH = 200

function faultInObject(value: object, place: string, holders: readonly object[]): string | undefined {
  if (holders.includes(value)) return `${place} contains itself`
  if (holders.length >= MAX_DEPTH) return `${place} is more than ${MAX_DEPTH} objects deep`
  const within = [...holders, value]
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const fault = faultIn(value[i], `${place}[${i}]`, within)
      if (fault !== undefined) return fault
    }
    return undefined
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null // the prototype of any realm
  if (!isPlain)
    return value instanceof Date
      ? `${place} is a Date, which would arrive as a string; pass value.toISOString()`
      : `${place} is ${describe(value)}; pass a plain object`
  for (const [key, each] of Object.entries(value)) {
    const fault = faultIn(each, `${place}.${key}`, within)
    if (fault !== undefined) return fault
  }
  return undefined
}

/**
 * Checks that a function takes the given number of arguments.
 *
 * @throws SpooldError ARGUMENTS_INVALID
 */
export function checkCount(task: string, fewest: number, most: number, given: number): void {
  if (given >= fewest && given <= most) return
  const expected =
    fewest === most
      ? `${fewest}`
      : most === Number.POSITIVE_INFINITY
        ? `at least ${fewest}`
        : `${fewest} to ${most}`
  const hint =
    given < fewest
      ? `; a parameter that may be left out needs a default value in the function, such as cc = null, or the task the option required: ${given}`
      : ''
  throw invalid(task, `expected ${expected} argument${expected === '1' ? '' : 's'}, got ${given}${hint}`, {
    expected: [fewest, most],
    given,
  })
}

/**
 * Returns the most arguments that a function takes; Infinity if its source has a default value, a rest parameter or `arguments`,
 * because `length` does not count these.
 */
export function mostArguments(fn: (...args: never[]) => unknown): number {
  const source = Function.prototype.toString.call(fn)
  return hasPlainParameters(source) && !/\barguments\b/.test(source) ? fn.length : Number.POSITIVE_INFINITY
}

/**
 * True if the parameters have no default values, no rest parameter, and nothing that only a parser could read: a text or a
 * regular expression belongs to a default value, or is unclear. False for native and bound functions.
 */
function hasPlainParameters(source: string): boolean {
  if (/\{\s*\[native code\]\s*\}$/.test(source)) return false
  if (/^(?:async\s+)?[\w$]+\s*=>/.test(source)) return true
  let depth = 0
  for (const [token] of source.matchAll(/\/\/.*|\/\*[\s\S]*?\*\/|\.\.\.|[()=/'"`]/g)) {
    if (token.startsWith('//') || token.startsWith('/*')) continue
    if (token === '(') depth++
    else if (token !== ')') return false
    else if (--depth === 0) return true
  }
  return false
}

/**
 * Returns the arguments that the schema makes of the given ones.
 *
 * @throws SpooldError ARGUMENTS_INVALID with the schema's issues
 */
export async function validated(
  task: string,
  schema: StandardSchema,
  args: readonly unknown[],
): Promise<readonly unknown[]> {
  let result: Awaited<ReturnType<(typeof schema)['~standard']['validate']>>
  try {
    result = await schema['~standard'].validate(args)
  } catch (error) {
    throw invalid(task, `its schema threw: ${messageOf(error)}`)
  }
  if (result.issues !== undefined) throw invalid(task, issuesText(result.issues), { issues: result.issues })
  if (Array.isArray(result.value)) return result.value
  throw invalid(task, `its schema made ${describe(result.value)} of the arguments, expected an array`)
}

function invalid(task: string, what: string, details: Record<string, unknown> = {}): SpooldError {
  return new SpooldError('ARGUMENTS_INVALID', `task ${task}: ${what}`, { details: { task, ...details } })
}

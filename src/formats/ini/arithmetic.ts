/** The value of an option or a term; undefined if it is not set. */
export type Lookup = (name: string) => string | undefined

const OPERATIONS: ReadonlyMap<string, (a: bigint, b: bigint) => bigint> = new Map([
  ['+', (a, b) => a + b],
  ['-', (a, b) => a - b],
  ['*', (a, b) => a * b],
  ['/', (a, b) => (b === 0n ? 0n : a / b)],
])

/**
 * uWSGI's arithmetic (core/config.c, uwsgi_manage_placeholder), strictly from left to right: plain terms are concatenated,
 * an operator applies to the next term, `++` and `--` change the current value. `%(three four + 2)` with 3 and 4 is 36.
 *
 * @returns undefined if there are only operators
 */
export function calculate(expression: string, lookUp: Lookup): string | undefined {
  let current: string | undefined
  let operation: ((a: bigint, b: bigint) => bigint) | undefined
  for (const term of expression.split(' ').filter(Boolean)) {
    const next = OPERATIONS.get(term)
    if (next !== undefined) {
      operation = next
      continue
    }
    if (term === '++' || term === '--') {
      if (current !== undefined) current = toText(toInteger(current) + (term === '++' ? 1n : -1n))
    } else {
      const value = /^[0-9]+$/.test(term) ? term : (lookUp(term) ?? '')
      current =
        operation === undefined
          ? (current ?? '') + value
          : toText(operation(toInteger(current ?? ''), toInteger(value)))
    }
    operation = undefined
  }
  return current
}

/** 64 bits that wrap around, as in C on every machine that uWSGI runs on. */
function toText(value: bigint): string {
  return String(BigInt.asIntN(64, value))
}

/** strtoll: the leading digits; 0 if there are none; the nearest limit if there are too many. */
function toInteger(text: string): bigint {
  const [, sign = '', digits = '0'] = /^[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,20})/.exec(text) ?? []
  const value = sign === '-' ? -BigInt(digits) : BigInt(digits)
  return value > MAX ? MAX : value < MIN ? MIN : value
}

const MAX = 2n ** 63n - 1n
const MIN = -(2n ** 63n)

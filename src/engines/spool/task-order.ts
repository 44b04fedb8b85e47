import { prefixOf, type Ref } from '../../base/task/ref.js'

/**
 * The order in which due tasks run:
 *
 *   arrival  in the order in which they became runnable
 *   name     uWSGI's spooler-ordered: by priority and name, comparing numbers as numbers
 *   age      by priority, and within each in the order in which they became runnable
 */
export type TaskOrder = 'arrival' | 'name' | 'age'

/** Negative if `a` runs first. Both times, when `a` and `b` became runnable, are in the same unit; `name` ignores them. */
export type CompareTasks = (a: Ref, aAt: number, b: Ref, bAt: number) => number

/** Ties are broken by name: in the names of one process, a counter follows the pid. */
const byArrival: CompareTasks = (a, aAt, b, bAt) => aAt - bAt || compareVersions(a, b)

export const COMPARE_TASKS: Readonly<Record<TaskOrder, CompareTasks>> = {
  arrival: byArrival,
  name: (a, _aAt, b) => compareVersions(a, b),
  age: (a, aAt, b, bAt) => comparePriorities(prefixOf(a), prefixOf(b)) || byArrival(a, aAt, b, bAt),
}

/** Orders directories among their siblings as uWSGI does; the files of a directory run after its priorities. */
export function comparePriorities(a: string, b: string): number {
  return a === b ? 0 : compareVersions(`${a}${LAST}`, `${b}${LAST}`)
}

/** Sorts after every digit and letter. */
const LAST = '\xff'

const ZERO = 48
const NINE = 57
const SLASH = 47

/**
 * The order in which an ordered spool runs: glibc's strverscmp on each path segment, with unsigned bytes. Numbers inside
 * names compare as numbers (9 before 10), numbers with leading zeros as fractions (001 before 01 before 1).
 *
 * @param a a byte string: one character per byte
 * @returns a negative number if `a` runs first
 */
export function compareVersions(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length)
  let at = 0
  while (at < shorter && a.charCodeAt(at) === b.charCodeAt(at)) at++
  if (at === a.length && at === b.length) return 0
  return compareAt(a, b, at)
}

function compareAt(a: string, b: string, at: number): number {
  const byteA = byteAt(a, at)
  const byteB = byteAt(b, at)
  const runStart = startOfDigits(a, at)
  const isInteger = isNonZeroDigit(byteAt(a, runStart)) && isNonZeroDigit(byteAt(b, runStart))
  if (isInteger) {
    const difference = countDigits(a, at) - countDigits(b, at)
    return difference === 0 ? byteA - byteB : difference
  }
  const isFraction = runStart < at && (isDigit(byteA) || isDigit(byteB)) && isAllZeros(a, runStart, at)
  if (isFraction) return ((byteA - ZERO) & 0xff) - ((byteB - ZERO) & 0xff)
  return byteA - byteB
}

/** The end of a name and of a segment both compare as NUL, as in C. */
function byteAt(name: string, at: number): number {
  const byte = at < name.length ? name.charCodeAt(at) : 0
  return byte === SLASH ? 0 : byte
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE
}

function isNonZeroDigit(byte: number): boolean {
  return byte > ZERO && byte <= NINE
}

function startOfDigits(name: string, at: number): number {
  while (at > 0 && isDigit(name.charCodeAt(at - 1))) at--
  return at
}

function countDigits(name: string, at: number): number {
  let end = at
  while (end < name.length && isDigit(name.charCodeAt(end))) end++
  return end - at
}

function isAllZeros(name: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (name.charCodeAt(at) !== ZERO) return false
  return true
}

import { hostname } from 'node:os'
import { baseName, type Ref, toByteString } from '../../base/task/ref.js'

/** The prefix of every file that uWSGI writes; it runs no other files (core/spooler.c, spooler_manage_task). */
export const UWSGI_PREFIX = 'uwsgi_spoolfile_on_'
/** The first text that sorts after all texts with the prefix: the prefix with the character that follows `_`. */
const AFTER_PREFIX = 'uwsgi_spoolfile_on`'
/** Our own directory inside a spool; the dot hides it from uWSGI and from globs. */
export const STATE_DIRECTORY = '.spoold'

export interface NameRules {
  /** spooler-ordered: uWSGI's rule accepts all-digit names too, and priority directories are entered. */
  readonly ordered: boolean
  /** spooler-strict-names: accept exactly the names that uWSGI accepts. */
  readonly strictNames: boolean
}

/** The rules by which the most names are tasks, for what people look at, whatever the rules of the spool's daemon. */
export const ALL_NAMES: NameRules = { ordered: true, strictNames: false }

const DIGITS = /^[0-9]+$/
const UNFINISHED = /(?:\.tmp|\.part|\.lock|~)$/

/** True if a regular file with this name may be a task. Names are byte strings (task/ref). */
export function isTaskName(name: string, rules: NameRules): boolean {
  if (isUwsgiName(name, rules)) return true
  return !rules.strictNames && !name.startsWith('.') && !UNFINISHED.test(name)
}

/**
 * True if a name begins with uWSGI's prefix. Strings are compared as a whole, for each name of a scan: `startsWith` looks at
 * one character after the other, and takes five times as long.
 */
export function hasUwsgiPrefix(name: string): boolean {
  return name >= UWSGI_PREFIX && name < AFTER_PREFIX
}

/** True if uWSGI itself would run a file with this name. No other program uses such names, so the file is meant as a task. */
export function isUwsgiName(name: string, rules: NameRules): boolean {
  return hasUwsgiPrefix(name) || (rules.ordered && DIGITS.test(name))
}

/** True if a directory with this name is a priority. uWSGI enters all-digit names, and also directories with its prefix. */
export function isPriorityDirectory(name: string): boolean {
  return DIGITS.test(name) || hasUwsgiPrefix(name)
}

const MAX_NAME_BYTES = 255
/** A byte string, without the byte that ends a path. */
const BYTES = /^[^\0\u0100-\uffff]+$/

/** True if a task may have this path below its spool, whatever the rules of its daemon. Such a path leads out of no spool. */
export function isTaskRef(text: string): boolean {
  const [name = '', ...priorities] = text.split('/').reverse()
  const isName = name !== '' && name.length <= MAX_NAME_BYTES && isTaskName(name, ALL_NAMES)
  return isName && BYTES.test(text) && priorities.every(isPriorityDirectory)
}

const host = toByteString(hostname())
let counter = 0

/**
 * Makes a task name in the form of uwsgi_spool_request: host, pid, a counter from 1, a random 31-bit integer, seconds and
 * microseconds (not padded). The names of one process sort in order of creation.
 *
 * @param mark in place of the random integer
 */
export function createTaskName(
  nowMicros = Math.round((performance.timeOrigin + performance.now()) * 1000),
  mark = String(Math.floor(Math.random() * 2 ** 31)),
): string {
  counter += 1
  const seconds = Math.floor(nowMicros / 1e6)
  return `${UWSGI_PREFIX}${host}_${process.pid}_${counter}_${mark}_${seconds}_${nowMicros % 1e6}`
}

const UNDERSCORE = 95
const ZERO = 48
/** Ten digits of seconds cover the years 2001 to 2286. */
const SECONDS_DIGITS = 10
const MICROS_DIGITS = 6

/**
 * Returns when a name of uWSGI's form was made, on its maker's clock: the last two numbers, seconds and microseconds (not
 * padded). Undefined for other names. Called for each name in a scan, so it allocates no strings.
 *
 * @returns epoch µs
 */
export function createdAtMicros(ref: Ref): number | undefined {
  const least = ref.length - 1 - MICROS_DIGITS
  let cut = ref.length - 2
  while (cut > least && ref.charCodeAt(cut) !== UNDERSCORE) cut--
  const secondsAt = cut - SECONDS_DIGITS
  if (ref.charCodeAt(cut) !== UNDERSCORE || ref.charCodeAt(secondsAt - 1) !== UNDERSCORE) return undefined
  const micros = numberIn(ref, secondsAt, cut) * 1e6 + numberIn(ref, cut + 1, ref.length)
  const isUwsgis = hasUwsgiPrefix(ref.includes('/') ? baseName(ref) : ref)
  return Number.isNaN(micros) || !isUwsgis ? undefined : micros
}

/** Returns NaN if there is anything but digits. */
function numberIn(text: string, from: number, to: number): number {
  let value = 0
  for (let at = from; at < to; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

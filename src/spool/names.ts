import { hostname } from 'node:os'
import { baseName, type Ref, toByteString } from '../task/ref.js'

/** Every file uWSGI writes begins so, and uWSGI reads no other (core/spooler.c, spooler_manage_task). */
export const UWSGI_PREFIX = 'uwsgi_spoolfile_on_'
/** Our own directory inside a spool; the dot keeps it from uWSGI and from globs. */
export const STATE_DIRECTORY = '.spoold'

export interface NameRules {
  /** spooler-ordered: all-digit names are tasks under uWSGI's rule too, and priority directories are entered. */
  readonly ordered: boolean
  /** spooler-strict-names: exactly uWSGI's rule. */
  readonly strictNames: boolean
}

const DIGITS = /^[0-9]+$/
const UNFINISHED = /(?:\.tmp|\.part|\.lock|~)$/

/** May a regular file of this name be a task? Names are byte strings (task/ref). */
export function isTaskName(name: string, rules: NameRules): boolean {
  if (isUwsgiName(name, rules)) return true
  return !rules.strictNames && !name.startsWith('.') && !UNFINISHED.test(name)
}

/** The names that uWSGI itself would run: nobody else owns them, so what they hold is meant as a task. */
export function isUwsgiName(name: string, rules: NameRules): boolean {
  return name.startsWith(UWSGI_PREFIX) || (rules.ordered && DIGITS.test(name))
}

/** Is a directory of this name a priority? uWSGI enters numbers, and also directories with its prefix. */
export function isPriorityDirectory(name: string): boolean {
  return DIGITS.test(name) || name.startsWith(UWSGI_PREFIX)
}

const host = toByteString(hostname())
let counter = 0

/**
 * A new task's name, as uwsgi_spool_request makes it: host, pid, a counter that starts at 1, a random int of 31 bits,
 * seconds and microseconds (not padded). The order of one process's names is their order of creation.
 */
export function createTaskName(
  nowMicros = Math.round((performance.timeOrigin + performance.now()) * 1000),
): string {
  counter += 1
  const seconds = Math.floor(nowMicros / 1e6)
  return `${UWSGI_PREFIX}${host}_${process.pid}_${counter}_${Math.floor(Math.random() * 2 ** 31)}_${seconds}_${nowMicros % 1e6}`
}

const UNDERSCORE = 95
const ZERO = 48
/** Ten digits of seconds are the years 2001 to 2286. */
const SECONDS_DIGITS = 10
const MICROS_DIGITS = 6

/**
 * When a name of uWSGI's kind was made, by the clock of whoever made it: its last two numbers, the seconds and the
 * microseconds (not padded). Undefined for other names. Called for each name of a scan, so it makes no string.
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
  return Number.isNaN(micros) || !baseName(ref).startsWith(UWSGI_PREFIX) ? undefined : micros
}

/** NaN when there is anything but digits. */
function numberIn(text: string, from: number, to: number): number {
  let value = 0
  for (let at = from; at < to; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

import { hostname } from 'node:os'
import { toByteString } from '../task/ref.js'

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

/** pid, counter, random number, seconds, microseconds. Ten digits of seconds are the years 2001 to 2286. */
const CREATED = /_[0-9]+_[0-9]+_[0-9]+_([0-9]{10})_([0-9]{1,6})$/

/** When a name of uWSGI's kind was made, by the clock of whoever made it; epoch ms. Undefined for other names. */
export function enqueuedAtMs(name: string): number | undefined {
  if (!name.startsWith(UWSGI_PREFIX)) return undefined
  const [, seconds, micros] = CREATED.exec(name) ?? []
  return seconds === undefined ? undefined : Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}

/** Numbers, times and names as people read them. */

import { UWSGI_PREFIX } from '../../../engines/spool/names.js'

const NUMBER = new Intl.NumberFormat('en')

export function countText(count: number): string {
  return NUMBER.format(count)
}

/** `3 tasks`, `1 task`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`
}

/** `240 ms`, `3.2 s`, `5 min`, `2 h`, `4 d`: one unit is enough. */
export function spanText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 10_000) return `${Math.round(ms / 100) / 10} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}

export function microsText(micros: number): string {
  return micros > 0 && micros < 1000 ? `${Math.round(micros)} µs` : spanText(micros / 1000)
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function bytesText(bytes: number): string {
  let [amount, unit] = [bytes, 0]
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024
    unit++
  }
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : Math.round(amount * 10) / 10} ${UNITS[unit]}`
}

/** Returns a rate per second, or per hour if it is small. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return '0/s'
  return perSecond < 0.1
    ? `${Math.round(perSecond * 3600)}/h`
    : `${NUMBER.format(Math.round(perSecond * 10) / 10)}/s`
}

export function percentText(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}

const LAST_DATE_MS = 8.64e15

/** Returns a time in ISO format. It is clamped to the range of a Date, because files of strangers have any time. */
export function isoText(ms: number): string {
  return new Date(Math.max(-LAST_DATE_MS, Math.min(ms, LAST_DATE_MS))).toISOString()
}

/** `12 min ago`, `in 3 h`. */
export function fromNowText(ms: number, nowMs: number): string {
  const distance = ms - nowMs
  if (Math.abs(distance) < 1000) return 'now'
  return distance < 0 ? `${spanText(-distance)} ago` : `in ${spanText(distance)}`
}

/** Returns a name without the prefix of uWSGI's names for tasks. */
export function shortName(name: string): string {
  return name.startsWith(UWSGI_PREFIX) ? name.slice(UWSGI_PREFIX.length) : name
}

import { onDemand } from '../on-demand.js'

const strftime = onDemand<typeof import('strftime')>('strftime')

/** The format of ctime(3), and of `%c` in the C locale: `Sat Nov 21 07:06:00 2026`. */
const CTIME = '%a %b %e %H:%M:%S %Y'
/** Values that uWSGI takes as "yes", not as a format (core/uwsgi.c, uwsgi_opt_log_date). */
const PLAIN_YES = /^(|true|1|on|yes)$/i

/** spoold's own format: `2026-11-21T07:06:00.123+01:00`. */
const ISO = /^iso$/i

/**
 * The date at the start of a log line: with milliseconds for `iso`, otherwise in uWSGI's format or a strftime format in the
 * C locale, formatted once per second.
 */
export function createStamp(format: string | null): () => string {
  if (isPrecise(format)) return () => isoTime(new Date())
  const wanted = format === null || PLAIN_YES.test(format) ? CTIME : format
  let second = Number.NaN
  let text = ''
  return () => {
    const nowMs = Date.now()
    if (Math.floor(nowMs / 1000) !== second) {
      second = Math.floor(nowMs / 1000)
      text = formatTime(wanted, new Date(second * 1000))
    }
    return text
  }
}

/** Whether the format has milliseconds. */
export function isPrecise(format: string | null): boolean {
  return format !== null && ISO.test(format)
}

/** In the local time zone, with its offset. */
function isoTime(date: Date): string {
  const offset = -date.getTimezoneOffset()
  const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1)
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60]
  const pad = (n: number) => String(n).padStart(2, '0')
  return `${local}${offset < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}`
}

/** strftime(3) in the C locale; the library's `%c`, `%X` and `%Z` differ. */
function formatTime(format: string, date: Date): string {
  const local = format.replace(/%[%cXZ]/g, directive => {
    switch (directive) {
      case '%c':
        return CTIME
      case '%X':
        return '%H:%M:%S'
      case '%Z':
        return zoneName(date)
      default:
        return directive
    }
  })
  return strftime()(local, date)
}

/** `CET`, `EST`: each locale knows the abbreviations of its own part of the world. */
function zoneName(date: Date): string {
  const names = ['en-US', 'en-GB', 'en-AU', 'en-IN'].map(locale => {
    const parts = new Intl.DateTimeFormat(locale, { timeZoneName: 'short' }).formatToParts(date)
    return parts.find(({ type }) => type === 'timeZoneName')?.value ?? ''
  })
  return names.find(name => !name.includes('GMT')) ?? names[0] ?? ''
}

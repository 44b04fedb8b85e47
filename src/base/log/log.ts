import { counted } from '../counted.js'
import { messageOf } from '../errors.js'
import { onDemand } from '../on-demand.js'
import { printableJson, printableLine, printableLines } from '../printable.js'
import { isJournal, type LogFiles, LogOutput, type Severity, withSeverity } from './output.js'

const pino = onDemand<typeof import('pino')>('pino')

/** The levels of lines, the least important first. */
export const LEVELS = ['info', 'warn', 'error'] as const
export type Level = (typeof LEVELS)[number]

export interface LogOptions {
  /** The file to append to; null means standard error. */
  readonly file: string | null
  /** The functions that open the file. */
  readonly files: LogFiles
  readonly format: 'text' | 'json'
  /** Start lines with the date: a strftime format, `iso`, or a value that means yes in uWSGI; null means no date. */
  readonly date: string | null
}

/** The part of a log that takes lines. It never throws. */
export interface LineLog {
  /** True if fields are written. */
  readonly isStructured: boolean
  /** True if times, and so durations, have milliseconds. */
  readonly isPrecise: boolean
  line(level: Level, text: string, fields?: object, form?: LineForm): void
}

/**
 * How a text log writes a line. `dated`: always with the date, as uWSGI does (uwsgi_log_verbose). `plain`: unchanged, without a
 * date, because other code has printed the line. Otherwise the options say whether the line has a date.
 */
export type LineForm = 'dated' | 'plain'

/** The daemon's log. Writing never blocks: on a full disk lines are dropped, and tasks continue. */
export interface Log extends LineLog {
  /** The descriptor that children share; it changes with `reopen`. */
  readonly fd: number
  /** Reopens the file after logrotate has moved it. On failure, the log keeps the old file and reports the failure there. */
  reopen(): void
  /** Writes the rest, before the process exits. A write that is blocked is left behind. */
  end(): Promise<void>
}

/** Opens the log of a daemon. @throws SpooldError LOG_UNWRITABLE */
export function openLog({ file, files, format, date }: LogOptions): Log {
  const output = new LogOutput(file, files, lines =>
    line(
      'warn',
      `${counted(lines, 'line')} of this log ${lines === 1 ? 'was' : 'were'} lost: there was no room`,
      { lines },
    ),
  )
  const mark = file === null && isJournal(output.fd) ? markLines : asIs
  const line = format === 'json' ? jsonWriter(output, mark) : textWriter(output, date, mark)
  return {
    get fd() {
      return output.fd
    },
    isStructured: format === 'json',
    isPrecise: isPrecise(date),
    line,
    reopen() {
      try {
        output.reopen()
      } catch (error) {
        line('error', `the log goes on in the old file: ${messageOf(error)}`)
      }
    },
    end: () => output.end(),
  }
}

/** Puts the severity before each line, if the reader wants that. */
type Mark = (level: Level, lines: string) => string

const asIs: Mark = (_, lines) => lines
const SEVERITIES: Readonly<Record<Level, Severity>> = { error: 3, warn: 4, info: 6 }
const markLines: Mark = (level, lines) => withSeverity(SEVERITIES[level], lines)

/** The one place where text is made safe: no value, stack or error can start a line of its own. */
function textWriter(output: LogOutput, date: string | null, mark: Mark): LineLog['line'] {
  const stamp = createStamp(date)
  return (level, text, _fields, form) => {
    const safe = form === 'plain' ? printableLine(text) : printableLines(text)
    const isDated = form === 'dated' || (form === undefined && date !== null)
    output.write(mark(level, isDated ? `${stamp()} - ${safe}\n` : `${safe}\n`))
  }
}

function jsonWriter(output: LogOutput, mark: Mark): LineLog['line'] {
  let current: Level = 'info'
  const stream = {
    write: (line: string) => output.write(mark(current, printableJson(line))),
  }
  const options = { base: { pid: process.pid }, formatters: { level: (label: string) => ({ level: label }) } }
  const logger = pino().pino(options, stream)
  return (level, text, fields) => {
    current = level // pino writes at once
    logger[level](fields ?? {}, text)
  }
}

const strftime = onDemand<typeof import('strftime')>('strftime')

/** The format of ctime(3), and of `%c` in the C locale: `Sat Nov 21 07:06:00 2026`. */
const CTIME = '%a %b %e %H:%M:%S %Y'
/** Values that uWSGI takes as "yes", not as a format (core/uwsgi.c, uwsgi_opt_log_date). */
const PLAIN_YES = /^(|true|1|on|yes)$/i

/** spoold's own format: `2026-11-21T07:06:00.123+01:00`. */
const ISO = /^iso$/i

/**
 * Returns a function that tells the date for the start of a log line: with milliseconds for `iso`, otherwise in uWSGI's format
 * or a strftime format in the C locale, formatted once per second.
 */
function createStamp(format: string | null): () => string {
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

/** True if the format has milliseconds. */
function isPrecise(format: string | null): boolean {
  return format !== null && ISO.test(format)
}

/** Returns a time in the local time zone, with its offset. */
function isoTime(date: Date): string {
  const offset = -date.getTimezoneOffset()
  const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1)
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60]
  const pad = (n: number) => String(n).padStart(2, '0')
  return `${local}${offset < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}`
}

/** Formats a time as strftime(3) does in the C locale. The library's own `%c`, `%X` and `%Z` differ. */
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

/** Returns `CET`, `EST` and so on. Four locales are asked, because each knows the abbreviations of its own part of the world. */
function zoneName(date: Date): string {
  const names = ['en-US', 'en-GB', 'en-AU', 'en-IN'].map(locale => {
    const parts = new Intl.DateTimeFormat(locale, { timeZoneName: 'short' }).formatToParts(date)
    return parts.find(({ type }) => type === 'timeZoneName')?.value ?? ''
  })
  return names.find(name => !name.includes('GMT')) ?? names[0] ?? ''
}

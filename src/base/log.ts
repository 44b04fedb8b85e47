import { once } from 'node:events'
import { openSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { type DestinationStream, destination, pino } from 'pino'
import strftime from 'strftime'
import { messageOf, SpooldError } from './errors.js'

export type Level = 'info' | 'warn' | 'error'

export interface LogOptions {
  /** Appended to; null: standard error. */
  readonly file: string | null
  readonly format: 'text' | 'json'
  /** Begin lines with the date: a strftime format, '' for uWSGI's own; null: no date. */
  readonly date: string | null
}

/** The daemon's log. Writing never blocks and never throws: what a full disk does not take is dropped, tasks go on. */
export interface Log {
  /** The descriptor that children write to as well. */
  readonly fd: number
  line(level: Level, text: string, fields?: object): void
  /** A line that uWSGI always dates (uwsgi_log_verbose). */
  dated(level: Level, text: string, fields?: object): void
  /** Opens the file anew: logrotate has moved it away. */
  reopen(): void
  /** Writes what is left, for the end of the process; gives up on a disk that takes none of it. */
  end(): Promise<void>
}

/** What waits for a slow disk or reader; more is dropped. */
const MAX_BACKLOG_BYTES = 8 * 1024 * 1024
const STDERR = 2
const MAX_END_MS = 1000

/** @throws SpooldError LOG_UNWRITABLE */
export function openLog({ file, format, date }: LogOptions): Log {
  let isEnding = false
  const out = destination({
    dest: file === null ? STDERR : openFile(file),
    sync: false,
    maxLength: MAX_BACKLOG_BYTES,
    mode: 0o640,
    retryEAGAIN: () => !isEnding,
  })
  out.on('error', () => {}) // ENOSPC, EPIPE, …: it tries again with the next line

  const write = format === 'json' ? jsonWriter(out) : textWriter(out, date)
  return {
    get fd() {
      return 'fd' in out && typeof out.fd === 'number' ? out.fd : STDERR
    },
    line: (level, text, fields) => write(level, text, fields, false),
    dated: (level, text, fields) => write(level, text, fields, true),
    reopen: () => {
      if (file !== null) out.reopen(file)
    },
    async end() {
      isEnding = true
      out.end() // its synchronous flush would overtake what is being written
      await Promise.race([once(out, 'close').catch(() => {}), setTimeout(MAX_END_MS)])
    },
  }
}

type Write = (level: Level, text: string, fields: object | undefined, isDated: boolean) => void

function textWriter(out: DestinationStream, date: string | null): Write {
  const stamp = createStamp(date === null || date === '' ? CTIME : date)
  return (_level, text, _fields, isDated) =>
    out.write(isDated || date !== null ? `${stamp()} - ${text}\n` : `${text}\n`)
}

function jsonWriter(out: DestinationStream): Write {
  const logger = pino({ base: { pid: process.pid }, formatters: { level: label => ({ level: label }) } }, out)
  return (level, text, fields) => logger[level](fields ?? {}, text)
}

/** As ctime(3): `Sat Nov 21 07:06:00 2026`. */
const CTIME = '%a %b %e %H:%M:%S %Y'

/** Formats the time once a second. */
function createStamp(format: string): () => string {
  let second = 0
  let text = ''
  return () => {
    const now = Date.now()
    if (Math.floor(now / 1000) !== second) {
      second = Math.floor(now / 1000)
      text = strftime(format, new Date(now))
    }
    return text
  }
}

function openFile(file: string): number {
  try {
    return openSync(file, 'a', 0o640)
  } catch (error) {
    throw new SpooldError('LOG_UNWRITABLE', `the log file ${file} cannot be opened: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

import { pino } from 'pino'
import { messageOf } from './errors.js'
import { LogOutput } from './log-output.js'
import { createStamp } from './log-stamp.js'

export type Level = 'info' | 'warn' | 'error'

export interface LogOptions {
  /** Appended to; null: standard error. */
  readonly file: string | null
  readonly format: 'text' | 'json'
  /** Begin lines with the date: a strftime format, or what uWSGI takes for a plain yes; null: no date. */
  readonly date: string | null
}

/** The daemon's log. Writing never blocks and never throws: what a full disk does not take is dropped, tasks go on. */
export interface Log {
  /** The descriptor that children write to as well; another one after `reopen`. */
  readonly fd: number
  line(level: Level, text: string, fields?: object): void
  /** A line that uWSGI always dates (uwsgi_log_verbose). */
  dated(level: Level, text: string, fields?: object): void
  /** Opens the file anew when logrotate has moved it away; when that fails, it says so where it is. */
  reopen(): void
  /** Writes what is left, for the end of the process. */
  end(): Promise<void>
}

/** @throws SpooldError LOG_UNWRITABLE */
export function openLog({ file, format, date }: LogOptions): Log {
  const output = new LogOutput(file, {
    lost: lines => write('warn', `${lines} lines of this log were lost: there was no room`, { lines }, false),
  })
  const write = format === 'json' ? jsonWriter(output) : textWriter(output, date)
  return {
    get fd() {
      return output.fd
    },
    line: (level, text, fields) => write(level, text, fields, false),
    dated: (level, text, fields) => write(level, text, fields, true),
    reopen() {
      try {
        output.reopen()
      } catch (error) {
        write('error', `the log goes on in the old file: ${messageOf(error)}`, undefined, false)
      }
    },
    end: () => output.end(),
  }
}

type Write = (level: Level, text: string, fields: object | undefined, isDated: boolean) => void

function textWriter(output: LogOutput, date: string | null): Write {
  const stamp = createStamp(date)
  return (_level, text, _fields, isDated) =>
    output.write(isDated || date !== null ? `${stamp()} - ${text}\n` : `${text}\n`)
}

function jsonWriter(output: LogOutput): Write {
  const stream = { write: (line: string) => output.write(line) }
  const options = { base: { pid: process.pid }, formatters: { level: (label: string) => ({ level: label }) } }
  const logger = pino(options, stream)
  return (level, text, fields) => logger[level](fields ?? {}, text)
}

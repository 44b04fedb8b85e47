import { printableLines } from '../base/printable.js'
import type { Level, Log } from '../log/log.js'
import { STDERR } from '../log/output.js'
import type { Logger } from './options.js'

/** A log that writes to the program's own logger. A logger that throws harms nothing. */
export function logTo(logger: Logger): Log {
  const line = (level: Level, text: string) => {
    try {
      logger[level](printableLines(text))
    } catch {}
  }
  return {
    fd: STDERR,
    isStructured: false,
    isPrecise: true,
    line,
    dated: line,
    plain: text => line('info', text),
    reopen() {},
    async end() {},
  }
}

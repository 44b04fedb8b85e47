import type { LineLog } from '../../base/log/log.js'
import { printableLines } from '../../base/printable.js'
import { Hide } from '../../formats/protocol/hide.js'
import type { SpooldOptions } from './options.js'

/** Returns a log that writes to the program's own logger, if there is one. An error that the logger throws is ignored. */
export function logTo({ logger, hide = [] }: Pick<SpooldOptions, 'logger' | 'hide'>): LineLog {
  const hidden = new Hide(hide)
  return {
    isStructured: false,
    isPrecise: true,
    line(level, text) {
      try {
        logger?.[level](printableLines(hidden.text(text)))
      } catch {}
    },
  }
}

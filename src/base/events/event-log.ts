import type { Log } from '../log/log.js'
import type { Emitter } from './emitter.js'
import type { Listeners, LoggedEvent } from './event-map.js'

/**
 * Subscribes the listeners that write log lines. In a structured log each line has the name of its event, unless the line
 * names a more specific one, and the error of that event as a field.
 *
 * @param linesOf creates the listeners for the log that they write to
 */
export function subscribeLines(events: Emitter, log: Log, linesOf: (log: Log) => Listeners): void {
  let context: { readonly event?: LoggedEvent; readonly error?: string } = {}
  const tagged: Log = {
    get fd() {
      return log.fd
    },
    isStructured: log.isStructured,
    isPrecise: log.isPrecise,
    line: (level, text, fields) => log.line(level, text, { ...context, ...fields }),
    dated: (level, text, fields) => log.dated(level, text, { ...context, ...fields }),
    plain: (text, fields) => log.plain(text, { ...context, ...fields }),
    reopen: () => log.reopen(),
    end: () => log.end(),
  }
  const listeners = linesOf(log.isStructured ? tagged : log)
  const subscribe = <Name extends LoggedEvent>(name: Name): void => {
    const tell = listeners[name]
    events.on(name, payload => {
      if (log.isStructured) context = { event: name, ...('error' in payload ? { error: payload.error } : {}) }
      tell(payload)
    })
  }
  for (const name of Object.keys(listeners) as LoggedEvent[]) subscribe(name)
}

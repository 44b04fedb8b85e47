import type { LineLog } from '../log/log.js'
import type { Emitter } from './emitter.js'
import type { LoggedEvent } from './event-map.js'
import { logLines } from './log-lines.js'

/**
 * Subscribes a log to all events: the only place where events become text. In a structured log each line has the name of its
 * event, unless the line names a more specific one, and the error of that event as a field.
 *
 * @param isQuiet spooler-quiet: true if the spool at this path, or around this file, leaves no lines about tasks that succeed. A
 *   reload may change the result
 */
export function subscribeLog(events: Emitter, log: LineLog, isQuiet: (path: string) => boolean): void {
  let context: { readonly event?: LoggedEvent; readonly error?: string } = {}
  const tagged: LineLog = {
    isStructured: log.isStructured,
    isPrecise: log.isPrecise,
    line: (level, text, fields, form) => log.line(level, text, { ...context, ...fields }, form),
  }
  const listeners = logLines(log.isStructured ? tagged : log, isQuiet)
  const subscribe = <Name extends LoggedEvent>(name: Name): void => {
    const tell = listeners[name]
    events.on(name, payload => {
      if (log.isStructured) context = { event: name, ...('error' in payload ? { error: payload.error } : {}) }
      tell(payload)
    })
  }
  for (const name of Object.keys(listeners) as LoggedEvent[]) subscribe(name)
}

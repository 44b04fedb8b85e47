import { messageOf } from '../base/errors.js'
import type { Problems, Where } from '../ini/setting.js'
import {
  parseCommand,
  parseCommand2,
  parseMonitor,
  parseSignalCron,
  parseTimer,
} from '../schedule/ini-schedules.js'
import type { Options } from './option-table.js'

export function checkSchedules(
  options: Options,
  where: (name: string, i?: number) => Where,
  problems: Problems,
): void {
  const parsers: ReadonlyArray<readonly [string, readonly string[], (text: string) => unknown]> = [
    ['timer', options.timer, parseTimer],
    ['rbtimer', options.rbtimer, parseTimer],
    ['signal-cron', options.signalCron, parseSignalCron],
    ['fs-signal', options.fsSignal, text => parseMonitor('monitor', text)],
    ['touch-signal', options.touchSignal, text => parseMonitor('touch', text)],
    ['cron', options.cron, text => parseCommand(text, false, 0)],
    ['unique-cron', options.uniqueCron, text => parseCommand(text, true, 0)],
    ['cron2', options.cron2, text => parseCommand2(text, 0)],
  ]
  for (const [name, values, parse] of parsers)
    for (const [i, text] of values.entries())
      try {
        parse(text)
      } catch (error) {
        problems.error(where(name, i), `${name}: ${messageOf(error)}`)
      }
}

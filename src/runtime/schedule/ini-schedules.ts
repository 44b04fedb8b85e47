import { resolve } from 'node:path'
import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { parseKeyvals } from '../../base/keyval.js'
import {
  type CronCommand,
  type CronTimes,
  type FileMonitor,
  MAX_SIGNAL,
  type Schedule,
  type Timer,
} from '../../base/task/schedule.js'
import { openCron } from './cron.js'

/**
 * Parsers for the values of uWSGI's schedule options. They match uWSGI (core/master.c, core/cron.c, core/fsmon.c), except that
 * text that uWSGI would read as 0 is refused.
 *
 * @throws SpooldError SCHEDULE_INVALID from each function
 */

/** `timer`, `rbtimer`: `<signal> <seconds>` */
export function parseTimer(text: string): Timer {
  const [, number, seconds] = /^(\d+)\s+(\d+(?:\.\d+)?)$/.exec(text.trim()) ?? []
  if (number === undefined || !(Number(seconds) > 0))
    throw invalid('a signal and a number of seconds, such as 17 60', text)
  return { kind: 'timer', number: signalOf(number, text), everyMs: Number(seconds) * 1000, iterations: 0 }
}

/** `fs-signal`, `touch-signal`: `<file> <signal>` */
export function parseMonitor(kind: FileMonitor['kind'], text: string): FileMonitor {
  const [, path, number] = /^(.+?)\s+(\d+)$/s.exec(text.trim()) ?? []
  if (path === undefined || number === undefined)
    throw invalid('a file and a signal, such as /etc/app 17', text)
  return { kind, number: signalOf(number, text), path }
}

/** `signal-cron`: `<signal> [TZ=zone] <expression>` */
export function parseSignalCron(text: string): CronTimes {
  const [, number, when = ''] = /^(\d+)\s+(.+)$/.exec(text.trim()) ?? []
  if (number === undefined) throw invalid('a signal and a cron expression, such as 17 0 3 * * *', text)
  const { zone, rest } = splitZone(when)
  openCron(rest, zone)
  return { kind: 'cron', number: signalOf(number, text), expression: rest, zone }
}

/** `cron`: `[TZ=zone] <minute> <hour> <day> <month> <weekday> <command>` */
export function parseCommand(text: string, isUnique: boolean, harakiriMs: number): CronCommand {
  const { zone, rest } = splitZone(text.trim())
  const [, expression, command] = /^((?:\S+\s+){4}\S+)\s+(.+)$/s.exec(rest) ?? []
  if (expression === undefined || command === undefined)
    throw invalid('five fields and a command, such as 0 3 -1 -1 -1 /usr/bin/backup', text)
  openCron(expression, zone)
  return { kind: 'command', command, expression, zone, isUnique, harakiriMs }
}

const CRON2_KEYS = ['minute', 'hour', 'day', 'month', 'week', 'unique', 'harakiri', 'zone', 'legion']

/** `cron2`: `key=value,… <command>`; `zone` is ours. Omitted keys match any time. */
export function parseCommand2(text: string, harakiriMs: number): CronCommand {
  const [first = '', ...rest] = text.trim().split(' ')
  const hasKeys = first.includes('=')
  const command = hasKeys ? rest.join(' ').trim() : text.trim()
  if (command === '') throw invalid('keys and a command, such as hour=3,minute=0 /usr/bin/backup', text)
  const values = cron2Values(hasKeys ? first : '', text)
  if (values.has('legion')) throw invalid('no legion: spoold has none', text)
  const expression = ['minute', 'hour', 'day', 'month', 'week'].map(key => values.get(key) ?? '-1').join(' ')
  const zone = values.get('zone') ?? null
  openCron(expression, zone)
  const harakiri = values.get('harakiri')
  return {
    kind: 'command',
    command,
    expression,
    zone,
    isUnique: Number(values.get('unique') ?? 0) !== 0,
    harakiriMs: harakiri === undefined ? harakiriMs : secondsOf(harakiri, text) * 1000,
  }
}

function cron2Values(list: string, text: string): Map<string, string> {
  return new Map(
    parseKeyvals(list).map(({ key, value }) => {
      if (!CRON2_KEYS.includes(key)) throw invalid(`keys out of ${CRON2_KEYS.slice(0, -1).join(', ')}`, text)
      if (value === undefined) throw invalid(`a value for the key ${key}`, text)
      return [key, value]
    }),
  )
}

function secondsOf(value: string, text: string): number {
  if (!/^\d+$/.test(value)) throw invalid('a number of seconds for harakiri', text)
  return Number(value)
}

function splitZone(text: string): { readonly zone: string | null; readonly rest: string } {
  const [, zone, rest] = /^(?:CRON_)?TZ=(\S+)\s+(.+)$/s.exec(text) ?? []
  return zone === undefined || rest === undefined ? { zone: null, rest: text } : { zone, rest }
}

function signalOf(digits: string, text: string): number {
  if (Number(digits) > MAX_SIGNAL) throw invalid(`a signal from 0 to ${MAX_SIGNAL}`, text)
  return Number(digits)
}

function invalid(expected: string, got: string): SpooldError {
  return new SpooldError('SCHEDULE_INVALID', `expected ${expected}, got ${describe(got)}`)
}

/** The options that make schedules, with their values as people write them. */
interface ScheduleOptions extends Readonly<Record<ScheduleProperty, readonly string[]>> {
  readonly cronHarakiriMs: number
}

type ScheduleProperty =
  | 'timer'
  | 'rbtimer'
  | 'signalCron'
  | 'cron'
  | 'uniqueCron'
  | 'cron2'
  | 'fsSignal'
  | 'touchSignal'

type Parse = (text: string, harakiriMs: number) => Schedule

const PARSERS: ReadonlyArray<readonly [option: string, property: ScheduleProperty, parse: Parse]> = [
  ['timer', 'timer', parseTimer],
  ['rbtimer', 'rbtimer', parseTimer],
  ['signal-cron', 'signalCron', parseSignalCron],
  ['cron', 'cron', (text, harakiriMs) => parseCommand(text, false, harakiriMs)],
  ['unique-cron', 'uniqueCron', (text, harakiriMs) => parseCommand(text, true, harakiriMs)],
  ['cron2', 'cron2', parseCommand2],
  ['fs-signal', 'fsSignal', text => monitorOf('monitor', text)],
  ['touch-signal', 'touchSignal', text => monitorOf('touch', text)],
]

/** @throws SpooldError SCHEDULE_INVALID */
export function schedulesOf(options: ScheduleOptions): Schedule[] {
  return PARSERS.flatMap(([, property, parse]) =>
    options[property].map(text => parse(text, options.cronHarakiriMs)),
  )
}

/**
 * Reports each text that is not a schedule, as an error. A schedule that never comes is a warning unless `strict`, because uWSGI
 * starts with one.
 */
export function checkSchedules(
  options: ScheduleOptions & { readonly strict: boolean },
  report: (severity: 'error' | 'warning', option: string, i: number, message: string) => void,
): void {
  for (const [option, property, parse] of PARSERS)
    for (const [i, text] of options[property].entries())
      try {
        const schedule = parse(text, options.cronHarakiriMs)
        if ('expression' in schedule && isNever(schedule))
          report(
            options.strict ? 'error' : 'warning',
            option,
            i,
            `${option}: ${describe(schedule.expression)} never comes`,
          )
      } catch (fault) {
        report('error', option, i, `${option}: ${messageOf(fault)}`)
      }
}

function isNever({ expression, zone }: CronTimes | CronCommand): boolean {
  return openCron(expression, zone).next(Date.now()) === undefined
}

function monitorOf(kind: FileMonitor['kind'], text: string): FileMonitor {
  const monitor = parseMonitor(kind, text)
  return { ...monitor, path: resolve(monitor.path) }
}

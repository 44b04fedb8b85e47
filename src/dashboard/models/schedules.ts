import type { ScheduleSnapshot } from '../../stats/snapshot.js'
import { baseName } from '../../task/ref.js'

/** What fires by itself. */
export interface ScheduleRow {
  /** What happens. */
  readonly what: string
  /** The name of a periodic task; null: it is none. */
  readonly name: string | null
  readonly when: string
  readonly spool: string | null
  readonly nextAtMs: number | null
}

/** The next one first; those without a time last. @param mayReadPayload commands may name secrets */
export function scheduleRows(schedules: readonly ScheduleSnapshot[], mayReadPayload: boolean): ScheduleRow[] {
  const rows = schedules.map(each => rowOf(each, mayReadPayload))
  const time = ({ nextAtMs }: ScheduleRow) => nextAtMs ?? Number.POSITIVE_INFINITY
  return rows.sort((a, b) => time(a) - time(b) || (a.what < b.what ? -1 : 1))
}

function rowOf({ schedule, spool, nextAtMs }: ScheduleSnapshot, mayReadPayload: boolean): ScheduleRow {
  const row = { spool, nextAtMs, name: null }
  switch (schedule.kind) {
    case 'periodic': {
      const { name, queue, when } = schedule
      const text = 'everyMs' in when ? everyText(when.everyMs) : cronText(when)
      return { ...row, name, what: `task ${name}, queue ${queue}`, when: text }
    }
    case 'timer':
      return { ...row, what: `signal ${schedule.number}`, when: everyText(schedule.everyMs) }
    case 'cron':
      return { ...row, what: `signal ${schedule.number}`, when: cronText(schedule) }
    case 'command': {
      const [program = ''] = schedule.command.split(' ')
      const what = mayReadPayload ? schedule.command : baseName(program)
      return { ...row, what: `command ${what}`, when: cronText(schedule) }
    }
    case 'monitor':
    case 'touch':
      return { ...row, what: `signal ${schedule.number}`, when: `when ${schedule.path} changes` }
  }
}

function everyText(ms: number): string {
  return `every ${ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`}`
}

function cronText({
  expression,
  zone,
}: {
  readonly expression: string
  readonly zone: string | null
}): string {
  return zone === null ? expression : `${expression} (${zone})`
}

import type { PeriodicTask } from './periodic.js'
import type { Schedule } from './schedule.js'

interface ScheduleText {
  /** What happens: `signal 1`, `task clear-sessions`. */
  readonly what: string
  /** `every 60 s` */
  readonly when: string
}

/** A schedule, for people. @param zone in which it counts if it names none; null: that is not said */
export function scheduleText(schedule: Schedule | PeriodicTask, zone: string | null = null): ScheduleText {
  switch (schedule.kind) {
    case 'periodic': {
      const { name, when } = schedule
      return {
        what: `task ${name}`,
        when: 'everyMs' in when ? everyText(when.everyMs) : cronText(when, zone),
      }
    }
    case 'timer':
      return { what: `signal ${schedule.number}`, when: everyText(schedule.everyMs) }
    case 'cron':
      return { what: `signal ${schedule.number}`, when: cronText(schedule, zone) }
    case 'command':
      return { what: `command ${schedule.command}`, when: cronText(schedule, zone) }
    case 'monitor':
    case 'touch':
      return { what: `signal ${schedule.number}`, when: `when ${schedule.path} changes` }
  }
}

function everyText(ms: number): string {
  return `every ${ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`}`
}

function cronText(
  { expression, zone }: { expression: string; zone: string | null },
  otherwise: string | null,
): string {
  const shown = zone ?? otherwise
  return shown === null ? expression : `${expression} (${shown})`
}

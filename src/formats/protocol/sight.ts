import type { Pause, Pauses } from '../../base/task/pause.js'
import type { PeriodicTask, Schedule } from '../../base/task/schedule.js'
import { HIDDEN, type Hide } from './hide.js'
import { TASK_KEY } from './named.js'

/** What somebody may see of tasks. Every output has it from `seen…`: no other place decides. */
export interface Sight {
  /** Keys, values, bodies and errors of tasks, and commands. */
  readonly mayReadPayload: boolean
  /** What nobody may see. */
  readonly hide: Hide
}

/** Of who owns the spool, or is root. */
export function ownersSight(hide: Hide): Sight {
  return { mayReadPayload: true, hide }
}

/** A pause of some tasks names a value of theirs; but the name of a named task is that of a function. */
export function seenPauses<P extends Pauses>(pauses: P, sight: Sight): P {
  return { ...pauses, pauses: pauses.pauses.map(each => seenPause(each, sight)) }
}

export function seenPause(pause: Pause, { mayReadPayload, hide }: Sight): Pause {
  const { pair } = pause
  if (pair === null) return pause
  if (mayReadPayload) return { ...pause, pair: hide.pair(pair) }
  const [key, value] = pair
  return { ...pause, pair: [key, key === TASK_KEY ? value : HIDDEN] }
}

/** Whoever may not read payloads sees of a command which program it runs. */
export function seenSchedule<S extends Schedule | PeriodicTask>(
  schedule: S,
  { mayReadPayload, hide }: Sight,
): S {
  if (schedule.kind !== 'command') return schedule
  const { command } = schedule
  return { ...schedule, command: mayReadPayload ? hide.configured(command) : programOf(command) }
}

/** What comes before it may be a variable, with a secret. */
function programOf(command: string): string {
  const program = command.trim().split(/\s/, 1)[0]?.split('/').at(-1) ?? ''
  return /^[\w.-]+$/.test(program) ? program : '(command)'
}

import type { Pause, Pauses } from '../../base/task/pause.js'
import type { PeriodicTask, Schedule } from '../../base/task/schedule.js'
import { HIDDEN, type Hide } from './hide.js'
import { TASK_KEY } from './named.js'

/** What somebody may see of tasks. Every output passes through a `seen…` function; no other place decides. */
export interface Sight {
  /** True: keys, values, bodies and errors of tasks, and commands may be seen. */
  readonly mayReadPayload: boolean
  /** The values that nobody may see. */
  readonly hide: Hide
}

/** Returns the sight of the spool's owner, and of root. */
export function ownersSight(hide: Hide): Sight {
  return { mayReadPayload: true, hide }
}

/**
 * Returns pauses as they may be seen. A pause of some tasks names a value of theirs, but the name of a named task is not hidden,
 * because it is the name of a function.
 */
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

/** Returns a schedule as it may be seen. Whoever may not read payloads sees only which program a command runs. */
export function seenSchedule<S extends Schedule | PeriodicTask>(
  schedule: S,
  { mayReadPayload, hide }: Sight,
): S {
  if (schedule.kind !== 'command') return schedule
  const { command } = schedule
  return { ...schedule, command: mayReadPayload ? hide.configured(command) : programOf(command) }
}

/** Returns the program of a command. The first word may be a variable with a secret, so only a plain name is shown. */
function programOf(command: string): string {
  const program = command.trim().split(/\s/, 1)[0]?.split('/').at(-1) ?? ''
  return /^[\w.-]+$/.test(program) ? program : '(command)'
}

import type { Emitter } from '../../base/events/emitter.js'
import { scheduleHash } from '../../base/task/schedule.js'
import { ControlError } from '../../formats/control/protocol.js'
import type { ScheduleSnapshot } from '../../runtime/stats/snapshot.js'
import type { Action, ActionTable } from '../control/actions.js'
import type { Schedules } from './schedules.js'

interface Arguments {
  readonly spool: string
  readonly schedule: string
}

/** What the control sockets have done to one schedule: `run`, `pause`, `resume` and `remove`. Each says what is so now, for people. */
export function scheduleActions(schedules: Schedules, events: Emitter): ActionTable {
  const { pauses } = schedules
  const on = (verb: string, act: (found: ScheduleSnapshot) => Promise<string> | string): Action => ({
    role: 'operator',
    args: { spool: 'text', schedule: 'text' },
    async run({ spool, schedule: id }: Arguments) {
      const found = (await schedules.plan()).find(each => each.id === id && each.spool === spool)
      if (found === undefined)
        throw new ControlError(
          'failed',
          `this daemon has no schedule ${id} in ${spool}: spoold schedules lists them`,
        )
      const done = await act(found)
      events.emit('schedule-changed', { spool, schedule: found.schedule, verb, done })
      return { pid: process.pid, done }
    },
  })
  return {
    run: on('run', found => schedules.run(found)),
    pause: on('pause', async found => {
      if (isPassing(found)) throw new ControlError('failed', 'it ends by itself: remove it instead')
      await pauses.pause(found.spool ?? '', scheduleHash(found.schedule))
      return 'paused, until it is resumed'
    }),
    resume: on('resume', async found =>
      (await pauses.resume(found.spool ?? '', scheduleHash(found.schedule)))
        ? 'resumed'
        : 'it was not paused',
    ),
    remove: on('remove', async found => {
      if (!schedules.remove(found))
        throw new ControlError('failed', `${ORIGINS[found.origin]}: pause it until that changes`)
      await pauses.resume(found.spool ?? '', scheduleHash(found.schedule))
      return 'removed'
    }),
  }
}

const ORIGINS: Readonly<Record<ScheduleSnapshot['origin'], string>> = {
  configuration: 'the configuration has it',
  handlers: 'the handlers have it',
  code: 'it is gone, or the handlers have it',
}

/** Others that are like it would be paused, too. */
function isPassing({ origin, schedule }: ScheduleSnapshot): boolean {
  return origin === 'code' && schedule.kind === 'timer' && schedule.iterations > 0
}

import { messageOf } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import { askDaemon } from '../../engines/control/client.js'
import { daemonSocketsOf } from '../../engines/open-engine.js'
import { type Args, given, type SpoolActor, wrongArg } from './args.js'

/** What a daemon can do to one of its schedules, as its control socket calls it. */
type ScheduleVerb = 'run' | 'pause' | 'resume' | 'remove'

/**
 * Has something done to a schedule of a spool, by the first of its daemons that has the schedule and does it. What running code has
 * added each daemon has for itself, so all of them remove it.
 */
export const onSchedule =
  (verb: ScheduleVerb) =>
  async (spool: string, args: Args, by: SpoolActor = {}): Promise<string> => {
    const schedule = given(args, 'schedule')
    if (schedule === undefined) throw wrongArg('schedule', 'the name of a schedule', '')
    const sockets = by.sockets ?? (await daemonSocketsOf(spool))
    const done: string[] = []
    const faults: string[] = []
    for (const path of sockets) {
      if (done.length > 0 && verb !== 'remove') break
      try {
        done.push(doneIn(await askDaemon(path, verb, { spool, schedule })))
      } catch (error) {
        faults.push(messageOf(error))
      }
    }
    const [first] = done
    if (first !== undefined) return first
    // a socket that refuses belongs to a daemon that is dead
    throw new Error(faults.find(fault => !fault.includes('ECONNREFUSED')) ?? 'no daemon runs this spool')
  }

function doneIn(answer: unknown): string {
  return hasFields(answer, { done: 'text' }, {}) ? (answer as { readonly done: string }).done : 'done'
}

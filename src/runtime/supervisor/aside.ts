import { toError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Report } from '../../base/task/report.js'
import type { AsideReply, MasterMessage } from '../ipc/messages.js'
import type { NamedRef } from './given-tasks.js'
import type { SpawnOptions } from './worker-port.js'

/** Generous: there are at most a few hundred files, but the machine may be busy. */
const TIMEOUT_MS = 15_000

interface MarkedTask extends NamedRef {
  readonly lastRun?: LastRun
  /** Another worker has it, and may run it. */
  readonly isRecalled?: boolean
}

const BLAMELESS = { kind: 'blameless' } as const

/**
 * Has something done to task files by a process with the identity of the workers, because the master opens none.
 *
 * @returns its reply, or why there is none
 */
export async function askAside(
  { openPort, openAside = openPort }: Pick<SpawnOptions, 'openPort' | 'openAside'>,
  message: MasterMessage,
): Promise<AsideReply | string> {
  let reply: AsideReply | string = 'the process that was to do it has ended'
  try {
    const port = openAside()
    const timer = setTimeout(() => port.kill(), TIMEOUT_MS)
    port.listen({
      heard(message) {
        if (message.type === 'marks-cleared' || message.type === 'cancelled-buried') reply = message
        else if (message.type === 'unloadable') reply = message.error
      },
      garbled: () => port.kill(),
    })
    port.send(message)
    await port.whenExited
    clearTimeout(timer)
  } catch (thrown) {
    reply = toError(thrown).message
  }
  return reply
}

/**
 * Clears the marks of tasks whose last run was ended through no fault of their own, as if it had not taken place. A mark
 * that is left counts as a crash.
 *
 * @returns what has become of those that do not run again
 */
export async function clearMarks(
  options: Omit<SpawnOptions, 'answer'>,
  tasks: readonly MarkedTask[],
  events: Emitter,
): Promise<readonly Report[]> {
  if (tasks.length === 0) return []
  const { worker } = options
  const marked = tasks.map(({ ref, lastRun = BLAMELESS }) => ({ ref, lastRun }))
  const reply = await askAside(options, { type: 'clear-marks', options: worker, tasks: marked })
  const isAnswered = typeof reply !== 'string' && reply.type === 'marks-cleared'
  const left = isAnswered ? reply.left : tasks.map(({ ref }) => ref)
  const error = isAnswered ? reply.error : String(reply)
  const names = tasks
    .filter(({ ref, isRecalled }) => isRecalled !== true && left.includes(ref))
    .map(({ name }) => name)
  if (names.length > 0) events.emit('marks-left', { spool: worker.spool, names, error })
  return isAnswered ? reply.reports : []
}

import { toError } from '../../base/errors.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import { toByteString } from '../../base/task/ref.js'
import type { AsideReply, MasterMessage } from '../ipc/messages.js'
import { buryCancelled, clearMarks } from './after-a-kill.js'
import { engineOf, openClaims } from './open-claims.js'
import { Road } from './road.js'

/**
 * The entry point of the process aside: it does to the files of tasks what the master, which opens none, has to have done, and runs
 * nothing. It answers the first message that it gets, and exits; one that looks stays for further looks, until the master ends it.
 */

async function act(message: MasterMessage): Promise<AsideReply> {
  if (message.type === 'look-later') {
    const { lookAtLater } = await import('../../engines/directory/peek.js')
    const { id, spool, refs, sinceMs } = message
    return { type: 'looked-later', id, changed: lookAtLater(toByteString(spool), refs, sinceMs) }
  }
  if (message.type === 'look') {
    const { lookAtTasks } = await import('../../engines/directory/peek.js')
    return {
      type: 'looked',
      id: message.id,
      found: lookAtTasks(message.spool, message.refs, message.begunSinceMs),
    }
  }
  if (message.type !== 'clear-marks' && message.type !== 'bury-cancelled')
    throw new Error(`no process aside does: ${message.type}`)
  const claims = await openClaims(engineOf(message.options), message.options)
  if (message.type === 'bury-cancelled')
    return { type: 'cancelled-buried', reports: await buryCancelled(claims, message.tasks) }
  return { type: 'marks-cleared', ...(await clearMarks(claims, message.tasks)) }
}

async function answer(message: MasterMessage): Promise<void> {
  const reply = await act(message).catch(
    thrown => ({ type: 'unloadable', error: boundedFailure(toError(thrown).message) }) as const,
  )
  road.say(reply, () => {
    if (reply.type !== 'looked' && reply.type !== 'looked-later') road.end(() => process.exit())
  })
}

// what has been begun is ended, though the master is gone or a terminal's Ctrl-C reaches the whole process group
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const)
  process.on(signal, () => {})

const road: Road = new Road(
  message => void answer(message),
  () => {},
)

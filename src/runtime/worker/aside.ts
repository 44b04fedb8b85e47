import { messageOf, toError } from '../../base/errors.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import { doHere } from '../../engines/directory/aside-work.js'
import type { AsideReply, MasterMessage } from '../ipc/messages.js'
import { actAfterKill } from './after-a-kill.js'
import { engineOf, openClaims } from './open-claims.js'
import { Road } from './road.js'

/**
 * The entry point of the process aside: it does to the files of tasks what the master, which opens none, has to have done, and runs
 * nothing. It answers the first message that it gets, and exits; after `do-aside` it stays for more, until the master ends it.
 */

async function act(message: MasterMessage): Promise<AsideReply> {
  if (message.type === 'do-aside') return await doAside(message)
  if (message.type !== 'clear-marks' && message.type !== 'bury-cancelled')
    throw new Error(`no process aside does: ${message.type}`)
  return await actAfterKill(await openClaims(engineOf(message.options), message.options), message)
}

type DoAside = Extract<MasterMessage, { type: 'do-aside' }>

async function doAside({ id, name, spool, args }: DoAside): Promise<AsideReply> {
  try {
    const act = doHere as (name: string, spool: string, ...args: readonly unknown[]) => Promise<unknown>
    return { type: 'done-aside', id, value: await act(name, spool, ...args) }
  } catch (thrown) {
    return { type: 'done-aside', id, error: boundedFailure(messageOf(thrown)) }
  }
}

async function answer(message: MasterMessage): Promise<void> {
  const reply = await act(message).catch(
    thrown => ({ type: 'unloadable', error: boundedFailure(toError(thrown).message) }) as const,
  )
  road.say(reply, () => {
    if (reply.type !== 'done-aside') road.end(() => process.exit())
  })
}

// what has been begun is ended, though the master is gone or a terminal's Ctrl-C reaches the whole process group
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const)
  process.on(signal, () => {})

const road: Road = new Road(
  message => void answer(message),
  () => {},
)

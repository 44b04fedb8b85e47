import { toError } from '../../base/errors.js'
import type { AsideReply, MasterMessage } from '../ipc/messages.js'
import type { SpawnOptions } from './worker-port.js'

/** Generous: there are at most a few hundred files, but the machine may be busy. */
const TIMEOUT_MS = 15_000

/**
 * Has something done to task files by a process with the identity of the workers, because the master opens none.
 *
 * @returns its reply, or why there is none
 */
export async function askAside(
  { openPort }: Pick<SpawnOptions, 'openPort'>,
  message: MasterMessage,
): Promise<AsideReply | string> {
  let reply: AsideReply | string = 'the process that was to do it has ended'
  try {
    const port = openPort()
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

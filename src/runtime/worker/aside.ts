import { doHere } from '../../engines/directory/aside-work.js'
import type { MasterMessage } from '../ipc/messages.js'
import { actAfterKill, answerAside } from './after-a-kill.js'
import { engineOf, openClaims } from './open-claims.js'
import { Road } from './road.js'

/**
 * The entry point of the process aside: it does to the files of tasks what the master, which opens none, has to have done, and runs
 * nothing. It stays until the master ends it.
 */

async function hear(message: MasterMessage): Promise<void> {
  switch (message.type) {
    case 'do-aside': {
      const act = doHere as (name: string, spool: string, ...args: readonly unknown[]) => Promise<unknown>
      return await answer(message.id, () => act(message.name, message.spool, ...message.args))
    }
    case 'clear-marks':
    case 'bury-cancelled': {
      const claims = () => openClaims(engineOf(message.options), message.options)
      return await answer(message.id, async () => actAfterKill(await claims(), message))
    }
    default:
      throw new Error(`no process aside does: ${message.type}`)
  }
}

async function answer(id: number, act: () => Promise<unknown>): Promise<void> {
  road.say(await answerAside(id, act), () => {})
}

// what has been begun is ended, though the master is gone or a terminal's Ctrl-C reaches the whole process group
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const)
  process.on(signal, () => {})

const road: Road = new Road(
  message => void hear(message),
  () => {},
)

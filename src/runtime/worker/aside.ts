import { doHere } from '../../engines/directory/aside-work.js'
import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'
import { answerAfterKill, answerAside } from './after-a-kill.js'
import { engineOf } from './open-claims.js'
import { Road } from './road.js'

/**
 * The entry point of the process aside. It opens the files of tasks for the master, which opens none itself. It runs no task, and
 * stays until the master ends it.
 */

async function hear(message: MasterMessage): Promise<void> {
  switch (message.type) {
    case 'do-aside': {
      const act = doHere as (name: string, spool: string, ...args: readonly unknown[]) => Promise<unknown>
      return say(await answerAside(message.id, () => act(message.name, message.spool, ...message.args)))
    }
    case 'after-kill':
      return say(await answerAfterKill(engineOf, message))
    default:
      throw new Error(`no process aside does: ${message.type}`)
  }
}

function say(answer: WorkerMessage): void {
  road.say(answer, () => {})
}

// work that has begun is completed, even if the master is gone or a terminal's Ctrl-C reaches the whole process group
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const)
  process.on(signal, () => {})

const road: Road = new Road(
  message => void hear(message),
  () => {},
)

import type { MasterMessage } from '../ipc/messages.js'
import { answerAside } from './after-a-kill.js'
import { engineOf } from './open-claims.js'
import { Road } from './road.js'

/**
 * The entry point of the process aside. It opens the files of tasks for the master, which opens none itself. It runs no task, and
 * stays until the master ends it.
 */

async function hear(message: MasterMessage): Promise<void> {
  if (message.type !== 'do-aside') throw new Error(`no process aside does: ${message.type}`)
  road.say(await answerAside(message, engineOf), () => {})
}

// work that has begun is completed, even if the master is gone or a terminal's Ctrl-C reaches the whole process group
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const)
  process.on(signal, () => {})

const road: Road = new Road(
  message => void hear(message),
  () => {},
)

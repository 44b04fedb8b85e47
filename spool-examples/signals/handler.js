import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { addFileMonitor, registerSignal, SPOOL_OK, spool } from 'spoold'

const inbox = fileURLToPath(new URL('inbox', import.meta.url))
mkdirSync(inbox, { recursive: true })

registerSignal(1, 'spooler', () => console.log(`it is ${new Date().toLocaleTimeString()}`))

registerSignal(2, 'spooler', async () => console.log('the daily report is made'))

// A file dropped into the inbox becomes a task, because a failed task is retried and a failed signal is not. The id
// ensures that it is stored only once, however often the signal is raised before the file is removed.
registerSignal(3, 'spooler', async () => {
  for (const name of readdirSync(inbox)) {
    const { mtimeMs } = statSync(join(inbox, name))
    await spool({ name }, { spooler: process.cwd(), id: `${name} ${mtimeMs}` })
  }
})
addFileMonitor(3, inbox)

export default async (env, task) => {
  task.log(`got ${env.name}`)
  // anyone who may enqueue could have chosen the name: remove only files in the inbox
  if (readdirSync(inbox).includes(env.name)) rmSync(join(inbox, env.name), { force: true })
  return SPOOL_OK
}

import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { addFileMonitor, registerSignal, SPOOL_OK, spool } from 'spoold'

const inbox = fileURLToPath(new URL('inbox', import.meta.url))
mkdirSync(inbox, { recursive: true })

registerSignal(1, 'spooler', () => console.log(`it is ${new Date().toLocaleTimeString()}`))

registerSignal(2, 'spooler', async () => console.log('the daily report is made'))

// What is dropped into the inbox becomes a task: a signal is not tried again when it fails, a task is. The id makes it be
// stored once, however often the signal comes before the file is gone.
registerSignal(3, 'spooler', async () => {
  for (const name of readdirSync(inbox)) {
    const { mtimeMs } = statSync(join(inbox, name))
    await spool({ name }, { spooler: process.cwd(), id: `${name} ${mtimeMs}` })
  }
})
addFileMonitor(3, inbox)

export default async (env, task) => {
  task.log(`got ${env.name}`)
  // anybody who may enqueue could have written it: only what lies in the inbox is removed
  if (readdirSync(inbox).includes(env.name)) rmSync(join(inbox, env.name), { force: true })
  return SPOOL_OK
}

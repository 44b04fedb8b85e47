import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { askDaemon } from '#src/engines/control/client.js'
import type { DaemonSnapshot, SpoolSnapshot } from '#src/runtime/stats/snapshot.js'
import { patience } from './until.js'

/** The path of a control socket in a spool. */
export const controlOf = (spool: string, name = 'control') => join(spool, '.spoold', name)

/** The names of the control sockets in a spool. */
export const controlsIn = (spool: string) =>
  readdirSync(join(spool, '.spoold'))
    .filter(name => name.startsWith('control') && name !== 'control.lock')
    .sort()

export async function snapshotOf(spool: string, name = 'control'): Promise<DaemonSnapshot> {
  const options = { timeoutMs: 5000 * patience() }
  return (await askDaemon(controlOf(spool, name), 'snapshot', {}, options)) as DaemonSnapshot
}

export async function spoolSnapshotOf(spool: string): Promise<SpoolSnapshot> {
  const { spools } = await snapshotOf(spool)
  const [first] = spools
  if (first === undefined) throw new Error('the daemon runs no spool')
  return first
}

/** Sends bytes as they are, and returns what comes until the other end closes, line by line. */
export function sendRaw(path: string, bytes: string | Buffer, { isEnded = true } = {}): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket: Socket = connect({ path, allowHalfOpen: true })
    socket.once('error', reject)
    socket.on('data', chunk => (text += chunk))
    socket.once('end', () => {
      socket.destroy()
      resolve(
        text
          .split('\n')
          .filter(Boolean)
          .map(line => JSON.parse(line)),
      )
    })
    if (isEnded) socket.end(bytes)
    else socket.write(bytes)
  })
}

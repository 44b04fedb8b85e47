import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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

/** A daemon shows one snapshot for so long to all who ask (runtime/stats/collector.ts), and a little more. */
const SHARED_MS = 210

/** As it is now, not as it was when somebody asked last. */
export async function snapshotOf(spool: string, name = 'control'): Promise<DaemonSnapshot> {
  const options = { timeoutMs: 30_000 * patience() } // how soon it answers is another test
  const ask = async () => (await askDaemon(controlOf(spool, name), 'snapshot', {}, options)) as DaemonSnapshot
  const askedAtMs = Date.now()
  const snapshot = await ask()
  if (snapshot.atMs >= askedAtMs) return snapshot
  await sleep(Math.min(SHARED_MS, SHARED_MS - (askedAtMs - snapshot.atMs)))
  return ask()
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

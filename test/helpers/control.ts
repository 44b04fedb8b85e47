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

/** A little more than the time for which a daemon gives the same snapshot to all who ask (runtime/stats/collector.ts). */
const SHARED_MS = 210

/** Returns a snapshot that is taken now, and not one that the daemon took for somebody else before. */
export async function snapshotOf(spool: string, name = 'control'): Promise<DaemonSnapshot> {
  const options = { timeoutMs: 30_000 * patience() } // another test checks how soon the daemon answers
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

/** Sends bytes as they are. Returns the JSON lines that come until the other end closes. */
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

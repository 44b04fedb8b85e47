import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TestProcess } from './process.js'
import { freePort } from './redis.js'
import { patience } from './until.js'
import { workspace } from './workspace.js'

const VOLATILE = ['--save', '', '--appendonly', 'no', '--bind', '127.0.0.1']
/** Sentinel takes a master that is silent for this long for dead. A busy machine needs longer, so `patience` multiplies it. */
const DOWN_AFTER_MS = 500

/** Starts a redis-server that keeps nothing, on loopback, and waits until it takes connections. It ends with the test. */
export async function startServer(args: readonly string[]): Promise<TestProcess> {
  const server = new TestProcess('redis-server', [...VOLATILE, '--dir', workspace(), ...args])
  await server.waitFor(/ready to accept connections/i)
  return server
}

export interface Watched {
  readonly master: TestProcess
  readonly masterPort: number
  /** The sentinel. Its output has `+switch-master` once the replica is the master. */
  readonly sentinel: TestProcess
  /** Returns the address of a spool. @param name of the spool */
  address(name: string): string
}

/** Starts a master, its replica, and a sentinel that promotes the replica when the master is dead. */
export async function startWatched(): Promise<Watched> {
  const [first, second, port] = [freePort(), freePort(), freePort()]
  const master = await startServer(['--port', String(first)])
  const replicates = ['--replicaof', '127.0.0.1', String(first), '--repl-diskless-sync-delay', '0']
  await startServer(['--port', String(second), ...replicates])
  const file = join(workspace(), 'sentinel.conf')
  const lines = [
    `port ${port}`,
    `sentinel monitor main 127.0.0.1 ${first} 1`,
    `sentinel down-after-milliseconds main ${DOWN_AFTER_MS * patience()}`,
    'sentinel failover-timeout main 2000',
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  const sentinel = new TestProcess('redis-server', [file, '--sentinel', '--bind', '127.0.0.1'])
  await sentinel.waitFor(`+slave slave 127.0.0.1:${second}`)
  return {
    master,
    masterPort: first,
    sentinel,
    address: name => `redis+sentinel://127.0.0.1:${port}/main/0/${name}`,
  }
}

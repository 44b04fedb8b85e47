import { randomInt } from 'node:crypto'
import { after } from 'node:test'
import { Redis } from 'ioredis'
import { TestProcess } from './process.js'
import { until } from './until.js'
import { workspace } from './workspace.js'

/** A Redis for one test file, on loopback, in a directory of its own. */
export interface TestRedis {
  readonly port: number
  /** A connection for the test. */
  readonly client: Redis
  /** Returns the address of a spool. @param name of the spool */
  address(name: string): string
  ready(): Promise<void>
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Sends SIGSTOP or SIGCONT. Requests that come while Redis is stopped are carried out once it continues. */
  signal(signal: NodeJS.Signals): void
  /** Starts Redis again, on the same port, with the data on disk. @param settings further ones @param line to wait for */
  restart(settings?: readonly string[], line?: string): Promise<void>
}

/** The highest port that the system does not assign by itself. */
const BELOW_EPHEMERAL = 32_767

/** Returns a port that is most likely free. */
export function freePort(): number {
  return BELOW_EPHEMERAL - randomInt(10_000)
}

const READY = 'Ready to accept connections'

interface RedisSetup {
  /** `none`: Redis writes nothing to disk. `always`: it syncs each write before its reply. */
  readonly durability?: 'none' | 'always'
  readonly settings?: readonly string[]
}

/** Starts a Redis. To be called outside of hooks, so that it ends when the tests of the file are over. */
export function startRedis({ durability = 'none', settings = [] }: RedisSetup = {}): TestRedis {
  const directory = workspace()
  const port = freePort()
  const persistence =
    durability === 'always' ? ['--appendonly', 'yes', '--appendfsync', 'always'] : ['--appendonly', 'no']
  const args = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    directory,
    '--save',
    '',
    ...persistence,
  ]
  const start = (more: readonly string[] = []) =>
    new TestProcess('redis-server', [...args, ...settings, ...more])
  let server = start()
  const client = new Redis({ port, host: '127.0.0.1', retryStrategy: () => 50, maxRetriesPerRequest: null })
  client.on('error', () => {}) // tests kill the server on purpose
  after(() => client.disconnect())
  return {
    port,
    client,
    address: name => `redis://127.0.0.1:${port}/0/${name}`,
    ready: () => server.waitFor(READY),
    signal(signal) {
      server.child.kill(signal)
    },
    async kill(signal = 'SIGKILL') {
      server.child.kill(signal)
      await until('Redis has ended', () => !server.isRunning)
    },
    async restart(more, line = READY) {
      server = start(more)
      await server.waitFor(line)
    },
  }
}

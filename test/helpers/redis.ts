import { randomInt } from 'node:crypto'
import { after } from 'node:test'
import { Redis } from 'ioredis'
import { TestProcess } from './process.js'
import { until } from './until.js'
import { workspace } from './workspace.js'

/** A Redis of its own, on loopback, in a directory of its own. */
export interface TestRedis {
  readonly port: number
  /** A connection for the test. */
  readonly client: Redis
  /** @param name of the spool */
  address(name: string): string
  ready(): Promise<void>
  kill(signal?: NodeJS.Signals): Promise<void>
  /** SIGSTOP, or SIGCONT. What is sent meanwhile is carried out after that. */
  signal(signal: NodeJS.Signals): void
  /** On the same port, with what was on disk. @param settings more of them @param line resolves when it says this */
  restart(settings?: readonly string[], line?: string): Promise<void>
}

/** No port that the system gives to others. */
const BELOW_EPHEMERAL = 32_767

/** Most likely. */
export function freePort(): number {
  return BELOW_EPHEMERAL - randomInt(10_000)
}

const READY = 'Ready to accept connections'

interface RedisSetup {
  /** What it writes to disk: nothing, or each write before its answer. */
  readonly durability?: 'none' | 'always'
  readonly settings?: readonly string[]
}

/** Call it outside of hooks, so that it is ended when the tests of the file are over. */
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
  client.on('error', () => {}) // it is killed on purpose
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

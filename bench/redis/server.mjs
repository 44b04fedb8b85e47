// A Redis for one benchmark, and what Redis counts.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { until } from '../harness.mjs'

/** The highest port that the system does not give to others. */
const BELOW_EPHEMERAL = 32_767

/**
 * @param directory for the append-only file
 * @param sync when that file is synced
 */
export async function startRedis(directory, sync = 'everysec') {
  const port = BELOW_EPHEMERAL - randomInt(10_000)
  const settings = {
    port,
    bind: '127.0.0.1',
    dir: directory,
    save: '',
    appendonly: 'yes',
    appendfsync: sync,
    'auto-aof-rewrite-percentage': 0,
  }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const server = spawn('redis-server', args, { stdio: 'ignore' })
  const client = new Redis({ port, host: '127.0.0.1', retryStrategy: () => 20 })
  client.on('error', () => {}) // Redis is starting
  await until('Redis answers', () => client.status === 'ready')
  return {
    port,
    pid: server.pid,
    client,
    /** @param name of the spool */
    address: name => `redis://127.0.0.1:${port}/0/${name}`,
    /** Returns the number of jobs that are due or running. */
    async left(name) {
      const [[, due], [, running]] = await client
        .pipeline()
        .zcard(`bull:${name}:prioritized`)
        .llen(`bull:${name}:active`)
        .exec()
      return due + running
    },
    async stop() {
      client.disconnect()
      server.kill('SIGKILL')
      if (server.exitCode === null && server.signalCode === null) await once(server, 'exit')
    },
  }
}

/** Returns one line of INFO as a number. */
export async function infoOf({ client }, section, field) {
  return Number(new RegExp(`^${field}:([\\d.]+)`, 'm').exec(await client.info(section))?.[1])
}

/** Returns what Redis has done since CONFIG RESETSTAT: the calls of scripts by clients, and its own time. */
export async function asked(redis) {
  const text = await redis.client.info('commandstats')
  const calls = name => Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(text)?.[1] ?? 0)
  const [user, system] = [
    await infoOf(redis, 'cpu', 'used_cpu_user'),
    await infoOf(redis, 'cpu', 'used_cpu_sys'),
  ]
  return { scripts: calls('evalsha') + calls('eval'), seconds: user + system }
}

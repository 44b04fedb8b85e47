// A spool on Redis, beside plain BullMQ on the same Redis, and beside a spool in a directory.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  childrenOf,
  cpuSecondsOf,
  inPairs,
  isInstalled,
  ROOT,
  startSpoold,
  until,
  withDirectory,
} from './harness.mjs'
import { asked, startRedis } from './redis/server.mjs'

const HERE = join(ROOT, 'bench/redis')
const WORKERS = [
  { processes: 2, concurrency: 16 },
  { processes: 1, concurrency: 16 },
  { processes: 2, concurrency: 1 },
]
/** What is added to a queue, and by how many callers at once. */
const STORING = [
  { name: 'one task after the other', way: 'one', callers: 1, count: 5000 },
  { name: '64 callers at once', way: 'one', callers: 64, count: 20_000 },
  { name: 'batches of 1,000', way: 'many', callers: 1, count: 40_000 },
]

const withRedis = use =>
  withDirectory('memory', async directory => {
    const redis = await startRedis(directory)
    try {
      return await use(redis, directory)
    } finally {
      await redis.stop()
    }
  })

async function stored(redis, who, { way, callers, count }) {
  const args = [who, redis.port, 'bench', way, count, callers].map(String)
  const { stdout } = await promisify(execFile)(process.execPath, [join(HERE, 'store.mjs'), ...args])
  const { rate, cpu } = JSON.parse(stdout)
  return { 'tasks/s': rate, 'µs of CPU per task': cpu }
}

/** The processes that run BullMQ's jobs. */
function startBullmq(redis, { processes, concurrency }) {
  const args = [join(HERE, 'bullmq-worker.mjs'), String(redis.port), 'bench', String(concurrency)]
  const workers = Array.from({ length: processes }, () => spawn(process.execPath, args, { stdio: 'inherit' }))
  return {
    pids: () => workers.map(({ pid }) => pid),
    async stop() {
      for (const worker of workers) {
        worker.kill('SIGKILL')
        if (worker.exitCode === null && worker.signalCode === null) await once(worker, 'exit')
      }
    },
  }
}

function startOurs(redis, { processes, concurrency }, directory) {
  const daemon = startSpoold(directory, redis.address('bench'), [
    ...['--spooler-quiet', '--spooler-processes', String(processes)],
    ...['--spooler-concurrency', String(concurrency)],
  ])
  return { pids: () => [daemon.pid, ...childrenOf(daemon.pid)], stop: () => daemon.stop() }
}

/** From the end of the first tenth on: processes are warm by then. */
function processed(who, count, workers) {
  return withRedis(async (redis, directory) => {
    await stored(redis, who, { way: 'many', callers: 1, count })
    const total = await redis.left('bench')
    const running = who === 'bullmq' ? startBullmq(redis, workers) : startOurs(redis, workers, directory)
    try {
      const down = share => async () => {
        const left = await redis.left('bench')
        return left <= total * share && { left, at: performance.now() }
      }
      await until('a tenth is done', down(0.9), 120_000, 20)
      const cpu = () => running.pids().reduce((sum, pid) => sum + cpuSecondsOf(pid), 0)
      await redis.client.config('RESETSTAT')
      const before = { ...(await asked(redis)), cpu: cpu() }
      const first = await down(1)()
      const last = await until('most is done', down(0.05), 120_000, 20)
      const after = { ...(await asked(redis)), cpu: cpu() }
      const done = first.left - last.left
      return {
        'tasks/s': (done * 1000) / (last.at - first.at),
        'scripts per task': after.scripts / done,
        'µs of Redis per task': ((after.seconds - before.seconds) * 1e6) / done,
        'µs of CPU per task': ((after.cpu - before.cpu) * 1e6) / done,
      }
    } finally {
      await running.stop()
    }
  })
}

export const title = 'A spool on Redis, beside plain BullMQ, and beside a directory'
export const about = `One Redis on loopback, which syncs its append-only file (tmpfs) each second. BullMQ's side is its Queue and its Worker, as
its manual has them, with spoold's priority and with jobs that are removed when they are done; both sides run no-op tasks in the same number of processes, with the
same concurrency in each; spoold has its master beside them. Storing is one process. Figures of processing are from the end of the first tenth on. Scripts are
what Redis is asked per task: BullMQ ends a task and fetches the next one by one script; spoold also stores, by a second one, that a task begins. Larger is better for
tasks/s alone.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('redis-server')) return undefined
  const rows = []
  const add = async (name, ours, theirs, target) => {
    const figures = await inPairs(Math.min(pairs, 5), ours, theirs, (mine, peer) =>
      say(`${name}: ${JSON.stringify(mine)} / ${JSON.stringify(peer)}`),
    )
    for (const figure of figures)
      rows.push({ case: name, target: figure.name === 'tasks/s' ? target : undefined, ...figure })
  }
  for (const how of STORING) {
    const scaled = { ...how, count: Math.ceil((how.count * scale) / 1000) * 1000 }
    const side = who => () => withRedis(redis => stored(redis, who, scaled))
    await add(`stored, ${how.name}`, side('spoold'), side('bullmq'), 0.8)
  }
  for (const workers of WORKERS) {
    const { processes, concurrency } = workers
    const side = who => () => processed(who, Math.ceil(40 * scale) * 1000, workers)
    await add(`run, ${processes} × ${concurrency} at a time`, side('spoold'), side('bullmq'), 0.8)
  }
  return { rows }
}

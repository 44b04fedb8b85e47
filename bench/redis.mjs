// A spool on Redis, beside plain BullMQ on the same Redis, and beside a spool in a directory.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  childrenOf,
  cpuSecondsOf,
  diskKind,
  fill,
  inPairs,
  isInstalled,
  leftOnTmpfs,
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
const MOST_PAIRS = 5
/** The ways in which tasks are added to a queue, and by how many callers at once. */
const STORING = [
  { name: 'one task after the other', way: 'one', callers: 1, count: 5000 },
  { name: '64 callers at once', way: 'one', callers: 64, count: 20_000 },
  { name: 'batches of 1,000', way: 'many', callers: 1, count: 40_000 },
]

const withRedis = (use, medium = 'memory', sync = 'everysec') =>
  withDirectory(medium, async directory => {
    const redis = await startRedis(directory, sync)
    try {
      return await use(redis, directory)
    } finally {
      await redis.stop()
    }
  })

/** @param place the port of Redis, or a directory */
async function stored(place, who, { way, callers, count }) {
  const args = [who, place, 'bench', way, count, callers].map(String)
  const { stdout } = await promisify(execFile)(process.execPath, [join(HERE, 'store.mjs'), ...args])
  const { rate, cpu } = JSON.parse(stdout)
  return { 'tasks/s': rate, 'µs of CPU per task': cpu }
}

/** Starts processes that run BullMQ's jobs. */
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

function startOurs(spooler, { processes, concurrency }, directory) {
  const daemon = startSpoold(directory, spooler, [
    ...['--spooler-quiet', '--spooler-processes', String(processes)],
    ...['--spooler-concurrency', String(concurrency)],
  ])
  return { pids: () => [daemon.pid, ...childrenOf(daemon.pid)], stop: () => daemon.stop() }
}

/** Measures from the end of the first tenth on, when processes are warm. @param left returns how many tasks are left */
async function measured(running, left, asked) {
  const total = await left() // no task has run yet, or few have
  const down = share => async () => {
    const now = await left()
    return now <= total * share && { left: now, at: performance.now() }
  }
  try {
    await until('a tenth is done', down(0.9), 120_000, 20)
    const cpu = () => running.pids().reduce((sum, pid) => sum + cpuSecondsOf(pid), 0)
    const before = { asked: await asked(), cpu: cpu() }
    const first = await down(1)()
    const last = await until('most is done', down(0.05), 120_000, 20)
    const [cpuSeconds, after] = [cpu() - before.cpu, await asked()]
    const done = first.left - last.left
    return {
      'tasks/s': (done * 1000) / (last.at - first.at),
      ...(after === undefined
        ? {}
        : {
            'scripts per task': (after.scripts - before.asked.scripts) / done,
            'µs of Redis per task': ((after.seconds - before.asked.seconds) * 1e6) / done,
          }),
      'µs of CPU per task': (cpuSeconds * 1e6) / done,
    }
  } finally {
    await running.stop()
  }
}

function processed(who, count, workers) {
  return withRedis(async (redis, directory) => {
    await stored(redis.port, who, { way: 'many', callers: 1, count })
    const running =
      who === 'bullmq' ? startBullmq(redis, workers) : startOurs(redis.address('bench'), workers, directory)
    return measured(
      running,
      () => redis.left('bench'),
      () => asked(redis),
    )
  })
}

function processedInDirectory(count, workers) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    return measured(
      startOurs(spool, workers, directory),
      () => leftOnTmpfs(spool),
      () => undefined,
    )
  })
}

/** Adds rows beside a directory, which show the cost of having several machines. */
async function addDirectory(add, scale) {
  const how = { way: 'one', callers: 64, count: Math.ceil(20 * scale) * 1000 }
  for (const [name, who, medium, sync] of [
    ['64 callers at once', 'directory', 'memory', 'everysec'],
    ['64 callers at once, each synced', 'synced directory', 'disk', 'always'],
  ])
    await add(
      `stored, ${name}, beside a directory`,
      () => withRedis(redis => stored(redis.port, 'spoold', how), medium, sync),
      () => withDirectory(medium, directory => stored(directory, who, how)),
    )
  const count = Math.ceil(40 * scale) * 1000
  for (const workers of [WORKERS[0], WORKERS[2]]) {
    const { processes, concurrency } = workers
    const onRedis = async () => {
      const { 'tasks/s': rate, 'µs of CPU per task': cpu } = await processed('spoold', count, workers)
      return { 'tasks/s': rate, 'µs of CPU per task': cpu }
    }
    await add(`run, ${processes} × ${concurrency} at a time, beside a directory`, onRedis, () =>
      processedInDirectory(count, workers),
    )
  }
}

export const title = 'A spool on Redis, beside plain BullMQ, and beside a directory'
export const about = `One Redis on loopback, which syncs its append-only file (tmpfs) each second. BullMQ's side is its Queue and its Worker, as
its manual has them, with spoold's priority and with jobs that are removed when they are done; both sides run no-op tasks in the same number of processes, with the
same concurrency in each; spoold has its master beside them. Storing is one process. Figures of processing are from the end of the first tenth on. Scripts are
what Redis is asked per task: BullMQ ends a task and fetches the next one by one script; spoold does so, too, and stores in the same step that the next one begins; what
it finds no ticket for when a task ends is pulled by one more, and begins by another. The last rows have a directory as the peer, on tmpfs too, without syncs;
or both on the disk (${diskKind()}), with a sync before a task counts as stored. Larger is better for tasks/s alone.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('redis-server')) return undefined
  const rows = []
  const add = async (name, ours, theirs, target) => {
    const figures = await inPairs(Math.min(pairs, MOST_PAIRS), ours, theirs, (mine, peer) =>
      say(`${name}: ${JSON.stringify(mine)} / ${JSON.stringify(peer)}`),
    )
    for (const figure of figures)
      rows.push({ case: name, target: figure.name === 'tasks/s' ? target : undefined, ...figure })
  }
  for (const how of STORING) {
    const scaled = { ...how, count: Math.ceil((how.count * scale) / 1000) * 1000 }
    const side = who => () => withRedis(redis => stored(redis.port, who, scaled))
    await add(`stored, ${how.name}`, side('spoold'), side('bullmq'), 0.8)
  }
  for (const workers of WORKERS) {
    const { processes, concurrency } = workers
    const side = who => () => processed(who, Math.ceil(40 * scale) * 1000, workers)
    await add(`run, ${processes} × ${concurrency} at a time`, side('spoold'), side('bullmq'), 0.8)
  }
  await addDirectory(add, scale)
  return { rows }
}

// A million tasks that wait on Redis: what they take there, and what a daemon and `spoold ls` take to work with them.
// Not one of `npm run bench`, since it takes minutes: node bench/redis-million.mjs [COUNT]
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Batch } from '../dist/index.js'
import { childrenOf, ROOT, until, withDirectory } from './harness.mjs'
import { infoOf, startRedis } from './redis/server.mjs'

const COUNT = Number(process.argv[2] ?? 1_000_000)
const BATCH = 1000
const SPOOLD = join(ROOT, 'bin/spoold.js')

const mb = kb => Math.round(kb / 1024)
const memoryOf = pid => Number(/^Rss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1])

function run(args) {
  const since = performance.now()
  const child = spawn(process.execPath, [SPOOLD, ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
  let most = 0
  const look = setInterval(() => {
    try {
      most = Math.max(most, memoryOf(child.pid))
    } catch {}
  }, 5)
  return new Promise(ended =>
    child.once('exit', () => {
      clearInterval(look)
      ended({ ms: Math.round(performance.now() - since), mb: mb(most) })
    }),
  )
}

await withDirectory('memory', async directory => {
  const redis = await startRedis(directory)
  const spooler = redis.address('million')
  const say = (what, figure) => console.log(`| ${what} | ${figure} |`)
  try {
    const empty = await infoOf(redis, 'memory', 'used_memory')
    for (let from = 0; from < COUNT; from += BATCH) {
      const batch = new Batch({ spooler })
      for (let n = from; n < from + BATCH; n++) batch.add({ hello: 'world', n: String(n), foo: 'bar' })
      await batch.spool()
    }
    const used = (await infoOf(redis, 'memory', 'used_memory')) - empty
    say('tasks that wait', COUNT)
    say('memory of Redis per task', `${Math.round(used / COUNT)} bytes`)
    for (const args of [
      ['--limit', '20'],
      ['--state', 'due', '--limit', '20'],
    ]) {
      const { ms, mb: most } = await run(['ls', spooler, ...args])
      say(`\`ls ${args.join(' ')}\``, `${ms} ms, ${most} MB`)
    }
    writeFileSync(join(directory, 'begun'), '')
    writeFileSync(
      join(directory, 'handler.mjs'),
      `import { appendFileSync } from 'node:fs'
export default (env, task) => { appendFileSync('${directory}/begun', env.n + '\\n'); return task.SPOOL_OK }`,
    )
    writeFileSync(
      join(directory, 'app.ini'),
      `[uwsgi]\nspooler = ${spooler}\nspooler-import = handler.mjs\nspooler-quiet = true\n`,
    )
    const since = performance.now()
    const daemon = spawn(process.execPath, [SPOOLD, 'app.ini'], { cwd: directory, stdio: 'ignore' })
    await until('a task has begun', () => readFileSync(join(directory, 'begun'), 'utf8') !== '')
    say('first task after', `${Math.round(performance.now() - since)} ms`)
    await until('10,000 have run', async () => (await redis.left('million')) <= COUNT - 10_000)
    const workers = childrenOf(daemon.pid)
    say(
      'memory of the daemon',
      `${mb(memoryOf(daemon.pid))} MB, of its worker ${workers.map(pid => mb(memoryOf(pid))).join(', ')} MB`,
    )
    daemon.kill('SIGTERM')
    await new Promise(ended => daemon.once('exit', ended))
  } finally {
    await redis.stop()
  }
})
process.exit(0)

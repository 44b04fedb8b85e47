// A million tasks that wait on Redis: the memory that they take there, and what a daemon and `spoold ls` take to work with them.
// Not one of `npm run bench`, since it takes minutes: node bench/redis-million.mjs [COUNT]
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Batch } from '../dist/index.js'
import { childrenOf, ROOT, until, withDirectory } from './harness.mjs'
import { infoOf, startRedis } from './redis/server.mjs'

const COUNT = Number(process.argv[2] ?? 1_000_000)
const BATCH = 1000
const NOBODY = 65534
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

/** Measures pages of the dashboard while all tasks are paused. The dashboard is never root. */
async function pagesOf(directory, spooler, say) {
  execFileSync(process.execPath, [SPOOLD, 'pause', spooler], { stdio: 'ignore' })
  const tokens = join(directory, 'tokens')
  const token = execFileSync(
    process.execPath,
    [SPOOLD, 'token', tokens, '--name', 'bench', '--role', 'admin', '--payload'],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const isRoot = process.geteuid() === 0
  if (isRoot) {
    chmodSync(directory, 0o755)
    chownSync(tokens, NOBODY, NOBODY)
  }
  writeFileSync(
    join(directory, 'app.ini'),
    `[uwsgi]\nspooler = ${spooler}\nspooler-import = handler.mjs\nspooler-dashboard = 127.0.0.1:0
spooler-dashboard-tokens = ${tokens}\n${isRoot ? `uid = ${NOBODY}\ngid = ${NOBODY}\n` : ''}`,
  )
  const daemon = spawn(process.execPath, [SPOOLD, 'app.ini'], { cwd: directory })
  let output = ''
  for (const stream of [daemon.stdout, daemon.stderr])
    stream.on('data', data => {
      output += data
    })
  const place = await until(
    'the dashboard listens',
    () => /dashboard enabled on (\S+:\d+) /.exec(output)?.[1],
  )
  const origin = `http://${place}`
  const form = new URLSearchParams({ token: String(token).trim() })
  const login = await fetch(`${origin}/login`, {
    ...{ method: 'POST', body: form, headers: { origin }, redirect: 'manual' },
  })
  const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0]
  for (const from of [0, Math.floor(COUNT / 2), COUNT - 20_000]) {
    const times = []
    for (let i = 0; i < 5; i++) {
      const since = performance.now()
      const page = await fetch(`${origin}/spools/million/waiting?from=${from}`, { headers: { cookie } })
      const tasks = new Set((await page.text()).match(/\/spools\/million\/tasks\/[\w-]+/g)).size
      if (page.status !== 200 || tasks === 0) throw new Error(`${page.status}, ${tasks} tasks`)
      times.push(performance.now() - since)
    }
    say(`dashboard, 50 tasks from number ${from}`, `${Math.round(times.sort((a, b) => a - b)[2])} ms`)
  }
  const dashboard = childrenOf(daemon.pid).map(pid => mb(memoryOf(pid)))
  say(
    'memory of the daemon with a dashboard, and of its processes',
    `${mb(memoryOf(daemon.pid))} MB, ${dashboard.join(', ')} MB`,
  )
  daemon.kill('SIGTERM')
  await new Promise(ended => daemon.once('exit', ended))
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
      ['--reverse', '--limit', '20'],
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
    await pagesOf(directory, spooler, say)
  } finally {
    await redis.stop()
  }
})
process.exit(0)

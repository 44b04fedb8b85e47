// Throughput of enqueueing, compared with uwsgi.spool(), and the gain of concurrent callers from shared syncs.
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { diskKind, inPairs, isInstalled, ROOT, until, withDirectory } from './harness.mjs'

/** Stores `count` tasks in a separate process, which measures itself, without its start and a short warm-up. */
const NODE = (spool, count, how) => `
  import { spool, spoolSync, Batch } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
  const to = { spooler: ${JSON.stringify(spool)}, sync: ${how.sync} }
  const one = n => ({ hello: 'world', n: String(n), foo: 'bar' })
  const ways = {
    async spool(from, count) { for (let i = from; i < from + count; i++) await spool(one(i), to) },
    spoolSync(from, count) { for (let i = from; i < from + count; i++) spoolSync(one(i), to) },
    async batch(from, count) {
      for (let i = from; i < from + count; i += 10_000) {
        const batch = new Batch(to)
        for (let j = 0; j < 10_000; j++) batch.add(one(i + j))
        await batch.spool()
      }
    },
    async callers(from, count) {
      let i = from
      await Promise.all(Array.from({ length: ${how.callers ?? 1} }, async () => { while (i < from + count) await spool(one(i++), to) }))
    },
  }
  await ways.${how.way}(0, ${how.warmUp})
  const begun = performance.now()
  await ways.${how.way}(${how.warmUp}, ${count})
  console.log(${count} * 1000 / (performance.now() - begun))`

const PYTHON = (count, file) => `import os, time, uwsgi
for i in range(10000): uwsgi.spool({b'hello': b'world', b'n': str(i).encode(), b'foo': b'bar'})
begun = time.perf_counter()
for i in range(${count}): uwsgi.spool({b'hello': b'world', b'n': str(i).encode(), b'foo': b'bar'})
rate = ${count} / (time.perf_counter() - begun)
open('${file}.new', 'w').write(str(rate))
os.rename('${file}.new', '${file}')
`

async function ourRate(kind, count, how) {
  return withDirectory(kind, async directory => {
    const script = join(directory, 'store.mjs')
    writeFileSync(script, NODE(join(directory, 'spool'), count, { warmUp: 10_000, ...how }))
    const env = { ...process.env, UV_THREADPOOL_SIZE: String(how.threads ?? 4) }
    const child = spawn(process.execPath, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    child.stdout.on('data', chunk => (text += chunk))
    await new Promise(resolve => child.once('close', resolve))
    return { 'tasks/s': Number(text) }
  })
}

async function uwsgiRate(count, options) {
  return withDirectory('memory', async directory => {
    const [script, result, spool, log] = ['store.py', 'rate', 'spool', 'log'].map(name =>
      join(directory, name),
    )
    mkdirSync(spool)
    writeFileSync(script, PYTHON(count, result))
    const args = ['--plugin', 'python3', '--master', '--die-on-term', '--workers', '0', '--import', script]
    const more = [
      '--socket',
      join(directory, 'socket'),
      '--spooler-external',
      spool,
      '--logto',
      log,
      ...options,
    ]
    const child = spawn('uwsgi', [...args, ...more], { stdio: 'ignore' })
    try {
      const rate = await until('uWSGI is through', () => read(result))
      return { 'tasks/s': Number(rate) }
    } finally {
      child.kill('SIGKILL') // not SIGINT: while uWSGI is starting, Python would handle it
      if (child.exitCode === null) await new Promise(resolve => child.once('exit', resolve))
      rmSync(spool, { recursive: true })
    }
  })
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

export const title = 'Storing tasks, beside uwsgi.spool()'
export const about = `uWSGI's side calls uwsgi.spool() in a loop in a uWSGI process with the Python plugin, its log in a file: as it is by
default, with one line per task, and with spooler-quiet. spoold is one process, sync off as in uWSGI, three short keys; both on tmpfs. Where both run as root, spoold also looks whose spool it is, for each task; an ordinary user stores half as many again. In
the last rows both sides are spoold, with sync on, on disk (${diskKind()}): 64 concurrent callers of spool() beside one. Node has 4 threads
for syncs by default; the daemon and \`spoold enqueue\` use 16. Storing a task takes 10 µs of kernel time (open, write, close): one thread can
store 100,000 per second in C and 90,000 in a bare loop in Node. The faster a disk commits, the
less there is to share: at 0.3 ms per commit, 64 callers are limited by the CPU. An ext4 without a journal shares nothing: there they get 2
to 4 times the rate of one, with any number of threads.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi')) return undefined
  const count = Math.max(10_000, Math.round((50_000 * scale) / 10_000) * 10_000)
  const rows = []
  for (const [way, target] of [
    ['spool', 1.2],
    ['spoolSync', 1.2],
    ['batch', 1.2],
  ])
    for (const [peer, options] of [
      ['its default log', []],
      ['spooler-quiet', ['--spooler-quiet']],
    ]) {
      const name = `${way === 'batch' ? 'Batch of 10,000' : way}, uWSGI with ${peer}`
      const figures = await inPairs(
        Math.min(pairs, 3),
        () => ourRate('memory', count, { way, sync: false }),
        () => uwsgiRate(count, options),
        (mine, theirs) => say(`${name}: ${Math.round(mine['tasks/s'])} / ${Math.round(theirs['tasks/s'])}`),
      )
      for (const figure of figures) rows.push({ case: name, target, ...figure })
    }
  for (const threads of [4, 16]) {
    const name = `64 concurrent callers beside one, synced, on disk, UV_THREADPOOL_SIZE=${threads}`
    const callers = (callers, count) =>
      ourRate('disk', Math.round(count * scale), {
        way: 'callers',
        callers,
        threads,
        sync: true,
        warmUp: 300,
      })
    const figures = await inPairs(
      Math.min(pairs, 3),
      () => callers(64, 6000),
      () => callers(1, 1000),
      (mine, theirs) => say(`${name}: ${Math.round(mine['tasks/s'])} / ${Math.round(theirs['tasks/s'])}`),
    )
    for (const figure of figures) rows.push({ case: name, target: 10, ...figure })
  }
  return { rows }
}

// npm run bench -- versus DIR [CASE…] [--pairs=20 --scale=1]: compares the cost of this build with another checkout of
// spoold, which has to be built.
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { PYTHON } from '../test/python/environments.mjs'
import { fill, isInstalled, median, ROOT, withDirectory } from './harness.mjs'

const JS_SYNC = {
  file: 'noop.mjs',
  source: 'export default (env, task) => task.SPOOL_OK\n',
  options: ['--spooler-import'],
}
const JS_ASYNC = { ...JS_SYNC, source: 'export default async (env, task) => task.SPOOL_OK\n' }
const PYTHON_HOST = {
  file: 'noop.py',
  source: 'import uwsgi\ndef spooler(env): return uwsgi.SPOOL_OK\nuwsgi.spooler = spooler\n',
  options: ['--python', PYTHON, '--import'],
}

const CASES = [
  { name: 'start and stop, no task', handler: JS_SYNC, count: 0 },
  { name: 'synchronous JavaScript', handler: JS_SYNC, count: 100_000 },
  { name: 'async JavaScript', handler: JS_ASYNC, count: 100_000 },
  { name: 'Python', handler: PYTHON_HOST, count: 100_000 },
]

/** Returns the CPU seconds, user and system, of all children that have been waited for, to a hundredth. */
function childrenSeconds() {
  const fields = readFileSync('/proc/self/stat', 'latin1').split(') ')[1].split(' ')
  return (Number(fields[13]) + Number(fields[14])) / 100
}

/** Measures `spoold --drain` from exec to exit, with its workers and their interpreters. @returns CPU and wall seconds */
function drain(checkout, { handler: { file, source, options }, count }) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const handler = join(directory, file)
    writeFileSync(handler, source)
    const args = [join(checkout, 'bin/spoold.js'), '--drain', '--spooler-quiet', '--spooler', spool]
    const [cpu, wall] = [childrenSeconds(), performance.now()]
    const child = spawn(process.execPath, [...args, ...options, handler], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let errors = ''
    child.stderr.on('data', chunk => (errors += chunk))
    const code = await new Promise(resolve => child.once('close', resolve))
    if (code !== 0) throw new Error(`${checkout} exited with code ${code}: ${errors}`)
    return { cpu: childrenSeconds() - cpu, wall: (performance.now() - wall) / 1000 }
  })
}

/** Runs a pair; the order alternates. */
async function pairOf(i, mine, theirs) {
  if (i % 2 === 0) return { mine: await mine(), theirs: await theirs() }
  const other = await theirs()
  return { mine: await mine(), theirs: other }
}

const quarter = (numbers, part) => {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.round((sorted.length - 1) * part)]
}

/** Microseconds per task; milliseconds per run for a run without tasks. */
function row(name, what, count, pairs) {
  const unit = count === 0 ? 1e3 : 1e6 / count
  const ratios = pairs.map(({ mine, theirs }) => mine[what] / theirs[what])
  return {
    case: name,
    measured: `${what}, ${count === 0 ? 'ms per run' : 'µs per task'}`,
    'this build': median(pairs.map(({ mine }) => mine[what] * unit)),
    'the other': median(pairs.map(({ theirs }) => theirs[what] * unit)),
    'ratio, median': median(ratios),
    'middle half': `${quarter(ratios, 0.25).toFixed(2)}–${quarter(ratios, 0.75).toFixed(2)}`,
    spread: `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`,
  }
}

const commitOf = checkout =>
  execFileSync('git', ['-C', checkout, 'describe', '--always', '--dirty'], { encoding: 'utf8' }).trim()

/** @returns rows of figures. `other`: the path of a checkout. `only`: words of the names of the cases to run. */
export async function versus({ other, only, pairs, scale, say }) {
  const checkout = resolve(other)
  say(`${commitOf(ROOT)} beside ${commitOf(checkout)}, ${pairs} pairs`)
  const rows = []
  const wanted = CASES.filter(({ name }) => only.length === 0 || only.some(word => name.includes(word)))
  for (const { name, handler, count: full } of wanted) {
    if (handler === PYTHON_HOST && !isInstalled(PYTHON)) continue
    const count = Math.round(full * scale)
    const run = where => () => drain(where, { handler, count })
    const results = []
    for (let i = 0; i < pairs; i++) {
      results.push(await pairOf(i, run(ROOT), run(checkout)))
      const { mine, theirs } = results[i]
      say(`${name}: ${mine.cpu.toFixed(2)} s / ${theirs.cpu.toFixed(2)} s of CPU`)
    }
    for (const what of ['cpu', 'wall']) rows.push(row(name, what, count, results))
  }
  return rows
}

// `spoold ls` on a directory of a million tasks, from exec: time, processor time and memory.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { PYTHON } from '../test/python/environments.mjs'
import { BIN, fill, median, startSpoold, until, withDirectory } from './harness.mjs'

const FILES = 1_000_000

export const title = 'Listing a million tasks'
export const about =
  '`spoold ls` on tmpfs, from exec; medians, and the spread of the times. Processor time is that of one process. In the rows with a daemon, its one worker is busy with its first task all the time; in the others there is none, and all orders but `none` read every name first.'

/** The handler of the daemon. The first task never ends. */
const BUSY = 'export default () => new Promise(() => {})\n'

const CASES = [
  { args: ['--limit', '50'], withDaemon: [], target: '≤ 0.3 s' },
  { args: ['--limit', '50'], withDaemon: ['--spooler-ordered'], target: '≤ 0.3 s' },
  { args: ['--sort', 'none', '--limit', '50'], target: '≤ 0.3 s' },
  { args: ['--limit', '50'] },
  { args: ['--sort', 'age', '--limit', '50'] },
  { args: [], memory: '≤ 100 MB' },
  { args: ['--json'], memory: '≤ 100 MB' },
]

export async function run({ pairs, scale, say }) {
  const rows = []
  const count = Math.round(FILES * scale)
  await withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    for (const each of CASES) {
      const runs = await beside(each.withDaemon, directory, spool, () => runsOf(each, count, pairs, spool))
      const row = rowOf(each, runs)
      say(Object.values(row).join(' '))
      rows.push(row)
    }
  })
  return { rows }
}

/** @param options of the daemon; undefined: there is none */
async function beside(options, directory, spool, measure) {
  if (options === undefined) return measure()
  const all = ['--spooler-quiet', '--worker-reload-mercy', '0', ...options]
  const daemon = startSpoold(directory, spool, all, '--spooler', BUSY)
  try {
    await until('it runs', () => daemon.log().includes('is running'))
    await setTimeout(1000) // by then, the daemon has read the names
    return measure()
  } finally {
    await daemon.stop()
  }
}

function runsOf({ args }, count, pairs, spool) {
  const isWhole = !args.includes('--limit')
  const runs = Array.from({ length: isWhole ? 1 : pairs }, () => measured(['ls', ...args, spool]))
  const lines = (isWhole ? count : 50) + (args.includes('--json') ? 0 : 1)
  if (runs.some(each => each.lines !== lines))
    throw new Error(`ls ${args.join(' ')}: expected ${lines} lines`)
  return runs
}

function rowOf({ args, withDaemon, target = '', memory = '' }, runs) {
  const of = key => median(runs.map(each => each[key]))
  const times = runs.map(({ seconds }) => seconds)
  const [low, high] = [Math.min(...times), Math.max(...times)].map(time => time.toFixed(2))
  const parts = [', with a daemon', ...(withDaemon ?? []).map(option => `and \`${option}\``)]
  const daemon = withDaemon === undefined ? '' : parts.join(' ')
  return {
    command: `\`${`ls ${args.join(' ')}`.trim()}\`${daemon}`,
    time: `${of('seconds').toFixed(2)} s${runs.length > 1 ? ` (${low}–${high})` : ''}`,
    'processor time': `${of('processorSeconds').toFixed(2)} s`,
    'memory, peak': `${Math.round(of('megabytes'))} MB`,
    target: `${target}${memory}`,
  }
}

/** Measures a command from Python, because only the parent of a process knows its peak of memory. */
const MEASURE = `
import json, os, resource, subprocess, sys, time
begun = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
lines = sum(part.count(b'\\n') for part in iter(lambda: child.stdout.read(1 << 20), b''))
status = child.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({'status': status, 'lines': lines, 'seconds': time.perf_counter() - begun,
  'processorSeconds': used.ru_utime + used.ru_stime, 'megabytes': used.ru_maxrss / 1024}))
`

function measured(args) {
  const result = JSON.parse(
    execFileSync(PYTHON, ['-c', MEASURE, process.execPath, BIN, ...args], { encoding: 'utf8' }),
  )
  if (result.status !== 0) throw new Error(`${args.join(' ')} exited with code ${result.status}`)
  return result
}

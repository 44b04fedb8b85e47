// `spoold ls` on a directory of a million tasks, from exec: time, processor time and memory.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { BIN, fill, median, withDirectory } from './harness.mjs'

const FILES = 1_000_000

export const title = 'Listing a million tasks'
export const about =
  '`spoold ls` on tmpfs without a daemon, from exec; medians. Processor time is that of one process. All orders but `none` read every name first.'

const CASES = [
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
    for (const { args, target = '', memory = '' } of CASES) {
      const isWhole = !args.includes('--limit')
      const runs = Array.from({ length: isWhole ? 1 : pairs }, () => measured(['ls', ...args, spool]))
      const lines = (isWhole ? count : 50) + (args.includes('--json') ? 0 : 1)
      if (runs.some(each => each.lines !== lines))
        throw new Error(`ls ${args.join(' ')}: expected ${lines} lines`)
      const of = key => median(runs.map(each => each[key]))
      const name = `ls ${args.join(' ')}`.trim()
      say(`${name}: ${of('seconds').toFixed(2)} s, ${Math.round(of('megabytes'))} MB`)
      rows.push({
        command: `\`${name}\``,
        time: `${of('seconds').toFixed(2)} s`,
        'processor time': `${of('processorSeconds').toFixed(2)} s`,
        'memory, peak': `${Math.round(of('megabytes'))} MB`,
        target: `${target}${memory}`,
      })
    }
  })
  return { rows }
}

/** Python measures it: only the parent of a process knows its peak. */
const MEASURE = `
import json, os, resource, subprocess, sys, time
begun = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
lines = sum(part.count(b'\\n') for part in iter(lambda: child.stdout.read(1 << 20), b''))
status = child.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({'status': status, 'lines': lines, 'seconds': time.perf_counter() - begun,
  'processorSeconds': used.ru_utime + used.ru_stime, 'megabytes': used.ru_maxrss / 1024}))
`

function measured(args) {
  const result = JSON.parse(
    execFileSync('python3', ['-c', MEASURE, process.execPath, BIN, ...args], { encoding: 'utf8' }),
  )
  if (result.status !== 0) throw new Error(`${args.join(' ')} exited with code ${result.status}`)
  return result
}

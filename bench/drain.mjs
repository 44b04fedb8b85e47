// Throughput of a backlog of no-op tasks, compared with uWSGI.
import { join } from 'node:path'
import {
  fill,
  inPairs,
  isInstalled,
  leftOnTmpfs,
  startSpoold,
  startUwsgi,
  until,
  withDirectory,
} from './harness.mjs'

/**
 * Returns tasks per second for a directory of `count` files: from exec to the end of the last task, and from the end of the
 * first tenth, when the processes of both daemons have started and are warm.
 */
export async function rate(startDaemon, count, options) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const startedAt = performance.now()
    const daemon = startDaemon(directory, spool, options)
    try {
      const marks = []
      const mark = left => marks.push({ at: performance.now(), left })
      await until('a tenth is done', () => leftOnTmpfs(spool) < total * 0.9 && mark(leftOnTmpfs(spool)))
      await until('all is done', () => leftOnTmpfs(spool) < 2 && mark(leftOnTmpfs(spool))) // .spoold stays
      const [tenth, last] = marks
      return {
        'from exec': (count * 1000) / (last.at - startedAt),
        'from a tenth on': ((tenth.left - last.left) * 1000) / (last.at - tenth.at),
      }
    } finally {
      await daemon.stop()
    }
  })
}

const CASES = [
  {
    name: 'two processes, quiet',
    options: ['--spooler-processes', '2', '--spooler-quiet'],
    targets: { 'from exec': 1.2, 'from a tenth on': 1.4 },
  },
  {
    name: 'one process, quiet',
    options: ['--spooler-processes', '1', '--spooler-quiet'],
    targets: { 'from exec': 1.0, 'from a tenth on': 1.15 },
  },
  {
    name: 'two processes, ordered, quiet',
    options: ['--spooler-processes', '2', '--spooler-quiet', '--spooler-ordered'],
    mostPairs: 3,
  },
  {
    name: 'two processes, with a log line before and after each task',
    options: ['--spooler-processes', '2'],
    mostPairs: 3,
  },
]

export const title = 'A backlog of 100,000 no-op tasks, beside uWSGI'
export const about = `tmpfs; uWSGI with a Python function, spoold with a JavaScript one; tasks per second. "From exec" includes the
start of the program; "from a tenth on" omits the first tenth, while processes start and just-in-time compilers warm up.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi')) return undefined
  const count = Math.round(100_000 * scale)
  const rows = []
  for (const { name, options, targets = {}, mostPairs = pairs } of CASES) {
    const figures = await inPairs(
      Math.min(pairs, mostPairs),
      () => rate(startSpoold, count, options),
      () => rate(startUwsgi, count, options),
      (mine, theirs) => say(`${name}: ${Math.round(mine['from exec'])} / ${Math.round(theirs['from exec'])}`),
    )
    for (const figure of figures) rows.push({ case: name, target: targets[figure.name], ...figure })
  }
  return { rows }
}

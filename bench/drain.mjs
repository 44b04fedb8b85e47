// How fast a backlog of no-op tasks is run, beside uWSGI.
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
 * Tasks a second over a directory of `count` files: of the whole run, from the first task's end to the last's; and from
 * the first tenth on, when on both sides all processes have started and are warm.
 */
export async function rate(startDaemon, count, options) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const daemon = startDaemon(directory, spool, options)
    try {
      const marks = []
      const mark = left => marks.push({ at: performance.now(), left })
      await until('it begins', () => leftOnTmpfs(spool) < total - 10 && mark(leftOnTmpfs(spool)))
      await until('a tenth is done', () => leftOnTmpfs(spool) < total * 0.9 && mark(leftOnTmpfs(spool)))
      await until('all is done', () => leftOnTmpfs(spool) < 2 && mark(leftOnTmpfs(spool))) // .spoold stays
      const [first, tenth, last] = marks
      const between = (a, b) => ((a.left - b.left) * 1000) / (b.at - a.at)
      return { 'whole run': between(first, last), 'from a tenth on': between(tenth, last) }
    } finally {
      await daemon.stop()
    }
  })
}

const CASES = [
  { name: 'two processes, quiet', options: ['--spooler-processes', '2', '--spooler-quiet'], target: 1.3 },
  { name: 'one process, quiet', options: ['--spooler-processes', '1', '--spooler-quiet'], target: 1.1 },
  {
    name: 'two processes, ordered, quiet',
    options: ['--spooler-processes', '2', '--spooler-quiet', '--spooler-ordered'],
    target: 1.1,
  },
  {
    name: 'one process, ordered, quiet',
    options: ['--spooler-processes', '1', '--spooler-quiet', '--spooler-ordered'],
    target: 1.1,
  },
  {
    name: 'two processes, with a log line before and after each task',
    options: ['--spooler-processes', '2'],
    target: 1.0,
  },
]

export const title = 'A backlog of 100,000 no-op tasks, beside uWSGI'
export const about = `tmpfs; uWSGI with a Python function, spoold with a JavaScript one; tasks per second. "From a tenth on" omits the
first tenth, while processes start and just-in-time compilers warm up.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi')) return undefined
  const count = Math.round(100_000 * scale)
  const rows = []
  for (const { name, options, target } of CASES) {
    const figures = await inPairs(
      pairs,
      () => rate(startSpoold, count, options),
      () => rate(startUwsgi, count, options),
      (mine, theirs) => say(`${name}: ${Math.round(mine['whole run'])} / ${Math.round(theirs['whole run'])}`),
    )
    for (const figure of figures) rows.push({ case: name, target, ...figure })
  }
  return { rows }
}

// How fast a host runs a backlog of no-op tasks, beside uWSGI with the same language.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BIN, fill, inPairs, isInstalled, leftOnTmpfs, start, until, withDirectory } from './harness.mjs'

const PYTHON = {
  file: 'noop.py',
  source: 'import uwsgi\ndef spooler(env): return uwsgi.SPOOL_OK\nuwsgi.spooler = spooler\n',
  option: '--import',
  ours: ['--python', '/usr/bin/python3'],
  plugin: 'python3',
}

const CASES = [
  { name: 'Python, one process', language: PYTHON, processes: 1, target: 0.8 },
  { name: 'Python, two processes', language: PYTHON, processes: 2, target: 1.0 },
]

async function rate(count, { language, processes }, command) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    const file = join(directory, language.file)
    writeFileSync(file, language.source)
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const options = [
      '--spooler',
      spool,
      language.option,
      file,
      '--spooler-processes',
      `${processes}`,
      '--spooler-quiet',
    ]
    const [program, ...args] = command(language)
    const daemon = start(program, [...args, ...options], join(directory, 'log'))
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

const spoold = ({ ours }) => [process.execPath, BIN, ...ours]
const uwsgi = ({ plugin }) => ['uwsgi', '--plugin', plugin, '--master', '--spooler-frequency', '1']

export const title = 'A backlog of 100,000 no-op tasks for other languages, beside uWSGI'
export const about = `tmpfs; the same function in the same interpreter on both sides; tasks a second. In uWSGI it runs in the spooler's
process, in spoold in one of its own.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi')) return undefined
  const count = Math.round(100_000 * scale)
  const rows = []
  for (const bench of CASES) {
    const { name, target } = bench
    const figures = await inPairs(
      pairs,
      () => rate(count, bench, spoold),
      () => rate(count, bench, uwsgi),
      (mine, theirs) => say(`${name}: ${Math.round(mine['whole run'])} / ${Math.round(theirs['whole run'])}`),
    )
    for (const figure of figures) rows.push({ case: name, target, ...figure })
  }
  return { rows }
}

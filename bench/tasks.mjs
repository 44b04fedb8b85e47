// Throughput of other kinds of tasks: handlers that return a promise, and tasks that take some time.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rate } from './drain.mjs'
import { BIN, inPairs, isInstalled, start, startSpoold } from './harness.mjs'

const TWO = ['--spooler-processes', '2', '--spooler-quiet']
const ONE = ['--spooler-processes', '1', '--spooler-quiet']

/** Starts a daemon whose handler has this source. */
const withHandler = (command, option, file, source) => (directory, spool, options) => {
  const handler = join(directory, file)
  writeFileSync(handler, source)
  const [program, ...first] = command
  const args = [...first, option, handler, '--spooler', spool, ...options]
  return start(program, args, join(directory, 'log'))
}

const spooldWith = source => withHandler([process.execPath, BIN], '--spooler-import', 'handler.mjs', source)
const uwsgiWith = source =>
  withHandler(
    ['uwsgi', '--plugin', 'python3', '--master', '--spooler-frequency', '1'],
    '--import',
    'handler.py',
    source,
  )

const startAsync = spooldWith('export default async (env, task) => task.SPOOL_OK\n')

/** Handlers that keep the CPU busy for exactly this time. */
const busyJs = ms => `export default (env, task) => {
  const end = performance.now() + ${ms}
  while (performance.now() < end);
  return task.SPOOL_OK
}
`
const busyPython = ms => `import time, uwsgi
def spooler(env):
  end = time.perf_counter() + ${ms / 1000}
  while time.perf_counter() < end: pass
  return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`

export const title = 'Kinds of tasks'
export const about = `tmpfs, quiet. An \`async\` no-op handler beside a synchronous one, 100,000 tasks, two processes. Tasks that
keep the CPU busy for exactly 1 or 10 ms, one process, beside uWSGI: what each takes beyond that.`

export async function run({ pairs, scale, say }) {
  const rows = []
  const count = Math.round(100_000 * scale)
  const asynchronous = await inPairs(
    pairs,
    () => rate(startAsync, count, TWO),
    () => rate(startSpoold, count, TWO),
    (mine, theirs) =>
      say(`async: ${Math.round(mine['from a tenth on'])} / ${Math.round(theirs['from a tenth on'])}`),
  )
  for (const figure of asynchronous)
    rows.push({
      case: 'async beside synchronous handler',
      target: 0.9,
      ...figure,
      name: `tasks per second, ${figure.name}`,
    })
  if (!isInstalled('uwsgi')) return { rows }
  for (const { ms, tasks } of [
    { ms: 1, tasks: 3000 },
    { ms: 10, tasks: 500 },
  ]) {
    const beyond = async (starter, source) => ({
      'µs per task beyond the ideal':
        1e6 / (await rate(starter(source(ms)), Math.round(tasks * scale), ONE))['from a tenth on'] -
        ms * 1000,
    })
    const figures = await inPairs(
      Math.min(pairs, 3),
      () => beyond(spooldWith, busyJs),
      () => beyond(uwsgiWith, busyPython),
    )
    for (const figure of figures) rows.push({ case: `tasks of ${ms} ms`, ...figure })
  }
  return { rows }
}

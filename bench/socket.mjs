// Throughput of accepting tasks over a socket, compared with uWSGI. The tasks are not run.
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { PYTHON } from '../test/python/environments.mjs'
import { inPairs, isInstalled, ROOT, startTaker, startUwsgi, until, withDirectory } from './harness.mjs'

const CLIENTS = 4
const CLIENT = join(ROOT, 'bench/socket-client.py')

const UWSGI = ['--plugin', 'spooler', '--processes', '2', '--spooler-quiet', '--socket', '127.0.0.1:0']

/** Returns requests per second, with `window` of them in flight if the connection is kept open. */
async function rate(startDaemon, options, count, mode, window) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    mkdirSync(spool, { mode: 0o755 })
    const daemon = startDaemon(directory, spool, options)
    try {
      const port = () => /bound to TCP address \S*:(\d+) \(port auto-assigned\)/.exec(daemon.log())?.[1]
      await until('it listens', port)
      await until('it serves', () => /is running|spawned uWSGI worker 2/.test(daemon.log()))
      const ask = requests =>
        Number(
          execFileSync(PYTHON, [CLIENT, port(), requests, CLIENTS, mode, window].map(String), {
            encoding: 'utf8',
          }),
        )
      ask(count / 10) // warm
      return { 'tasks per second': count / ask(count) }
    } finally {
      await daemon.stop()
    }
  })
}

const OFF = ['--spooler-sync', 'off']
const CASES = [
  { name: 'one packet per connection', options: OFF, mode: 'one', window: 1, target: 1 },
  { name: 'kept open, 50 packets at a time', options: OFF, mode: 'open', window: 50, target: 3 },
  { name: 'kept open, one packet at a time', options: OFF, mode: 'open', window: 1 },
  { name: 'synced: one packet per connection', options: [], mode: 'one', window: 1 },
  { name: 'synced: kept open, 50 packets at a time', options: [], mode: 'open', window: 50 },
]

export const title = 'Tasks over a socket, beside uWSGI'
export const about = `tmpfs; ${CLIENTS} clients in Python on the same machine, which use a good part of its CPU. spooler-sync = off, as in
uWSGI, except in the rows marked synced. uWSGI has 2 workers and always one packet per connection; no daemon runs the tasks
(spooler-external). A connection costs Node 70 µs and uWSGI 42: even a bare Node server that answers four bytes and stores nothing accepts
0.7 times as many connections as uWSGI, which stores a task for each. If you have many tasks, keep the connection open.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi') || !isInstalled(PYTHON)) return undefined
  const count = Math.round(20_000 * scale)
  const rows = []
  for (const { name, options, mode, window, target } of CASES) {
    const figures = await inPairs(
      Math.min(pairs, 3),
      () => rate(startTaker, options, count, mode, window),
      () => rate(startExternal, UWSGI, count, 'one', 1),
      (mine, theirs) =>
        say(`${name}: ${Math.round(mine['tasks per second'])} / ${Math.round(theirs['tasks per second'])}`),
    )
    for (const figure of figures) rows.push({ case: name, target, ...figure })
  }
  return { rows }
}

/** Starts a uWSGI that stores tasks and runs none. */
function startExternal(directory, spool, options) {
  return startUwsgi(directory, spool, options, '--spooler-external')
}

// How fast tasks are taken over a socket, beside uWSGI. Nobody runs them: what is measured is the way in.
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { BIN, inPairs, isInstalled, ROOT, startSpoold, startUwsgi, until, withDirectory } from './harness.mjs'

const CLIENTS = 4
const CLIENT = join(ROOT, 'bench/socket-client.py')

/** uWSGI never syncs; where spoold can be told not to, it is. */
const SYNC_OFF = execFileSync(process.execPath, [BIN, '--help'], { encoding: 'utf8' }).includes(
  '--spooler-sync',
)
  ? ['--spooler-sync', 'off']
  : []
const SPOOLD = [
  '--spooler-watch',
  'off',
  '--spooler-frequency',
  '3600',
  '--spooler-quiet',
  '--socket',
  '127.0.0.1:0',
]
const UWSGI = ['--plugin', 'spooler', '--processes', '2', '--spooler-quiet', '--socket', '127.0.0.1:0']

/** Requests a second; `window` of them at a time where the connection is kept open. */
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
          execFileSync('python3', [CLIENT, port(), requests, CLIENTS, mode, window].map(String), {
            encoding: 'utf8',
          }),
        )
      ask(count / 10) // warm
      return { 'tasks a second': count / ask(count) }
    } finally {
      await daemon.stop()
    }
  })
}

const CASES = [
  { name: 'one packet a connection', sync: SYNC_OFF, mode: 'one', window: 1, target: 1.0 },
  { name: 'kept open, 50 packets at a time', sync: SYNC_OFF, mode: 'open', window: 50, target: 3.0 },
  { name: 'kept open, one packet at a time', sync: SYNC_OFF, mode: 'open', window: 1, target: 1.0 },
]

export const title = 'Tasks over a socket, beside uWSGI'
export const about = `tmpfs; ${CLIENTS} clients in Python on the same machine; ${SYNC_OFF.length > 0 ? 'spooler-sync = off, as uWSGI has it' : 'spoold syncs each task, uWSGI none'}.
uWSGI has 2 workers, no spooler process (spooler-external) and always one packet a connection; spoold does not look for tasks.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi') || !isInstalled('python3')) return undefined
  const count = Math.round(20_000 * scale)
  const rows = []
  for (const { name, sync, mode, window, target } of CASES) {
    const figures = await inPairs(
      pairs,
      () => rate(startSpoold, [...SPOOLD, ...sync], count, mode, window),
      () => rate(startExternal, UWSGI, count, 'one', 1),
      (mine, theirs) =>
        say(`${name}: ${Math.round(mine['tasks a second'])} / ${Math.round(theirs['tasks a second'])}`),
    )
    for (const figure of figures) rows.push({ case: name, target, ...figure })
  }
  return { rows }
}

/** A uWSGI that stores tasks and runs none. */
function startExternal(directory, spool, options) {
  return startUwsgi(directory, spool, options, '--spooler-external')
}

import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { UWSGIS, type Uwsgi } from '../helpers/uwsgi.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `
import sys, uwsgi
runs = []
def spooler(env):
    n = env['n'] if 'n' in env else env[b'n'].decode()
    runs.append(n)
    sys.stdout.write('%s, run %d\\n' % (n, runs.count(n)))
    sys.stdout.flush()
    return uwsgi.SPOOL_RETRY if n == 'twice' and runs.count(n) == 1 else uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`

/** Returns the log of one ini from the spooler's start to its end, with the same text for what differs by chance. */
async function logOf(
  python: Uwsgi['python'],
  command: string,
  ...args: readonly string[]
): Promise<string[]> {
  const spool = spoolDirectory()
  const home = dirname(spool)
  writeFileSync(join(home, 'tasks.py'), HANDLER)
  for (const n of ['first', 'second', 'twice']) drop(spool, `uwsgi_spoolfile_on_${n}`, packet({ n }))
  writeIni(join(home, 'app.ini'), {
    ...python,
    master: true,
    'die-on-term': true,
    spooler: spool,
    'spooler-ordered': true,
    'spooler-frequency': 1,
    import: 'tasks.py',
    logto: 'log',
  })
  const daemon = new TestProcess(command, args, { cwd: home })
  // a task's file is gone before the task's last line is logged
  const log = () => (existsSync(join(home, 'log')) ? readFileSync(join(home, 'log'), 'utf8') : '')
  const ends = () => log().match(/done with task/g)?.length ?? 0
  await until('all tasks have run', () => leftIn(spool).length === 0 && ends() === 3, 60_000)
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
  const lines = log().replaceAll(spool, 'SPOOL').trimEnd().split('\n')
  const from = lines.findIndex(line => line.startsWith('spawned the uWSGI spooler'))
  // the clock may reach the next second while a task runs
  return lines
    .slice(from)
    .map(line => line.replace(/\bpid:? \d+/g, 'pid N').replace(/ after [01] seconds$/, ' after S seconds'))
}

/** Lines that only one side logs. uWSGI logs its workers for requests and, at times, that a spooler is annihilated. */
const EXTRA = [
  /^\*\*\* spoold \S+ is running/,
  /^spooler \(pid N\) annihilated$/,
  /^spawned uWSGI worker 1 \(/,
  /^worker 1 buried after /,
]

describe('the log of a simple spool', () => {
  for (const uwsgi of UWSGIS)
    it(`has the lines of ${uwsgi.title} in the same order`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const [theirs, ours] = await Promise.all([
        logOf(uwsgi.python, uwsgi.command, '--ini', 'app.ini'),
        logOf({ ...uwsgi.python, ...uwsgi.samePython }, process.execPath, BIN, 'app.ini'),
      ])
      const spoken = (lines: readonly string[]) => lines.filter(line => !EXTRA.some(each => each.test(line)))
      assert.deepEqual(spoken(ours), spoken(theirs))
      assert.equal(theirs.filter(line => line.includes('done with task')).length, 3)
      assert.equal(theirs.filter(line => line.endsWith(', run 2')).length, 1)
    })
})

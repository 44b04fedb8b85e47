import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { readJournal, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive, TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = 300

for (const uwsgi of UWSGIS)
  describe(`one ini with spooler2, for ${uwsgi.title} and spoold`, {
    skip: skipUnless(uwsgi.needs, 'python3'),
  }, () => {
    it('lets uWSGI enqueue in a spooler-external, and has spoold run the tasks', async () => {
      const spool = spoolDirectory()
      const directory = dirname(spool)
      const script = join(directory, 'app.py')
      // only in spoold's processes does uwsgi.opt have spooler, so the code enqueues in uWSGI's alone
      writeFileSync(
        script,
        `
import os, uwsgi
def spooler(env):
    with open(${JSON.stringify(join(directory, 'journal'))}, 'a') as out:
        out.write(env[b'n'].decode() + ' ' + str(os.getppid()) + '\\n')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
if 'spooler' not in uwsgi.opt:
    for n in range(5): uwsgi.spool({b'n': str(n).encode()})
`,
      )
      const daemon = await startDaemon({
        spool,
        isForeign: true,
        isAside: true,
        ini: {
          ...uwsgi.python,
          ...uwsgi.samePython,
          'shared-import': script,
          spooler2: `dir=${spool},processes=3,frequency=1`,
        },
      })
      const workers = daemon.children().filter(isAlive)
      assert.equal(workers.length, 3)
      const peer = new TestProcess(uwsgi.command, ['--master', '--die-on-term', daemon.iniFile], {
        cwd: directory,
      })
      await until('all tasks have run', () => daemon.journal().length === 5)
      assert.deepEqual(
        daemon
          .journal()
          .map(line => line.split(' ')[0])
          .sort(),
        ['0', '1', '2', '3', '4'],
      )
      for (const line of daemon.journal())
        assert.ok(workers.includes(Number(line.split(' ')[1])), `${line}: ran elsewhere than in ${workers}`)
      assert.ok(peer.isRunning)
      assert.doesNotMatch(peer.output, /spooler2|spawned the uWSGI spooler/)
    })

    it('has both serve one spool, in which each task runs once', async () => {
      const spool = spoolDirectory()
      const directory = dirname(spool)
      const script = join(directory, 'tasks.py')
      writeFileSync(
        script,
        `
import os, time, uwsgi
def spooler(env):
    with open(${JSON.stringify(join(directory, 'journal'))}, 'a') as out:
        out.write(env[b'n'].decode() + ' ' + ('spoold' if hasattr(uwsgi, '_wire') else 'uwsgi') + '\\n')
    time.sleep(0.002)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
      )
      const ini = join(directory, 'both.ini')
      writeIni(ini, {
        ...uwsgi.python,
        ...uwsgi.samePython,
        spooler: spool,
        'spooler-import': script,
        'spooler-frequency': 1,
        'spooler-quiet': true,
        spooler2: `dir=${spool},processes=2`,
      })
      for (let n = 0; n < TASKS; n++) drop(spool, `uwsgi_spoolfile_on_host_${n}`, packet({ n: String(n) }))
      const peer = new TestProcess(uwsgi.command, ['--master', '--die-on-term', ini], {
        cwd: directory,
      })
      const checked = await spoold(['check', ini])
      assert.match(checked.stdout, /the configuration is good \(1 spool\)/)
      const daemon = await startDaemon({ spool, isForeign: true, ini: { include: ini } })
      assert.equal(daemon.children().filter(isAlive).length, 2, 'the spool that three lines name is one')
      await until('all tasks have run', () => leftIn(spool).length === 0)
      const runs = readJournal(directory)
      assert.equal(new Set(runs.map(line => line.split(' ')[0])).size, TASKS)
      assert.equal(runs.length, TASKS)
      assert.match(peer.output, /spawned the uWSGI spooler on dir/)
    })

    it('is refused by uWSGI only if strict is set', () => {
      const directory = dirname(spoolDirectory())
      const ini = join(directory, 'strict.ini')
      const start = () =>
        spawnSync(uwsgi.command, ['--no-server', '--ini', ini], { encoding: 'utf8', timeout: 5000 })
      writeIni(ini, { spooler2: 'dir=mail,processes=4' })
      assert.equal(start().status, 0)
      writeIni(ini, { strict: true, spooler2: 'dir=mail,processes=4' })
      const { status, stdout, stderr } = start()
      assert.equal(status, 1)
      assert.match(`${stdout}${stderr}`, /unknown config directive: spooler2/)
    })
  })

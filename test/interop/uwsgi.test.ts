import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = isLong ? 50_000 : 5000

for (const uwsgi of UWSGIS)
  describe(`spoold and ${uwsgi.title} on one directory`, { skip: skipUnless(uwsgi.needs) }, () => {
    it(`run ${TASKS} tasks of 1–3 ms once each, and each side runs at least 2 % of them`, async () => {
      const spool = spoolDirectory()
      for (let i = 0; i < TASKS; i++) drop(spool, `uwsgi_spoolfile_on_shared_${i}`, packet({ n: String(i) }))
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: `def spooler(env):
    journal('uwsgi ' + env[b'n'].decode())
    time.sleep(random.uniform(0.001, 0.003))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
        args: ['--spooler-processes', '2', '--spooler-quiet'],
      })
      // uWSGI's spoolers run at nice 19, and get little where others want the processors
      const part = TASKS * 0.02
      await until('uWSGI has run its part', () => readJournal(dirname(spool)).length >= part)
      const daemon = await startDaemon({
        spool,
        handler: `export default async (env, task) => {
        JOURNAL('spoold ' + env.n)
        await new Promise(resolve => setTimeout(resolve, 1 + 2 * Math.random()))
        return task.SPOOL_OK
      }`,
        ini: { 'spooler-processes': 2, 'spooler-quiet': true, 'spooler-frequency': 1 },
      })
      await until('all tasks have run', () => leftIn(spool).length === 0, 60_000)
      const lines = daemon.journal()
      const numbers = lines.map(line => Number(line.split(' ')[1])).sort((a, b) => a - b)
      assert.deepEqual(
        numbers,
        Array.from({ length: TASKS }, (_, i) => i),
      )
      const ours = lines.filter(line => line.startsWith('spoold')).length
      assert.ok(ours >= part && ours <= TASKS - part, `spoold ran ${ours} of ${TASKS}`)
      assert.doesNotMatch(peer.output, /something horrible/)
    })

    it('uWSGI leaves a task alone while spoold runs it', async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const daemon = await startDaemon({
        spool,
        handler: `import { existsSync } from 'node:fs'
      export default async (env, task) => {
        JOURNAL('spoold ' + task.name)
        while (!existsSync(${JSON.stringify(gate)})) await new Promise(resolve => setTimeout(resolve, 5))
        return task.SPOOL_OK
      }`,
      })
      drop(spool, 'uwsgi_spoolfile_on_held')
      await until('spoold runs the task', () => daemon.journal().length === 1)
      const handler = `def spooler(env):
    journal('uwsgi ' + env['spooler_task_name'].decode())
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`
      startUwsgi({ uwsgi, spool, handler })
      for (const name of ['uwsgi_spoolfile_on_1', 'uwsgi_spoolfile_on_2']) {
        drop(spool, name) // spoold's only worker is busy, so uWSGI runs each of these in a scan of its own
        await until('uWSGI has scanned', () => daemon.journal().includes(`uwsgi ${name}`))
      }
      writeFileSync(gate, '')
      await until('the held task is done', () => leftIn(spool).length === 0)
      assert.deepEqual(
        daemon.journal().filter(line => line.includes('held')),
        ['spoold uwsgi_spoolfile_on_held'],
      )
    })

    it('spoold leaves a task alone while uWSGI runs it, and runs it after uWSGI is killed', async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const handler = `def spooler(env):
    journal('uwsgi ' + env['spooler_task_name'].decode())
    while not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.005)
    return uwsgi.SPOOL_RETRY
uwsgi.spooler = spooler`
      drop(spool, 'uwsgi_spoolfile_on_held')
      const peer = startUwsgi({ uwsgi, spool, handler })
      await until('uWSGI runs the task', () => readJournal(dirname(spool)).length === 1)
      const daemon = await startDaemon({
        spool,
        handler: `export default (env, task) => { JOURNAL('spoold ' + task.name); return task.SPOOL_OK }`,
        ini: { 'spooler-frequency': 1 },
      })
      for (const name of ['uwsgi_spoolfile_on_1', 'uwsgi_spoolfile_on_2']) {
        drop(spool, name)
        await until('spoold has scanned', () => daemon.journal().includes(`spoold ${name}`))
      }
      assert.ok(!daemon.journal().includes('spoold uwsgi_spoolfile_on_held'))
      peer.child.kill('SIGKILL')
      for (const pid of peer.children()) process.kill(pid, 'SIGKILL')
      await until('uWSGI is gone and spoold runs the task', () => {
        for (const pid of peer.children()) process.kill(pid, 'SIGKILL')
        writeFileSync(gate, '')
        return daemon.journal().includes('spoold uwsgi_spoolfile_on_held')
      })
    })

    it('uWSGI runs a task that spoold has retried and recorded, and logs no error about the state of spoold', async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({
        spool,
        handler: `export default (env, task) => { JOURNAL('spoold'); return task.SPOOL_RETRY }`,
        ini: { 'spooler-frequency': 2 },
      })
      drop(spool, 'uwsgi_spoolfile_on_retried', packet({ n: '7' }, 'body'))
      await until('spoold has tried the task', () => daemon.journal().length === 1)
      daemon.child.kill('SIGTERM')
      await daemon.code()
      const handler = `def spooler(env):
    journal('uwsgi ' + env[b'n'].decode() + ' ' + env['body'].decode())
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`
      const peer = startUwsgi({ uwsgi, spool, handler })
      await until('uWSGI has run the task', () => leftIn(spool).length === 0)
      assert.deepEqual(daemon.journal(), ['spoold', 'uwsgi 7 body'])
      assert.ok(existsSync(join(spool, '.spoold/records/uwsgi_spoolfile_on_retried.json')))
      assert.doesNotMatch(peer.output, /error|horrible/i)
    })
  })

describe('a task file that another program has locked', { skip: skipUnless('python3') }, () => {
  const lockers = {
    'a POSIX write lock': 'fcntl.lockf(f, fcntl.LOCK_EX)',
    'a POSIX read lock': 'fcntl.lockf(f, fcntl.LOCK_SH)',
    'a POSIX lock on one byte far beyond the end of the file': 'fcntl.lockf(f, fcntl.LOCK_EX, 1, 10**9)',
    'an OFD lock': "fcntl.fcntl(f, 37, struct.pack('hhllhh', fcntl.F_WRLCK, 0, 0, 0, 0, 0))",
  }
  for (const [what, call] of Object.entries(lockers))
    it(`is left alone until ${what} is released`, async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const path = drop(spool, 'held')
      const script = `import fcntl, struct, time, os
f = open(${JSON.stringify(path)}, 'r+')
${call}
print('locked', flush=True)
while not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.005)`
      const locker = new TestProcess(PYTHON, ['-c', script])
      await locker.waitFor('locked')
      const daemon = await startDaemon({ spool })
      for (let i = 0; i < 3; i++) {
        drop(spool, `other-${i}`)
        await until('another task has run', () => daemon.journal().includes(`other-${i}`))
      }
      assert.ok(!daemon.journal().includes('held'))
      writeFileSync(gate, '')
      await until('the released task has run', () => daemon.journal().includes('held'))
    })

  it('runs in spite of flock(2), which uWSGI does not see either', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, 'flocked')
    const locker = new TestProcess(PYTHON, [
      '-c',
      `import fcntl, sys
f = open(${JSON.stringify(path)}, 'r+')
fcntl.flock(f, fcntl.LOCK_EX)
print('locked', flush=True)
import time; time.sleep(60)`,
    ])
    await locker.waitFor('locked')
    const daemon = await startDaemon({ spool })
    await until('the task has run', () => daemon.journal().includes('flocked'))
  })
})

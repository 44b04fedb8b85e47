import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { listed } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const IN_A_YEAR = Math.floor(Date.now() / 1000) + 31_536_000

const JOURNALS = `def spooler(env):
    journal(env['spooler_task_name'].decode())
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`

/** Waits until uWSGI has run a new task, and so has looked at all tasks that were there before. */
async function untilScanned(spool: string, name: string): Promise<void> {
  drop(spool, name)
  await until('uWSGI has scanned', () => readJournal(dirname(spool)).includes(name))
  await until('uWSGI has removed the task', () => !leftIn(spool).includes(name))
}

async function done(...args: string[]): Promise<void> {
  const { code, stderr } = await spoold([...args, '--quiet'])
  assert.equal(code, 0, stderr)
}

for (const uwsgi of UWSGIS)
  describe(`the commands of spoold beside ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, () => {
    it('hold keeps a task from uWSGI until release, and kick makes uWSGI run a task that is due in a year', async () => {
      const spool = spoolDirectory()
      const held = drop(spool, `${NAME}_held`)
      const kicked = drop(spool, `${NAME}_kicked`, packet({ at: String(IN_A_YEAR) }), IN_A_YEAR)
      await done('hold', held)
      startUwsgi({ uwsgi, spool, handler: JOURNALS })
      await untilScanned(spool, `${NAME}_1`)
      await untilScanned(spool, `${NAME}_2`)
      assert.deepEqual(leftIn(spool), [`${NAME}_held`, `${NAME}_kicked`])
      await done('kick', kicked)
      await until('the kicked task has run', () => !leftIn(spool).includes(`${NAME}_kicked`))
      assert.deepEqual(leftIn(spool), [`${NAME}_held`])
      await done('release', held)
      await until('the released task has run', () => leftIn(spool).length === 0)
    })

    it('requeue returns a dead letter to the spool, and uWSGI runs the task with its body', async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, handler: `export default () => ({ bury: 'not mine' })` })
      drop(spool, NAME, packet({ to: 'joe' }, 'a body'))
      await until(
        'the task is a dead letter',
        () => existsSync(join(spool, '.spoold/dead', NAME)) && leftIn(spool).length === 0,
      )
      daemon.child.kill('SIGTERM')
      await daemon.code()
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: `def spooler(env):
    journal(env['spooler_task_name'].decode() + ' ' + env[b'to'].decode() + ' ' + env['body'].decode())
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
      })
      await done('requeue', '--all', '--keep-attempts', spool)
      await until('uWSGI has run the task', () => readJournal(dirname(spool)).includes(`${NAME} joe a body`))
      await until('the task is removed', () => leftIn(spool).length === 0)
      assert.doesNotMatch(peer.output, /error|horrible/i)
    })

    it('ls shows a task that uWSGI runs as running, with its pid, and rm, kick, hold and move leave the task alone', async () => {
      const spool = spoolDirectory()
      const other = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const path = drop(spool, NAME)
      startUwsgi({
        uwsgi,
        spool,
        handler: `def spooler(env):
    journal(str(os.getpid()))
    while not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.005)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
      })
      const pid = await until('uWSGI runs the task', () => readJournal(dirname(spool))[0])
      const { state, pid: seen } = (await listed(spool)).get(NAME)
      assert.deepEqual([state, seen], ['running', Number(pid)])
      for (const command of [['rm'], ['kick'], ['hold'], ['move', '--to', other]]) {
        const { code, stderr } = await spoold([...command, path])
        assert.deepEqual([code, stderr], [1, `spoold: ${path} is running; it was left alone\n`])
      }
      assert.deepEqual([leftIn(spool), leftIn(other)], [[NAME], []])
      writeFileSync(gate, '')
      await until('the task is done', () => leftIn(spool).length === 0)
    })
  })

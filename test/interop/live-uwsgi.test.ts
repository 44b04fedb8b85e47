import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { asOptions, startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

for (const uwsgi of UWSGIS)
  describe(`spoold beside a running ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, () => {
    it("leaves uWSGI's pidfile alone, and check warns of the pidfile and of the socket", async () => {
      const spool = spoolDirectory()
      const pidfile = join(dirname(spool), 'master.pid')
      const socket = join(dirname(spool), 'app.sock')
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: 'uwsgi.spooler = lambda env: -2\n',
        args: ['--pidfile', pidfile, '--socket', socket],
      })
      await peer.waitFor('spawned the uWSGI spooler')
      const before = readFileSync(pidfile, 'utf8')
      const daemon = await startDaemon({ spool, ini: { pidfile, vacuum: true } })
      await daemon.waitFor(/master.pid names a uWSGI that runs \(pid \d+\), and is left alone/)
      daemon.child.kill('SIGTERM')
      await daemon.code()
      assert.equal(readFileSync(pidfile, 'utf8'), before)
      const ini = join(dirname(spool), 'shared.ini')
      writeFileSync(
        ini,
        `[uwsgi]\nspooler = ${spool}\npidfile = ${pidfile}\nsocket = ${socket}\nspooler-import = handler.mjs\n`,
      )
      const { stdout } = await spoold(['check', ini], { cwd: dirname(spool) })
      assert.match(stdout, /shared.ini:3: warning: pidfile: .* names a uWSGI that runs/)
      assert.match(stdout, /shared.ini:4: warning: socket: a uWSGI \(pid \d+\) listens on .*app.sock now/)
    })

    it('documents the lines with which @spool enqueues in uWSGI under spooler-external', async () => {
      const spool = spoolDirectory()
      const home = dirname(spool)
      const page = readFileSync(new URL('../../../docs/compatibility.md', import.meta.url), 'utf8')
      const [, lines = ''] = /```python\n# spooler_is_external.py\n([\s\S]*?)```/.exec(page) ?? []
      writeFileSync(join(home, 'spooler_is_external.py'), lines)
      writeFileSync(
        join(home, 'web.py'),
        `from uwsgidecorators import spool
@spool
def mail(arguments): pass
mail(to='joe')
def application(environ, start): return [b'']
`,
      )
      const options = [
        ...asOptions(uwsgi.python),
        '--master',
        '--socket',
        'app.sock',
        '--spooler-external',
        spool,
      ]
      const run = (more: readonly string[]) =>
        new TestProcess(uwsgi.command, [...options, ...more, '--module', 'web', '--die-on-term'], {
          cwd: home,
        })
      // this uWSGI is not stopped here: it loses a signal that comes while it starts, and would run for ever
      await run([]).waitFor('you have to enable the uWSGI spooler')
      run(['--shared-import', 'spooler_is_external'])
      await until('the task is stored', () => leftIn(spool).length === 1)
      assert.ok(existsSync(spool))
    })
  })

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { sendSignal } from '#src/engines/client/send-signal.js'
import { spoold } from '../helpers/cli.js'
import { readJournal } from '../helpers/daemon.js'
import { skipUnless } from '../helpers/requires.js'
import { journaled, withSignals } from '../helpers/signals.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS, withPlugins } from '../helpers/uwsgi.js'
import { portOf } from '../helpers/wire.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const daemonWithSocket = () =>
  withSignals(
    `registerSignal(1, 'spooler', n => JOURNAL(n)); registerSignal(17, 'spooler', n => JOURNAL(n))`,
    {
      ini: { socket: ['127.0.0.1:0', 'app.sock'] },
    },
  )

describe('a signal from outside', () => {
  it('arrives from spoold signal over TCP, over a unix socket, and by the socket of an ini', async () => {
    const daemon = await daemonWithSocket()
    const sock = join(daemon.directory, 'app.sock')
    const ini = join(daemon.directory, 'client.ini')
    writeFileSync(ini, `[uwsgi]\nsocket = ${sock}\n`)
    for (const where of [
      ['--socket', `127.0.0.1:${await portOf(daemon)}`],
      ['--socket', sock],
      ['--ini', ini],
    ])
      assert.deepEqual(await spoold(['signal', '17', ...where]), { code: 0, stdout: '', stderr: '' })
    assert.deepEqual(await journaled(daemon, /./, 3), ['17', '17', '17'])
  })

  it('arrives from sendSignal', async () => {
    const daemon = await daemonWithSocket()
    await sendSignal(17, { socket: join(daemon.directory, 'app.sock') })
    await sendSignal(1, { socket: join(daemon.directory, 'app.sock') })
    assert.deepEqual(await journaled(daemon, /./, 2), ['17', '1'])
  })

  for (const uwsgi of UWSGIS)
    it(`arrives from --signal of ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const daemon = await daemonWithSocket()
      const address = `127.0.0.1:${await portOf(daemon)}`
      const { status, stderr } = spawnSync(uwsgi.command, ['--signal', `${address},17`], { encoding: 'utf8' })
      assert.equal(status, 0)
      assert.match(stderr, new RegExp(`signal 17 delivered to node ${address}`))
      await journaled(daemon, /17/, 1)
    })

  it('arrives from a client that does not wait for the answer, such as the Perl client', async () => {
    const daemon = await daemonWithSocket()
    const socket = connect(join(daemon.directory, 'app.sock'))
    socket.end(Buffer.of(110, 0, 0, 17), () => socket.destroy())
    await journaled(daemon, /17/, 1)
  })

  for (const uwsgi of UWSGIS)
    it(`reaches ${uwsgi.title} from spoold signal`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const spool = spoolDirectory()
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: `
def handle(num): journal('got %d' % num)
uwsgi.register_signal(17, 'spooler', handle)
uwsgi.spooler = lambda env: uwsgi.SPOOL_OK`,
        args: [...withPlugins(uwsgi, 'signal'), '--socket', 'app.sock'],
      })
      await peer.waitFor('spawned uWSGI worker 1')
      const socket = join(dirname(spool), 'app.sock')
      assert.deepEqual(await spoold(['signal', '17', '--socket', socket]), {
        code: 0,
        stdout: '',
        stderr: '',
      })
      await until('uWSGI has handled the signal', () => readJournal(dirname(spool)).includes('got 17'))
    })

  const WRONG: ReadonlyArray<readonly [args: readonly string[], code: number, expected: RegExp]> = [
    [['17'], 64, /\[USAGE\] say where: --socket ADDRESS or --ini FILE/],
    [['17', '--socket', 'a', '--ini', 'b'], 64, /say where/],
    [['x', '--socket', 'a'], 64, /expected a signal number from 0 to 255, got "x"/],
    [['256', '--socket', 'a'], 64, /\[SIGNAL_INVALID\] expected a signal number from 0 to 255, got 256/],
    [['17', '--socket', 'nowhere.sock'], 75, /\[SOCKET_UNREACHABLE\] no connection to nowhere.sock/],
    [['17', '--socket', 'a:b'], 64, /\[ADDRESS_INVALID\]/],
    [['17', '--ini', 'empty.ini'], 1, /\[CONFIG_INVALID\] empty.ini names no socket; add socket = ADDRESS/],
    [[], 64, /missing required argument 'number'; see spoold signal --help/],
  ]
  for (const [args, code, expected] of WRONG)
    it(`fails with exit code ${code}: spoold signal ${args.join(' ')}`, async () => {
      const cwd = workspace()
      writeFileSync(join(cwd, 'empty.ini'), '[uwsgi]\n')
      const result = await spoold(['signal', ...args], { cwd })
      assert.equal(result.code, code)
      assert.match(result.stderr, expected)
    })
})

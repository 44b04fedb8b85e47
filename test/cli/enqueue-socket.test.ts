import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { Batch, enqueue, spoolSync } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

/** Starts a daemon with a socket, and with an external spool that it does not run. */
async function start() {
  const [spool, external] = [spoolDirectory(), spoolDirectory()]
  const socket = join(dirname(spool), 'a.sock')
  await startDaemon({ spool, ini: { 'spooler-external': external, socket } })
  return { spool, external, socket }
}

describe('over a socket', () => {
  it('the library stores tasks, one by one and in batches, also in external spools', async () => {
    const { external, socket } = await start()
    const { path, isDuplicate } = await enqueue({ n: 1, spooler: external }, { socket, body: 'b' })
    assert.deepEqual([path, isDuplicate], [socket, false])
    const batch = new Batch({ socket })
    for (let n = 2; n <= 50; n++) batch.add({ n, spooler: `${external}/` })
    assert.equal((await batch.spool()).length, 49)
    assert.equal(leftIn(external).length, 50)
    const first = leftIn(external).map(name => readFileSync(join(external, name)))
    assert.ok(first.some(bytes => bytes.equals(packet({ n: '1', spooler: external }, 'b'))))
    await assert.rejects(enqueue({ spooler: dirname(external) }, { socket }), { code: 'SOCKET_REFUSED' })
    await assert.rejects(enqueue({ n: 1 }, { socket, id: 'a' }), { code: 'REQUEST_INVALID' })
    assert.throws(() => spoolSync({ n: 1 }, { socket }), { code: 'REQUEST_INVALID' })
    await assert.rejects(new Batch({ socket, allOrNothing: true }).add({ n: 1 }).spool(), {
      code: 'REQUEST_INVALID',
    })
    assert.equal(leftIn(external).length, 50)
  })

  it('a task is known to the daemon at once, even when spooler-watch is off', async () => {
    const spool = spoolDirectory()
    const socket = join(dirname(spool), 'a.sock')
    for (const sync of ['on', 'off']) {
      const daemon = await startDaemon({
        spool,
        ini: {
          socket,
          'spooler-watch': 'off',
          'spooler-frequency': 3600,
          'spooler-ordered': true,
          'spooler-sync': sync,
        },
      })
      await enqueue({ n: 1 }, { socket })
      await enqueue({ n: 2 }, { socket, priority: 5, body: 'b' })
      await until('both tasks have run', () => leftIn(spool).length === 0)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0, daemon.output)
    }
  })

  it('the command line stores tasks, and exits with 75 when nothing listens', async () => {
    const { external, socket } = await start()
    const one = await spoold(['enqueue', '--socket', socket, 'a=b', `spooler=${external}`])
    assert.deepEqual(one, { code: 0, stdout: `${socket}\n`, stderr: '' })
    const lines = Array.from({ length: 20 }, (_, n) => `${JSON.stringify({ n, spooler: external })}\n`).join(
      '',
    )
    const many = await spoold(['enqueue', '--quiet', '--socket', socket, '--json', '-'], { input: lines })
    assert.deepEqual(many, { code: 0, stdout: '', stderr: '' })
    assert.equal(leftIn(external).length, 21)
    const refused = await spoold(['enqueue', '--socket', `${socket}.none`, 'a=b'])
    assert.equal(refused.code, 75)
    assert.match(refused.stderr, /^spoold: \[SOCKET_UNREACHABLE\]/)
    assert.equal((await spoold(['enqueue', '--socket', '127.0.0.1:99999', 'a=b'])).code, 64)
  })

  it('a daemon with external spools alone takes tasks for others to run', async () => {
    const external = spoolDirectory()
    const directory = workspace()
    const ini = join(directory, 'app.ini')
    const socket = join(directory, 'a.sock')
    writeFileSync(ini, `[uwsgi]\nspooler-external = ${external}\nsocket = ${socket}\n`)
    const daemon = new TestProcess(process.execPath, [BIN, ini])
    await daemon.waitFor(/is running/)
    await enqueue({ n: 1 }, { socket })
    assert.equal(leftIn(external).length, 1)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
  })
})

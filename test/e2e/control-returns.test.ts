import assert from 'node:assert/strict'
import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { controlOf, controlsIn, snapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** How often the daemon looks whether its sockets are there (doors/daemon/control.ts). */
const LOOK_MS = 5000

describe('a control socket that somebody removed', () => {
  it('returns by itself, also with .spoold, and goes with the daemon', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    for (const path of [controlOf(spool), join(spool, '.spoold')]) {
      rmSync(path, { recursive: true })
      await until('it is back', () => existsSync(controlOf(spool)))
      assert.equal((await snapshotOf(spool)).daemon.pid, daemon.pid)
    }
    assert.ok(!daemon.output.includes('no control socket'), daemon.output)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(controlsIn(spool), [])
  })

  it('returns, too, if that fails at first, of which the log speaks once', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    rmSync(join(spool, '.spoold'), { recursive: true })
    writeFileSync(join(spool, '.spoold'), 'not a directory')
    await daemon.waitFor(/no control socket/)
    const looks = performance.now() + 2 * LOOK_MS // it tries again meanwhile
    await until('it has looked again', () => performance.now() > looks, 3 * LOOK_MS)
    rmSync(join(spool, '.spoold'))
    await until('it is back', () => existsSync(controlOf(spool)))
    assert.equal((await snapshotOf(spool)).daemon.pid, daemon.pid)
    assert.equal(daemon.output.match(/no control socket/g)?.length, 1, daemon.output)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('that cannot return does not keep the notes of other spools from it', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const daemon = await startDaemon({ spool, ini: { spooler: [spool, other], 'spooler-hide': 'secret' } })
    const note = join(other, '.spoold/hide')
    await until('the note is there', () => existsSync(note))
    rmSync(join(spool, '.spoold'), { recursive: true })
    writeFileSync(join(spool, '.spoold'), 'not a directory')
    await daemon.waitFor(/no control socket/)
    rmSync(note)
    await until('the note is back', () => existsSync(note))
  })

  it('returns when somebody closed .spoold to the daemon, and opens it again', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    for (const path of [dirname(spool), spool]) chmodSync(path, 0o777)
    const daemon = await startDaemon({ spool, ini: { uid: 65534, gid: 65534 } })
    chmodSync(join(spool, '.spoold'), 0)
    await daemon.waitFor(/no control socket/)
    chmodSync(join(spool, '.spoold'), 0o700)
    await until('it is back', async () => (await snapshotOf(spool).catch(() => undefined))?.daemon.pid)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

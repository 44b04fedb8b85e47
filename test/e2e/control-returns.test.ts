import assert from 'node:assert/strict'
import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { controlOf, controlsIn, snapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('a control socket that somebody removed', () => {
  it('is made again, even when .spoold was removed with it, and is removed when the daemon stops', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    for (const path of [controlOf(spool), join(spool, '.spoold')]) {
      rmSync(path, { recursive: true })
      await until('the socket is back', () => existsSync(controlOf(spool)))
      assert.equal((await snapshotOf(spool)).daemon.pid, daemon.pid)
    }
    assert.ok(!daemon.output.includes('no control socket'), daemon.output)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(controlsIn(spool), [])
  })

  it('is made again once that is possible, and until then the log reports the failure once, not at each look', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const daemon = await startDaemon({ spool, ini: { spooler: [spool, other], 'spooler-hide': 'secret' } })
    const note = join(other, '.spoold/hide')
    rmSync(join(spool, '.spoold'), { recursive: true })
    writeFileSync(join(spool, '.spoold'), 'not a directory')
    await daemon.waitFor(/no control socket/)
    // Each look restores the note of the other spool, and then tries again to open the socket.
    for (const look of ['second', 'third']) {
      rmSync(note)
      await until(`the ${look} look has begun`, () => existsSync(note))
    }
    rmSync(join(spool, '.spoold'))
    await until('the socket is back', () => existsSync(controlOf(spool)))
    assert.equal((await snapshotOf(spool)).daemon.pid, daemon.pid)
    assert.equal(daemon.output.match(/no control socket/g)?.length, 1, daemon.output)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('does not keep the daemon from restoring the notes of other spools if it cannot be made again', async () => {
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

  it('is made again after .spoold was closed to the daemon and opened again', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    for (const path of [dirname(spool), spool]) chmodSync(path, 0o777)
    const daemon = await startDaemon({ spool, ini: { uid: 65534, gid: 65534 } })
    chmodSync(join(spool, '.spoold'), 0)
    await daemon.waitFor(/no control socket/)
    chmodSync(join(spool, '.spoold'), 0o700)
    await until(
      'the socket is back',
      async () => (await snapshotOf(spool).catch(() => undefined))?.daemon.pid,
    )
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { controlOf, controlsIn, snapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

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
})

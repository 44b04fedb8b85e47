import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('a dropped file', () => {
  it('is run once and removed', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    drop(spool, 'uwsgi_spoolfile_on_a')
    await until('the task has run', () => daemon.journal().length === 1 && leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['uwsgi_spoolfile_on_a'])
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

import assert from 'node:assert/strict'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdirSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sweepRecords } from '#src/engines/spool/admin/sweep.js'
import { DeadLetters } from '#src/engines/spool/dead-letters.js'
import { Records } from '#src/engines/spool/records.js'
import { findState, makeState, makeStateRoom } from '#src/engines/spool/state-directory.js'
import { inProcess } from '../helpers/cli.js'
import { skipUnless } from '../helpers/requires.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const SOMEBODY = 65_533

describe('.spoold', () => {
  it('is refused once a directory of another user has its name', { skip: skipUnless('root') }, () => {
    const spool = spoolDirectory()
    const state = join(spool, '.spoold')
    makeState(spool)
    assert.notEqual(findState(spool), undefined)
    renameSync(state, join(spool, '.aside'))
    mkdirSync(state, { mode: 0o700 })
    chownSync(state, SOMEBODY, SOMEBODY)
    for (const use of [findState, makeState])
      assert.throws(() => use(spool), { code: 'SPOOL_UNUSABLE', message: /belongs to uid 65533/ })
  })

  it('is refused if it is a link', () => {
    const spool = spoolDirectory()
    symlinkSync(workspace(), join(spool, '.spoold'))
    for (const use of [findState, makeState])
      assert.throws(() => use(spool), { code: 'SPOOL_UNUSABLE', message: /\.spoold is not a directory/ })
  })

  it('is closed to all others when something is about to be written there, not by a look', () => {
    const spool = spoolDirectory()
    const state = join(spool, '.spoold')
    mkdirSync(state)
    chmodSync(state, 0o777)
    findState(spool)
    assert.equal(statSync(state).mode & 0o777, 0o777, 'reading changes no mode')
    makeState(spool)
    assert.equal(statSync(state).mode & 0o777, 0o700)
  })

  it('has no file of ours larger than 16 MiB: a larger one counts as broken, and is not read', async () => {
    const spool = spoolDirectory()
    const [records, letters] = [new Records(spool), new DeadLetters(spool)]
    const found = () => [records.read('task')?.attempts, letters.read('dead')?.ref]
    records.write('task', { attempts: 1, crashes: 0 })
    makeStateRoom(spool, 'dead', 'dead')
    const counts = { buriedAt: 1, attempts: 1, crashes: 0 }
    const letter = { ref: 'dead', reason: 'asked', detail: '', handlers: [], host: '', ...counts }
    writeFileSync(letters.jsonPathOf('dead'), JSON.stringify(letter))
    assert.deepEqual(found(), [1, 'dead'])
    for (const path of [records.pathOf('task'), letters.jsonPathOf('dead')])
      appendFileSync(path, Buffer.alloc(16 * 1024 * 1024, ' '))
    assert.deepEqual(found(), [undefined, undefined])
    assert.equal(await sweepRecords(spool, Date.now() + 1000), 0)
    const { stdout } = await inProcess(['fsck', spool])
    assert.match(stdout, /^found record-broken .*task/m)
  })
})

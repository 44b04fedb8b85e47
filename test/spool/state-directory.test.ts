import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { findState, makeState } from '#src/engines/spool/state-directory.js'
import { skipUnless } from '../helpers/requires.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const SOMEBODY = 65_533

describe('.spoold', () => {
  it('is taken no more once somebody else’s has its name', { skip: skipUnless('root') }, () => {
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

  it('is no link, wherever that leads', () => {
    const spool = spoolDirectory()
    symlinkSync(workspace(), join(spool, '.spoold'))
    for (const use of [findState, makeState])
      assert.throws(() => use(spool), { code: 'SPOOL_UNUSABLE', message: /\.spoold is not a directory/ })
  })

  it('that is ours is closed to all others by whoever is about to write there', () => {
    const spool = spoolDirectory()
    const state = join(spool, '.spoold')
    mkdirSync(state)
    chmodSync(state, 0o777)
    findState(spool)
    assert.equal(statSync(state).mode & 0o777, 0o777, 'a look changes nothing')
    makeState(spool)
    assert.equal(statSync(state).mode & 0o777, 0o700)
  })
})

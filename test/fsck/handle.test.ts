import assert from 'node:assert/strict'
import { mkdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Handle } from '#src/doors/fsck/handle.js'
import { drop } from '../helpers/files.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const modeOf = (path: string) => statSync(path).mode & 0o777

describe('a file that fsck is about to change', () => {
  it('is not found through a priority directory that was exchanged for a link', () => {
    const [spool, outside] = [spoolDirectory(), workspace()]
    writeFileSync(join(outside, 'victim'), '', { mode: 0o600 })
    symlinkSync(outside, join(spool, '7'))
    assert.throws(() => new Handle(spool, '7/victim'), { code: 'ENOTDIR' })
  })

  it('is the one that was found, even if another file took its name, or the name of its directory', () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '7'))
    const handles = ['task', '7/task'].map(ref => {
      drop(spool, ref)
      return new Handle(spool, ref)
    })
    for (const name of ['task', '7']) renameSync(join(spool, name), join(spool, `${name}-aside`))
    mkdirSync(join(spool, '7'))
    for (const ref of ['task', '7/task']) drop(spool, ref)
    const before = modeOf(join(spool, 'task'))
    for (const handle of handles) {
      handle.chmod(0o640)
      handle.close()
    }
    assert.deepEqual(
      ['task', '7/task', 'task-aside', '7-aside/task'].map(path => modeOf(join(spool, path))),
      [before, before, 0o640, 0o640],
    )
  })
})

import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { filesIn, statsOf, tasksIn } from '#src/doors/fsck/examined-spool.js'
import { drop } from '../helpers/files.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

async function all(names: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = []
  for await (const name of names) found.push(name)
  return found
}

/** Returns a spool, as fsck sees it, with two links to a directory of files: in place of a priority, and below .spoold. */
function spoolWithLinks() {
  const [spool, outside] = [spoolDirectory(), workspace()]
  drop(outside, 'victim')
  mkdirSync(join(spool, '.spoold/records'), { recursive: true })
  symlinkSync(outside, join(spool, '7'))
  symlinkSync(outside, join(spool, '.spoold/records/7'))
  return { spool, passed() {} }
}

describe('what fsck looks at, as root too', () => {
  it('is found in priority directories', async () => {
    const { spool, passed } = spoolWithLinks()
    mkdirSync(join(spool, '8'))
    for (const path of ['task', '8/task', '.spoold/records/8.json']) drop(spool, path)
    assert.deepEqual((await all(tasksIn({ spool, passed }))).sort(), ['8/task', 'task'])
    assert.deepEqual(await all(filesIn({ spool, passed }, 'records')), ['8.json'])
    for (const path of ['', '8', '8/task', '7', '.spoold/records/8.json'])
      assert.notEqual(statsOf({ spool }, path), undefined, path)
  })

  it('is not found through a directory that was exchanged for a link', async () => {
    const examined = spoolWithLinks()
    assert.deepEqual(await all(tasksIn(examined, '7/')), [])
    assert.deepEqual(await all(filesIn(examined, 'records', '7/')), [])
    for (const path of ['7/victim', '.spoold/records/7/victim', 'none/victim'])
      assert.equal(statsOf(examined, path), undefined, path)
  })

  it('is named by its path when it cannot be looked at', () => {
    const examined = spoolWithLinks()
    mkdirSync(join(examined.spool, '8'))
    const path = join('8', 'x'.repeat(300))
    assert.throws(() => statsOf(examined, path), { message: new RegExp(join(examined.spool, path)) })
  })
})

import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { Found, Looker } from '#src/base/task/report.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import { until } from '../../helpers/until.js'

function scan(index: TaskIndex, refs: Iterable<string>): void {
  index.beginScan(false)
  for (const ref of refs) if (!index.seen(ref, Date.now())) break
  index.endScan()
}

/** Returns an index whose refs are looked at aside. No worker takes any, and no event tells what changes. */
function lookedAt(t: TestContext, files: ReadonlyMap<string, Found>): TaskIndex {
  const index = new TaskIndex({ order: 'name', frequencyMs: 30_000 })
  const nobody = async () => undefined
  const looker: Looker = {
    ...{ begun: nobody, later: nobody, holder: nobody, freeSlots: nobody },
    look: async refs => refs.map(ref => files.get(ref) ?? 'gone'),
  }
  scan(index, files.keys())
  index.lookBy(looker, () => {})
  t.after(() => index.close())
  return index
}

describe('a ready ref that is no task', () => {
  it('is counted until its file is removed or replaced by a task, even if no event tells', async t => {
    const files = new Map<string, Found>([
      ['a', 0],
      ['junk', 'unreadable'],
      ['more', 'unreadable'],
      ['most', 'unreadable'],
    ])
    const index = lookedAt(t, files)
    await until('all three were looked at', () => index.unreadable.ready === 3)
    files.delete('junk')
    files.set('more', 0)
    scan(index, files.keys())
    await until('two of them are no longer counted', () => index.unreadable.ready === 1)
    const tasks: string[] = []
    index.eachReady(ref => tasks.push(ref), Date.now())
    assert.deepEqual(tasks.sort(), ['a', 'more'])
    assert.equal(index.unseen.count, 0)
    files.clear()
    scan(index, [])
    await until('none is left', () => index.unreadable.ready === 0)
  })
})

describe('an unseen ref that is ready', () => {
  it('is counted even after others were removed without an event', async t => {
    const files = new Map<string, Found>([
      ['a', 0],
      ['b', 0],
      ['c', 0],
    ])
    const index = lookedAt(t, files)
    await until('all were looked at', () => index.unseen.count === 0)
    for (const ref of ['a', 'b']) files.delete(ref)
    const fresh = ['d', 'e', 'f']
    scan(index, [...files.keys(), ...fresh])
    assert.equal(index.ready, 4)
    assert.deepEqual([index.unseen.count, fresh.every(ref => index.isUnseen(ref))], [3, true])
  })
})

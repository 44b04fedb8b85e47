import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { prefixOf } from '#src/base/task/ref.js'
import { inOrder, type Keyed, type TaskSort } from '#src/engines/spool/admin/ref-window.js'
import { comparePriorities, compareVersions } from '#src/engines/spool/task-order.js'

/** Tasks of three priorities and of none, in no order; several have equal keys. */
const tasks = Array.from({ length: 2000 }, (_, i) => {
  const n = (i * 7919) % 2000
  return { ref: `${['', '5/', '10/', '05/'][n % 4]}task-${n}-\xff`, key: n % 300 }
})

function expected({ byPriority = false, isReversed }: TaskSort): string[] {
  const sorted = [...tasks].sort(
    (a, b) =>
      (byPriority ? comparePriorities(prefixOf(a.ref), prefixOf(b.ref)) : 0) ||
      a.key - b.key ||
      compareVersions(a.ref, b.ref),
  )
  return (isReversed ? sorted.reverse() : sorted).map(({ ref }) => ref)
}

async function visited(sort: TaskSort, size: number, after?: Keyed) {
  const refs: string[] = []
  let scans = 0
  const scan = async (offer: (task: Keyed) => void) => {
    scans++
    for (const task of tasks) offer(task)
  }
  await inOrder(scan, sort, ref => refs.push(ref) > 0, after, size)
  return { refs, scans }
}

describe('tasks in order', () => {
  for (const sort of [
    { isReversed: false },
    { isReversed: true },
    { byPriority: true, isReversed: false },
    { byPriority: true, isReversed: true },
  ])
    for (const size of [2, 100, 1999, 2000, 5000])
      it(`are visited once each by windows of ${size}: ${JSON.stringify(sort)}`, async () => {
        const { refs, scans } = await visited(sort, size)
        assert.deepEqual(refs, expected(sort))
        assert.equal(scans > 1, size < tasks.length)
      })

  it('continue after a given task', async () => {
    const sort = { isReversed: false }
    const all = expected(sort)
    const after = tasks.find(({ ref }) => ref === all[700])
    assert.deepEqual((await visited(sort, 128, after)).refs, all.slice(701))
  })

  it('end when the visitor has seen enough, without another scan', async () => {
    let scans = 0
    let seen = 0
    const scan = async (offer: (task: Keyed) => void) => {
      scans++
      for (const task of tasks) offer(task)
    }
    await inOrder(scan, { isReversed: false }, () => ++seen < 20, undefined, 100)
    assert.deepEqual([seen, scans], [20, 1])
  })

  it('are visited by more than one scan if their names are too long for one window', async () => {
    const long = Array.from({ length: 60_000 }, (_, i) => ({
      ref: `${'x'.repeat(245)}${i}`,
      key: 60_000 - i,
    }))
    let scans = 0
    let last = Number.NEGATIVE_INFINITY
    let count = 0
    const scan = async (offer: (task: Keyed) => void) => {
      scans++
      for (const task of long) offer(task)
    }
    await inOrder(scan, { isReversed: false }, ref => {
      const key = 60_000 - Number(ref.slice(245))
      assert.ok(key > last)
      last = key
      return ++count > 0
    })
    assert.deepEqual([count, scans > 1], [60_000, true])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { prefixOf } from '#src/base/task/ref.js'
import { inOrder, type Scan, type TaskSort, visit, windowFor } from '#src/engines/spool/admin/in-order.js'
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

async function visited(sort: TaskSort, size: number, first?: ReturnType<typeof windowFor>) {
  const refs: string[] = []
  let scans = 0
  const scan: Scan = async offer => {
    scans++
    for (const { ref, key } of tasks) offer(ref, key)
  }
  await visit(inOrder(scan, sort, first, size), ref => refs.push(ref) > 0)
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

  for (const [size, scans] of [
    [128, true],
    [2000, false],
  ] as const)
    it(`are visited by ${scans ? 'further scans' : 'no scan'} after a window of ${size} that has met them all`, async () => {
      const sort = { isReversed: false }
      const first = windowFor(sort, size)
      for (const { ref, key } of tasks) first.add(ref, key)
      const found = await visited(sort, size, first)
      assert.deepEqual([found.refs, found.scans > 0], [expected(sort), scans])
    })

  it('end when the visitor has seen enough, without another scan', async () => {
    let scans = 0
    let seen = 0
    const scan: Scan = async offer => {
      scans++
      for (const { ref, key } of tasks) offer(ref, key)
    }
    await visit(inOrder(scan, { isReversed: false }, undefined, 100), () => ++seen < 20)
    assert.deepEqual([seen, scans], [20, 1])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ParkReason } from '#src/base/task/parked.js'
import type { Report } from '#src/base/task/report.js'
import { limited, parkedGroups, partOf } from '#src/engines/directory/feed.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'

const NOW = 1_700_000_000_000

function parkedIn(...parked: ReadonlyArray<readonly [ref: string, what: Partial<Report>]>): TaskIndex {
  const index = new TaskIndex({ order: 'name', frequencyMs: 30_000 })
  for (const [ref, what] of parked) park(index, ref, what)
  return index
}

function park(index: TaskIndex, ref: string, what: Partial<Report>): void {
  index.changed(ref, true)
  assert.deepEqual(index.take(1, NOW), [ref])
  index.returned({ ref, kind: 'parked', ranMs: 0, ...what }, NOW)
}

const unknown = (name: string): Partial<Report> => ({ reason: 'unknown-name', detail: name })
const waits = (name: string): Partial<Report> => ({ reason: 'slot', slots: { name, count: 2 } })

describe('the groups of parked refs', () => {
  it('are by reason and name: refs that run alone first, then the largest groups', () => {
    const index = parkedIn(
      ['a', unknown('mail')],
      ['b', unknown('sms')],
      ['c', unknown('mail')],
      ['g', waits('report')],
      ['f', waits('report')],
      ['e', waits('report')],
      ['h', { reason: 'paused', detail: 'of no use' }],
      ['i', { reason: 'alone' }],
    )
    assert.deepEqual(parkedGroups(index), [
      { reason: 'alone', count: 1, tasks: ['i'] },
      { reason: 'slot', name: 'report', slots: 2, count: 3, tasks: ['e', 'f', 'g'] },
      { reason: 'unknown-name', name: 'mail', count: 2, tasks: ['a', 'c'] },
      { reason: 'unknown-name', name: 'sms', count: 1, tasks: ['b'] },
      { reason: 'paused', count: 1, tasks: ['h'] },
    ])
  })

  it('leave out a ref once its file has changed or its reason is over', () => {
    const index = parkedIn(
      ['a', unknown('mail')],
      ['b', unknown('mail')],
      ['c', waits('few')],
      ['d', waits('few')],
    )
    for (const ref of ['a', 'c']) index.changed(ref, true)
    assert.deepEqual(parkedGroups(index), [
      { reason: 'unknown-name', name: 'mail', count: 1, tasks: ['b'] },
      { reason: 'slot', name: 'few', slots: 2, count: 1, tasks: ['d'] },
    ])
    index.unpark('unknown-name')
    index.slots.next([...index.slots.queues()][0] ?? assert.fail(), 1)
    assert.deepEqual(parkedGroups(index), [])
  })

  it('have a ref under the name that its file has now', () => {
    const index = parkedIn(['a', unknown('mail')])
    index.changed('a', true)
    index.take(1, NOW)
    index.returned({ ref: 'a', kind: 'parked', ranMs: 0, ...unknown('sms') }, NOW)
    assert.deepEqual(parkedGroups(index), [{ reason: 'unknown-name', name: 'sms', count: 1, tasks: ['a'] }])
  })

  it('can be read in parts, for one reason and name', () => {
    const index = parkedIn(
      ...['a', 'b', 'c'].map(ref => [ref, unknown('mail')] as const),
      ['d', unknown('sms')],
      ['e', { reason: 'paused' }],
    )
    const part = (limit: number, from: number, name?: string, reason: ParkReason = 'unknown-name') =>
      partOf(parkedGroups(index), limit, { reason, from, ...(name === undefined ? {} : { name }) }).map(
        ({ count, tasks }) => [count, ...tasks],
      )
    assert.deepEqual(part(2, 0, 'mail'), [[3, 'a', 'b']])
    assert.deepEqual(part(2, 2, 'mail'), [[3, 'c']])
    assert.deepEqual(part(2, 3, 'mail'), [[3]])
    assert.deepEqual(part(2, 0, undefined, 'paused'), [[1, 'e']])
    assert.deepEqual(part(2, 0, 'mail', 'slot'), [])
    assert.deepEqual(part(2, 0), [])
  })

  it('name a ref, which can be taken, after thousands of others were parked and removed', () => {
    const index = new TaskIndex({ order: 'name', frequencyMs: 30_000 })
    for (let i = 0; i < 3000; i++) {
      park(index, `gone${i}`, { reason: 'alone' })
      index.changed(`gone${i}`, true)
      assert.deepEqual(index.take(1, NOW), [`gone${i}`])
      index.done([`gone${i}`])
    }
    park(index, 'here', { reason: 'alone' })
    assert.deepEqual(parkedGroups(index), [{ reason: 'alone', count: 1, tasks: ['here'] }])
    assert.deepEqual(index.takeParked('alone', 2), ['here'])
  })

  it('are bounded: long names are cut, the rest of many names is one group, and few tasks are named', () => {
    const index = new TaskIndex({ order: 'arrival', frequencyMs: 30_000 })
    for (let i = 0; i < 3000; i++) park(index, `t${i}`, unknown(`${i % 1500}-${'x'.repeat(300)}`))
    const groups = parkedGroups(index)
    assert.equal(groups.length, 200)
    assert.deepEqual([groups[0]?.name, groups[0]?.count], [undefined, 1000])
    for (const { name = '' } of groups) assert.ok(name.length <= 200)
    const told = limited(groups, 1000).reduce((sum, { tasks }) => sum + tasks.length, 0)
    assert.ok(told <= 2000, `${told}`)
    assert.deepEqual(
      limited(groups, 0).flatMap(({ tasks }) => tasks),
      [],
    )
  })
})

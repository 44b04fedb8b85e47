import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { WaitingList } from '#src/engines/spool/index/waiting-list.js'

const NOW = 1_000_000

describe('the list of waiting refs', () => {
  it('names the soonest in order, each once, by the time that counts, and keeps them', () => {
    const list = new WaitingList()
    for (const n of [5, 3, 9, 1, 7]) list.add(`t${n}`, NOW + n * 1000, true)
    list.endOnChange('t3')
    list.add('t3', NOW + 8000, true) // its first time leaves an entry behind
    list.endOnChange('t1')
    assert.deepEqual(list.soonest(0, 2, NOW), ['t5', 't7'])
    assert.deepEqual(list.soonest(0, 9, NOW), ['t5', 't7', 't3', 't9'])
    assert.deepEqual(list.soonest(1, 2, NOW), ['t7', 't3'])
    assert.deepEqual(list.soonest(3, 9, NOW), ['t9'])
    assert.deepEqual(list.soonest(4, 9, NOW), [])
    assert.deepEqual(list.soonest(0, 9, NOW + 6000), ['t7', 't3', 't9'])
    assert.equal(list.size, 4, 'they go on waiting')
    assert.deepEqual(new WaitingList().soonest(0, 5, NOW), [])
  })

  it('brings a ref at the time that was said last, not at an earlier one', () => {
    const list = new WaitingList()
    list.add('t', NOW + 5000, true)
    list.endOnChange('t')
    list.add('t', NOW + 60_000, true)
    list.add('u', NOW + 5000, true)
    assert.equal(list.popDue(NOW + 5000)?.ref, 'u')
    assert.equal(list.popDue(NOW + 59_000), undefined)
    assert.ok(list.isWaiting('t', NOW + 59_000))
    assert.equal(list.popDue(NOW + 60_000)?.ref, 't')
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { WaitingList } from '#src/engines/spool/index/waiting-list.js'

const NOW = 1_000_000

describe('the list of waiting refs', () => {
  it('names the soonest refs in order, each once and by its latest time, and keeps them', () => {
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
    assert.equal(list.size, 4, 'soonest() removes nothing')
    assert.deepEqual(new WaitingList().soonest(0, 5, NOW), [])
  })

  it('gives a ref at the time that was said last, not at an earlier one', () => {
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

  it('finds the names of refs that come due by listing everything, and gives none before its time', () => {
    const list = new WaitingList()
    const COUNT = 200_000
    const refs = Array.from({ length: COUNT }, (_, i) => `t${i}`)
    const [soon, tomorrow] = [NOW + 5000, NOW + 86_400_000]
    for (const [i, ref] of refs.entries()) list.add(ref, i % 2 === 0 ? soon : tomorrow, true)
    const due = new Set<string>()
    for (let next = list.popDue(soon); next !== undefined; next = list.popDue(soon)) due.add(next.ref)
    assert.ok(due.size > 0 && due.size < COUNT / 2, `the list has kept ${due.size} of the due names`)
    assert.ok(list.horizonMs <= soon)

    list.beginListing()
    for (const ref of refs.slice(0, COUNT / 4))
      if (!due.has(ref) && (list.met(ref, soon) ?? 0) <= soon) due.add(ref)
    list.endListing(false)
    assert.equal(
      list.horizonMs,
      Number.POSITIVE_INFINITY,
      'the next listing finds them: no other is wanted for them',
    )

    list.beginListing()
    for (const ref of refs) {
      const atMs = due.has(ref) ? undefined : list.met(ref, soon)
      if (atMs !== undefined && atMs <= soon) due.add(ref)
    }
    list.endListing(true)
    assert.deepEqual([due.size, list.size], [COUNT / 2, COUNT / 2])
    assert.ok([...due].every(ref => Number(ref.slice(1)) % 2 === 0))
    assert.equal(list.popDue(soon), undefined)
    assert.equal(list.nextAtMs, tomorrow)
  })

  it('forgets the refs that a listing of everything did not meet, whatever else came due or was added meanwhile', () => {
    const list = new WaitingList()
    for (const ref of ['gone', 'due', 'changed', 'stays']) list.add(ref, NOW + 5000, true)
    list.beginListing()
    for (const ref of ['due', 'changed', 'stays']) list.met(ref, NOW)
    list.add('due', NOW + 1000, true)
    assert.equal(list.popDue(NOW + 1000)?.ref, 'due')
    assert.equal(list.endOnChange('changed'), 'ended')
    list.add('new', NOW + 5000, true)
    list.endListing(true)
    assert.deepEqual(list.soonest(0, 9, NOW).sort(), ['new', 'stays'])
    assert.equal(list.size, 2)
  })

  it('keeps the refs that a listing which was cut short did not meet', () => {
    const list = new WaitingList()
    for (const ref of ['a', 'b']) list.add(ref, NOW + 5000, true)
    list.beginListing()
    list.met('a', NOW)
    list.endListing(false)
    assert.equal(list.size, 2)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Alarm } from '#src/base/clock.js'
import { describe as describeValue, errnoOf, SpooldError, toError } from '#src/base/errors.js'
import { Heap, orderedPart } from '#src/base/heap.js'
import { ArraySet, Queue } from '#src/base/queue.js'

describe('a heap', () => {
  it('pops in order, whatever was pushed when', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.integer(), { nil: null })), steps => {
        const heap = new Heap<number>((a, b) => a < b)
        const model: number[] = []
        for (const step of steps) {
          if (step === null) assert.equal(heap.pop(), model.sort((a, b) => a - b).shift())
          else {
            heap.push(step)
            model.push(step)
          }
          assert.equal(heap.size, model.length)
          assert.equal(heap.peek(), model.length === 0 ? undefined : Math.min(...model))
        }
      }),
    )
  })

  it('is not needed for a part of some items in order, which is what a sort would put there', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.nat(20), fc.nat(20), (items, from, count) => {
        const sorted = [...items].sort((a, b) => a - b)
        assert.deepEqual(
          orderedPart([...items], from, count, (a, b) => a < b),
          sorted.slice(from, from + count),
        )
      }),
    )
  })

  it('keeps the first items when it is truncated, and returns the first that it dropped', () => {
    const heap = new Heap<number>((a, b) => a < b)
    for (const n of [5, 3, 9, 1, 7]) heap.push(n)
    assert.equal(heap.truncate(9), undefined)
    assert.equal(heap.truncate(3), 7)
    assert.deepEqual([heap.pop(), heap.pop(), heap.pop(), heap.pop()], [1, 3, 5, undefined])
  })

  it('keeps what a sort would put first when it is truncated, even among equal items', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 9 })), fc.nat(12), (numbers, keep) => {
        const heap = new Heap<number>((a, b) => a < b)
        for (const n of numbers) heap.push(n)
        const sorted = [...numbers].sort((a, b) => a - b)
        assert.equal(heap.truncate(keep), sorted[keep])
        assert.deepEqual(
          sorted.slice(0, keep).map(() => heap.pop()),
          sorted.slice(0, keep),
        )
        assert.equal(heap.size, 0)
      }),
    )
  })
})

describe('a queue', () => {
  it('is first in, first out, even after it has tidied itself up', () => {
    const queue = new Queue<number>()
    let next = 0
    for (let i = 0; i < 10_000; i++) {
      queue.push(i)
      if (i % 3 === 0) assert.equal(queue.pop(), next++)
    }
    while (queue.size > 0) {
      assert.equal(queue.peek(), next)
      assert.equal(queue.pop(), next++)
    }
    assert.deepEqual([queue.pop(), next], [undefined, 10_000])
  })
})

describe('a set in an array', () => {
  it('has what a Set has, in its order', () => {
    const members = Array.from({ length: 6 }, (_, n) => ({ n }))
    const steps = fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...members)))
    fc.assert(
      fc.property(steps, all => {
        const [expected, set] = [new Set<object>(), new ArraySet()]
        for (const [isAdd, member] of all)
          for (const each of [expected, set]) isAdd ? each.add(member) : each.delete(member)
        assert.deepEqual([...set], [...expected])
        assert.equal(set.size, expected.size)
        for (const member of members) assert.equal(set.has(member), expected.has(member))
      }),
    )
  })

  it('visits the members that it had when the visit began', () => {
    const set = new ArraySet<{ readonly n: number }>()
    for (let n = 0; n < 4; n++) set.add({ n })
    const visited: number[] = []
    for (const member of set) {
      visited.push(member.n)
      set.delete(member)
      if (visited.length < 9) set.add({ n: 9 })
    }
    assert.deepEqual(visited, [0, 1, 2, 3])
  })
})

describe('an alarm', () => {
  it('rings at the earliest of the times asked for, once', async () => {
    let rings = 0
    const rung = new Promise<void>(resolve => {
      const alarm = new Alarm(() => {
        rings++
        resolve()
      })
      const now = performance.now()
      alarm.wakeAt(now + 60_000)
      alarm.wakeAt(now + 1)
      alarm.wakeAt(now + 30_000)
    })
    await rung
    assert.equal(rings, 1)
  })

  it('can be far ahead: Node fires a timer of more than 2^31 ms at once', async () => {
    let isRung = false
    const alarm = new Alarm(() => {
      isRung = true
    })
    alarm.wakeAt(performance.now() + 2 ** 40)
    await new Promise(resolve => setImmediate(resolve))
    await new Promise(resolve => setTimeout(resolve, 5))
    assert.equal(isRung, false)
    alarm.clear()
  })
})

describe('errors', () => {
  it('keep code, details and cause', () => {
    const cause = new Error('because')
    const error = new SpooldError('USAGE', 'wrong', { cause, details: { key: 'k' } })
    assert.deepEqual(
      [error.name, error.code, error.details, error.cause],
      ['SpooldError', 'USAGE', { key: 'k' }, cause],
    )
  })

  it('are made of whatever was thrown', () => {
    for (const thrown of ['text', 5, null, undefined, { a: 1 }, Symbol('s'), 5n, Object.create(null)])
      assert.ok(toError(thrown) instanceof Error)
    assert.equal(toError('text').message, 'text')
    assert.equal(errnoOf(Object.assign(new Error(), { code: 'ENOENT' })), 'ENOENT')
    assert.equal(errnoOf('ENOENT'), undefined)
    for (const code of ['UNKNOWN', 'Unknown system error -122'])
      assert.equal(errnoOf(Object.assign(new Error(), { code, errno: -122 })), 'EDQUOT')
    assert.equal(errnoOf(Object.assign(new Error(), { code: 'UNKNOWN' })), 'UNKNOWN')
  })

  it('describe any value in a word, and never throw', () => {
    const table: Array<[unknown, string]> = [
      ['a', '"a"'],
      [5n, '5n'],
      [[], 'an array'],
      [{}, 'an object (Object)'],
      [Object.create(null), 'an object (no prototype)'],
      [() => {}, 'a function'],
      [null, 'null'],
      ['x'.repeat(100), `"${'x'.repeat(77)}..."`],
    ]
    for (const [value, text] of table) assert.equal(describeValue(value), text)
  })
})

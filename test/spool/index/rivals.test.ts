import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Glance } from '#src/spool/glance.js'
import { TaskIndex } from '#src/spool/index/task-index.js'

const NOW = Date.now()
/** A look may take as long as it likes on a busy machine. */
const LONG = NOW + 60_000
const SLOTS = { name: 'few', count: 3 }

/** Its refs are t00, t01 …; all others are as `found` says, or at rest. */
function indexOf(count: number, found: Record<string, Glance> = {}) {
  const looked: string[] = []
  const glance = (ref: string) => {
    looked.push(ref)
    return found[ref] ?? 'at rest'
  }
  const index = new TaskIndex({ order: 'name', frequencyMs: 30_000, glance })
  const refs = Array.from({ length: count }, (_, i) => `t${String(i).padStart(3, '0')}`)
  for (const ref of refs) index.changed(ref, true, NOW)
  return { index, refs, looked, found }
}

/** As `indexOf`, but all wait for a slot. */
function waitingOf(count: number, found?: Record<string, Glance>) {
  const all = indexOf(count, found)
  for (const ref of all.index.take(count))
    all.index.returned({ ref, kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, NOW)
  const [queue = assert.fail()] = all.index.tries.queues()
  return { ...all, queue }
}

describe('refs of a directory that others run, too', () => {
  it('are looked at before a worker gets them, once one was gone, until 64 in a row were at rest', () => {
    const { index, refs, looked } = indexOf(200, { t002: 'gone', t003: 'gone' })
    assert.deepEqual(index.take(2), ['t000', 't001'])
    assert.deepEqual(looked, [], 'nobody else was met')
    index.returned({ ref: 't000', kind: 'gone', ranMs: 0 }, NOW)
    assert.deepEqual(index.take(196, LONG), refs.slice(4))
    assert.deepEqual(looked, refs.slice(2, 4 + 64))
    assert.equal(index.busy, 197)
  })

  it('that others have begun come later, but not for ever: their process may have died', () => {
    const { index } = indexOf(2, { t000: 'begun', t001: 'begun' })
    index.take(1)
    index.returned({ ref: 't000', kind: 'locked', ranMs: 0 }, NOW)
    let waits = 0
    for (let now = LONG; index.take(1, now).length === 0; now += 1000) {
      assert.ok(waits++ < 9, 'it waits for ever')
      assert.ok(index.rivals.haveSome, 'nothing is left to do')
      index.promote(now)
    }
    assert.ok(waits > 1)
    assert.ok(!index.rivals.haveSome)
  })
})

describe('the queue for a slot', () => {
  it('passes over those that others have begun, which keep their place, and are tried a second later', async t => {
    const { index, queue } = waitingOf(4, { t000: 'begun', t001: 'gone' })
    assert.equal(index.tries.next(queue, 1), 1)
    assert.deepEqual([index.take(9), index.parkedFor('slot')], [['t002'], 2])
    t.mock.method(performance, 'now', () => 1e9)
    queue.reconsider()
    assert.equal(index.tries.next(queue, 1), 1)
    assert.deepEqual([index.take(9), index.parkedFor('slot')], [['t000'], 1])
  })

  it('that has only such left is not over', () => {
    const { index, queue } = waitingOf(1, { t000: 'begun' })
    assert.deepEqual([index.tries.next(queue, 1), index.parkedFor('slot')], [0, 1])
  })

  it('gives them in order while nobody else is there, and any of the next ones while somebody is', () => {
    const { index, refs, queue } = waitingOf(200)
    assert.equal(index.tries.next(queue, 50), 50)
    assert.deepEqual(index.take(50), refs.slice(0, 50))
    index.returned({ ref: 't000', kind: 'locked', ranMs: 0 }, NOW)
    index.tries.next(queue, 50)
    const taken = index.take(50)
    assert.notDeepEqual(taken, refs.slice(50, 100))
    for (const [i, ref] of taken.entries())
      assert.ok(refs.indexOf(ref) <= 50 + i + 40, `${ref} before ${50 + i}`)
  })

  it('gives a worker that goes on with a name only what comes before all that is ready', () => {
    const { index, refs } = waitingOf(6)
    assert.deepEqual(index.tries.takeFirst(SLOTS, 2), refs.slice(0, 2))
    index.changed('t001b', true, NOW)
    assert.deepEqual([index.tries.takeFirst(SLOTS, 2), index.parkedFor('slot')], [[], 4])
    assert.deepEqual(index.take(1), ['t001b'])
    assert.deepEqual(index.tries.takeFirst(SLOTS, 9), refs.slice(2))
    assert.equal(index.tries.takeFirst(SLOTS, 9).length, 0)
  })
})

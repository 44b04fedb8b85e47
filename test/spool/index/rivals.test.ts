import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Glance } from '#src/engines/spool/glance.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import type { TaskOrder } from '#src/engines/spool/task-order.js'

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

describe('refs that others run at a pace', () => {
  /** The others have just taken `taken` tasks. Its refs are `a000`, `a001` …, by arrival, or by age in the priorities `1/` and `2/`. */
  function indexBeside(
    taken: number,
    count: number,
    order: TaskOrder = 'arrival',
    found: Record<string, Glance> = {},
  ) {
    const looked: string[] = []
    const glance = (ref: string) => {
      looked.push(ref)
      return found[ref] ?? 'at rest'
    }
    const index = new TaskIndex({ order, frequencyMs: 30_000, glance })
    const prefix = (i: number) => (order === 'age' ? `${i < count / 2 ? 1 : 2}/` : '')
    const refs = Array.from({ length: count }, (_, i) => `${prefix(i)}a${String(i).padStart(3, '0')}`)
    const others = Array.from({ length: taken }, (_, i) => `1/0${i}`)
    for (const ref of others) found[ref] = 'gone'
    scan(index, others)
    index.returned({ ref: 'x', kind: 'gone', ranMs: 0 }, NOW)
    assert.deepEqual(index.take(1, LONG), [])
    looked.length = 0
    scan(index, refs)
    return { index, refs, looked, found }
  }

  function scan(index: TaskIndex, refs: readonly string[]): void {
    index.beginScan(false)
    for (const ref of refs) index.seen(ref, NOW)
    index.endScan({ isAsBefore: () => false, isListed: () => true })
  }

  it('are taken in another order than theirs, as far ahead as they come in a second, and each once', () => {
    const { index, refs } = indexBeside(20, 100)
    const taken = index.take(100, LONG)
    assert.notDeepEqual(taken, refs)
    assert.notDeepEqual(taken, indexBeside(20, 100).index.take(100, LONG))
    assert.deepEqual(taken.toSorted(), refs)
    for (const [i, ref] of taken.entries())
      assert.ok(Math.abs(refs.indexOf(ref) - i) < 20, `${ref} as number ${i}`)
  })

  it('stay in their order by name, and where the others take none', () => {
    for (const [taken, order] of [
      [20, 'name'],
      [1, 'arrival'],
      [0, 'arrival'],
    ] as const) {
      const { index, refs } = indexBeside(taken, 100, order)
      assert.deepEqual(index.take(100, LONG), refs, `${taken} ${order}`)
    }
  })

  it('are in order again when the others have taken none for two seconds', t => {
    let now = 1e6
    t.mock.method(performance, 'now', () => now)
    const { index, refs } = indexBeside(20, 100)
    const spreads = [999, 1, 999, 1].map(ms => {
      now += ms
      return index.rivals.spread
    })
    assert.deepEqual(spreads, [20, 20, 20, 0])
    assert.deepEqual(index.take(100, LONG), refs)
  })

  it('are not those that ended here, of which late events tell, unless there is a new file', () => {
    const { index, refs, found } = indexBeside(0, 20)
    const taken = index.take(10, LONG)
    for (const ref of taken) {
      index.done(ref)
      found[ref] = 'gone'
      assert.ok(!index.changed(ref, false, NOW))
      assert.ok(!index.changed(ref, true, NOW))
    }
    assert.deepEqual([index.ready, index.rivals.spread], [10, 0])
    found[taken[0] ?? ''] = 'at rest'
    assert.ok(index.changed(taken[0] ?? '', true, NOW))
    assert.deepEqual(index.take(20, LONG).toSorted(), [...taken.slice(0, 1), ...refs.slice(10)])
    scan(index, taken.slice(1)) // a listing may be late, too
    assert.deepEqual([index.take(20, LONG), index.rivals.spread], [[], 0])
  })

  it('are not those that ran here and wait or are parked, and are removed: nothing is left of them', () => {
    const { index, found } = indexBeside(0, 3)
    const [waiting = '', alone = '', unknown = ''] = index.take(3, LONG)
    index.returned({ ref: waiting, kind: 'retry', ranMs: 1, atMs: LONG + 3_600_000 }, LONG)
    index.returned({ ref: alone, kind: 'parked', ranMs: 0, reason: 'alone' }, LONG)
    index.returned({ ref: unknown, kind: 'parked', ranMs: 0, reason: 'unknown-name' }, LONG)
    assert.equal(index.waiting, 3)
    for (const ref of [waiting, alone, unknown]) {
      found[ref] = 'gone'
      index.changed(ref, true, LONG)
    }
    assert.equal(index.size, 0)
  })

  it('are not those that a worker was to hand back, and ran', () => {
    const { index, found } = indexBeside(0, 20)
    for (const ref of index.take(10, LONG)) {
      index.abandoned(ref)
      found[ref] = 'gone'
    }
    assert.deepEqual([index.take(20, LONG).length, index.rivals.spread], [10, 0])
  })

  it('are all of the most urgent priority before any other, of one that comes meanwhile, too', () => {
    const { index, refs } = indexBeside(200, 100, 'age')
    const first = index.take(30, LONG)
    index.changed('0/b', true, NOW)
    assert.deepEqual(index.take(1, LONG), ['0/b'])
    first.push(...index.take(20, LONG))
    assert.deepEqual(first.toSorted(), refs.slice(0, 50))
  })

  it('come after one that a worker handed back, whose place is among them', () => {
    const { index } = indexBeside(200, 40)
    const taken = index.take(10, LONG)
    for (const ref of taken) index.returned({ ref, kind: 'untouched', ranMs: 0 }, NOW)
    assert.deepEqual(index.take(10, LONG), taken.toSorted())
  })

  it('are not looked at again once an event told that they are gone, and come last once one told that they were begun', () => {
    const { index, refs, found, looked } = indexBeside(200, 40)
    const [first = ''] = index.take(1, LONG)
    const [gone = '', begun = '', ...rest] = refs.filter(ref => ref !== first)
    found[gone] = 'gone'
    assert.ok(!index.changed(gone, true, NOW))
    assert.ok(!index.changed(begun, false, NOW))
    assert.equal(index.ready, 38)
    looked.length = 0
    const others = index.take(40, LONG)
    assert.ok(!looked.includes(gone))
    assert.equal(others.pop(), begun)
    assert.deepEqual(others.toSorted(), rest)
  })

  it('are neither lost nor doubled by a scan that lists them meanwhile, and forgotten if it does not meet them', () => {
    const { index, refs } = indexBeside(200, 60)
    const taken = index.take(10, LONG)
    const left = refs.filter(ref => !taken.includes(ref))
    index.beginScan(false)
    for (const ref of left) index.seen(ref, NOW)
    taken.push(...index.take(10, LONG))
    index.endScan({ isAsBefore: () => false, isListed: () => true })
    assert.equal(index.ready, 40)
    const known: string[] = []
    index.eachReady(ref => known.push(ref), NOW)
    assert.deepEqual([...known, ...taken].toSorted(), refs)
    index.take(1, LONG)
    scan(index, [])
    assert.equal(index.ready, 0)
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

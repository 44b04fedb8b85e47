import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import type { TaskOrder } from '#src/engines/spool/task-order.js'

const NOW = Date.now()
const SLOTS = { name: 'few', count: 3 }

function scan(index: TaskIndex, refs: readonly string[]): void {
  index.beginScan(false)
  for (const ref of refs) index.seen(ref, NOW)
  index.endScan({ isAsBefore: () => false, isListed: () => true })
}

/** Reports that workers found `vain` tasks gone or locked by somebody else, and ran `done` others. */
function report(index: TaskIndex, { vain = 0, done = 0 }): void {
  for (let i = 0; i < vain; i++)
    index.returned({ ref: `vain-${i}`, kind: i % 2 === 0 ? 'gone' : 'locked', ranMs: 0 }, NOW + 1e9)
  for (let i = 0; i < done; i++) index.done([`done-${i}`])
}

/** Returns an index of the refs `a000`, `a001` …, by arrival or name, or by age in the priorities `1/` and `2/`. */
function indexOf(count: number, order: TaskOrder = 'arrival', { vain = 20, done = 0 } = {}) {
  const index = new TaskIndex({ order, frequencyMs: 30_000 })
  const prefix = (i: number) => (order === 'age' ? `${i < count / 2 ? 1 : 2}/` : '')
  const refs = Array.from({ length: count }, (_, i) => `${prefix(i)}a${String(i).padStart(3, '0')}`)
  report(index, { vain, done })
  scan(index, refs)
  return { index, refs }
}

describe('refs of a directory whose tasks others run, too', () => {
  it('are taken once each, in random order, while over a quarter of what workers find is gone or locked', () => {
    const { index, refs } = indexOf(100, 'arrival', { vain: 20, done: 59 })
    const taken = index.take(100)
    assert.notDeepEqual(taken, refs)
    assert.notDeepEqual(taken, indexOf(100).index.take(100))
    assert.deepEqual(taken.toSorted(), refs)
  })

  it('are taken from among the next thousand', () => {
    const { index, refs } = indexOf(3000)
    const taken = index.take(1000)
    assert.deepEqual(taken.toSorted(), refs.slice(0, 1000))
  })

  it('stay in order if they are ordered by name, or if at most a quarter or only a few are found in vain', () => {
    for (const [order, reports] of [
      ['name', { vain: 20, done: 0 }],
      ['arrival', { vain: 20, done: 60 }],
      ['arrival', { vain: 8, done: 0 }],
    ] as const) {
      const { index, refs } = indexOf(100, order, reports)
      assert.deepEqual(index.take(100), refs, `${order} ${JSON.stringify(reports)}`)
    }
  })

  it('are in order again when none was found in vain for two seconds', t => {
    let now = 1e6
    t.mock.method(performance, 'now', () => now)
    for (const [ms, isOrdered] of [
      [1999, false],
      [2000, true],
    ] as const) {
      const { index, refs } = indexOf(100)
      now += ms
      assert.equal(index.take(100).join() === refs.join(), isOrdered, `${ms}`)
    }
  })

  it('stay in order if those found in vain were withdrawn or ended here: nobody else need be there', () => {
    const { index, refs } = indexOf(100, 'arrival', { vain: 0 })
    for (const ref of index.take(20)) index.abandoned(ref) // withdrawn
    for (const ref of index.take(20)) index.returned({ ref, kind: 'locked', ranMs: 0 }, NOW + 1e9)
    const ended = index.take(20)
    index.done(ended)
    scan(index, ended) // the scan was late
    for (const ref of index.take(20)) index.returned({ ref, kind: 'gone', ranMs: 0 }, NOW)
    scan(index, refs.slice(40))
    assert.deepEqual(index.take(100), refs.slice(40))
  })

  it('are all taken from the most urgent priority first, even from one that comes meanwhile', () => {
    const { index, refs } = indexOf(100, 'age')
    const first = index.take(30)
    index.changed('0/b', true, NOW)
    assert.deepEqual(index.take(1), ['0/b'])
    first.push(...index.take(20))
    assert.deepEqual(first.toSorted(), refs.slice(0, 50))
  })

  it('that a worker handed back are given first, in order', () => {
    const { index } = indexOf(40)
    const taken = index.take(10)
    for (const ref of taken) index.returned({ ref, kind: 'untouched', ranMs: 0 }, NOW)
    assert.deepEqual(index.take(10), taken.toSorted())
  })

  it('come last after an event of their begin, and not at all after one of their removal until a scan meets them', () => {
    const { index, refs } = indexOf(40)
    index.returned({ ref: 'other', kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, NOW)
    const [first = ''] = index.take(1)
    const [gone = '', begun = '', ...rest] = refs.filter(ref => ref !== first)
    assert.ok(!index.changed(gone, true, NOW))
    assert.ok(!index.changed(begun, false, NOW))
    const others = index.take(40)
    assert.equal(others.pop(), begun)
    assert.deepEqual(others.toSorted(), rest)
    assert.ok(index.runsLow)
    scan(index, [gone]) // it was replaced
    assert.deepEqual([index.runsLow, index.take(9)], [false, [gone]])
  })

  it('are neither lost nor doubled by a scan that lists them meanwhile, and forgotten by one that does not', () => {
    const { index, refs } = indexOf(60)
    const taken = index.take(10)
    const left = refs.filter(ref => !taken.includes(ref))
    index.beginScan(false)
    for (const ref of left) index.seen(ref, NOW)
    taken.push(...index.take(10))
    index.endScan({ isAsBefore: () => false, isListed: () => true })
    assert.equal(index.ready, 40)
    const known: string[] = []
    index.eachReady(ref => known.push(ref), NOW)
    assert.deepEqual([...known, ...taken].toSorted(), refs)
    index.take(1)
    scan(index, [])
    assert.equal(index.ready, 0)
  })
})

describe('the event of the removal of a task that ran here', () => {
  it('makes no work if it comes after the report, while a further event does, because there is a new file', () => {
    const { index } = indexOf(2, 'arrival', { vain: 0 })
    const [first = '', second = ''] = index.take(2)
    index.done([first])
    index.returned({ ref: second, kind: 'set-aside', ranMs: 1 }, NOW)
    for (const ref of [first, second]) {
      assert.ok(!index.changed(ref, false, NOW))
      assert.ok(!index.changed(ref, true, NOW))
      assert.ok(index.changed(ref, true, NOW))
    }
    assert.deepEqual(index.take(9), [first, second])
  })

  it('is not waited for if it came before the report, or does not come within a second', t => {
    let now = 1e6
    t.mock.method(performance, 'now', () => now)
    const { index } = indexOf(2, 'arrival', { vain: 0 })
    const [first = '', second = ''] = index.take(2)
    assert.ok(!index.changed(first, true, NOW))
    index.done([first])
    index.done([second])
    assert.ok(index.changed(first, true, NOW))
    now += 1001
    assert.ok(index.changed(second, true, NOW))
  })

  it('is no longer expected once a new file of that name is stored where no events come', () => {
    const { index } = indexOf(1, 'arrival', { vain: 0 })
    const [ref = ''] = index.take(1)
    index.done([ref])
    assert.ok(index.stored(ref))
    assert.deepEqual(index.take(9), [ref])
  })
})

describe('the queue for a slot', () => {
  /** Returns an index all of whose refs wait for a slot. */
  function waitingOf(count: number) {
    const all = indexOf(count, 'name', { vain: 0 })
    for (const ref of all.index.take(count))
      all.index.returned({ ref, kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, NOW)
    const [queue = assert.fail()] = all.index.slots.queues()
    return { ...all, queue }
  }

  it('gives refs in order while nobody else runs tasks, and any of the next ones while somebody does', () => {
    const { index, refs, queue } = waitingOf(200)
    assert.equal(index.slots.next(queue, 50), 50)
    assert.deepEqual(index.take(50), refs.slice(0, 50))
    report(index, { vain: 100 })
    index.slots.next(queue, 50)
    const taken = index.take(50)
    assert.notDeepEqual(taken, refs.slice(50, 100))
    for (const [i, ref] of taken.entries())
      assert.ok(refs.indexOf(ref) <= 50 + i + 40, `${ref} before ${50 + i}`)
  })

  it('drops a ref at the event of its removal while somebody else runs tasks, until a scan meets it', () => {
    const { index, refs, queue } = waitingOf(5)
    const [first = '', second = '', ...rest] = refs
    assert.ok(index.changed(first, true, NOW)) // nobody else is there: it was replaced, or people removed it
    assert.deepEqual(index.take(9), [first])
    report(index, { vain: 100 })
    assert.ok(!index.changed(second, true, NOW))
    assert.deepEqual([index.ready, index.parkedFor('slot'), index.runsLow], [0, 3, false])
    assert.equal(index.slots.next(queue, 9), 3)
    assert.deepEqual(index.take(9).toSorted(), rest)
    assert.ok(index.runsLow)
    scan(index, [second]) // it was replaced
    assert.deepEqual([index.runsLow, index.take(9)], [false, [second]])
  })

  it('gives a ref that is locked when its turn comes again after growing waits, because somebody runs it', () => {
    const { index, refs, queue } = waitingOf(1)
    const [ref = ''] = refs
    const locked = { ref, kind: 'locked', ranMs: 0 } as const
    index.slots.next(queue, 1)
    const waits = [NOW, NOW + 250, NOW + 750].map(nowMs => {
      index.promote(nowMs)
      assert.deepEqual(index.take(9, nowMs), [ref])
      index.returned(locked, nowMs)
      return index.later.nextAtMs - nowMs
    })
    assert.deepEqual(waits, [250, 500, 1000])
  })

  it('goes on with the refs that it knows when the scan for more is cut short', () => {
    const index = new TaskIndex({ order: 'name', frequencyMs: 30_000 })
    const refs = Array.from({ length: 210_000 }, (_, i) => `a${i}`)
    for (const ref of refs)
      index.returned({ ref, kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, NOW)
    const [queue = assert.fail()] = index.slots.queues()
    for (let n = 0; !queue.runsLow && n < refs.length; n++) index.slots.next(queue, 1)
    const known = queue.first(Number.POSITIVE_INFINITY)
    assert.ok(known.length > 1000)
    index.beginScan(false)
    index.seen(refs.at(-1) ?? '', NOW)
    index.endScan({ isAsBefore: () => false, isListed: () => false }, false)
    assert.deepEqual([queue.runsLow, queue.first(Number.POSITIVE_INFINITY)], [true, known])
  })

  it('gives a worker that goes on with a name only refs that come before all ready ones', () => {
    const { index, refs } = waitingOf(6)
    assert.deepEqual(index.slots.takeFirst(SLOTS, 2), refs.slice(0, 2))
    index.changed('a001b', true, NOW)
    assert.deepEqual([index.slots.takeFirst(SLOTS, 2), index.parkedFor('slot')], [[], 4])
    assert.deepEqual(index.take(1), ['a001b'])
    assert.deepEqual(index.slots.takeFirst(SLOTS, 9), refs.slice(2))
    assert.equal(index.slots.takeFirst(SLOTS, 9).length, 0)
  })
})

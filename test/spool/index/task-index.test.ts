import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import type { ParkReason } from '#src/base/task/parked.js'
import type { ReportKind } from '#src/base/task/report.js'
import { censusOf } from '#src/engines/spool/index/backlog-count.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import { WaitingList } from '#src/engines/spool/index/waiting-list.js'
import { compareVersions, type TaskOrder } from '#src/engines/spool/task-order.js'
import { isLong } from '../../helpers/requires.js'

const NOW = 1_700_000_000_000
const FREQUENCY_MS = 30_000

function indexOf(refs: readonly string[], { order = 'name' as TaskOrder, windowSize = 100 } = {}): TaskIndex {
  const index = new TaskIndex({ order, frequencyMs: FREQUENCY_MS, windowSize })
  scan(index, refs)
  return index
}

function scan(index: TaskIndex, refs: readonly string[], nowMs = NOW): void {
  index.beginScan(false)
  for (const ref of refs) if (!index.seen(ref, nowMs)) break
  index.endScan()
}

const report = (ref: string, kind: ReportKind, atMs?: number) => ({ ref, kind, ranMs: 0, atMs })

describe('an ordered index', () => {
  it('gives the best ref first, and each ref once', () => {
    const index = indexOf(['10', '9', '2', '1'])
    assert.deepEqual(index.take(3), ['1', '2', '9'])
    assert.deepEqual(index.take(3), ['10'])
    assert.deepEqual(index.take(3), [])
    assert.equal(index.busy, 4)
  })

  it('lets a new urgent task overtake all refs that are not given yet', () => {
    const index = indexOf(['5/a', '5/b', '5/c'])
    index.take(1)
    index.changed('1/urgent', true)
    assert.deepEqual(index.take(3), ['1/urgent', '5/b', '5/c'])
  })

  it('counts a ref once, whether events or scans named it, and not while it waits', () => {
    const index = indexOf(['a', 'b', 'c'])
    index.changed('a', true)
    const [first = ''] = index.take(1)
    index.returned(report(first, 'later', NOW + 1000), NOW)
    index.beginScan(false)
    for (const ref of ['a', 'b', 'c', 'd']) index.seen(ref, NOW - 1)
    index.endScan()
    index.changed('b', true)
    const met: string[] = []
    index.eachReady(ref => met.push(ref), NOW)
    assert.deepEqual(met.sort(), ['b', 'c', 'd'])
  })

  it('knows since when a task has been due, whether its name tells when it was stored or tells nothing', () => {
    const index = indexOf([])
    for (const [ref, atMs] of [
      [`uwsgi_spoolfile_on_host_1_1_1_${NOW / 1000 - 86_400}_0`, NOW + 2000],
      ['free', NOW + 1000],
    ] as const) {
      index.changed(ref, true)
      index.take(1)
      index.returned(report(ref, 'later', atMs), NOW)
      index.promote(atMs)
      assert.equal(censusOf(index).oldestMs, atMs)
    }
  })

  it('does not give a ref twice when an event and a scan both name it', () => {
    const index = indexOf(['a', 'b'])
    index.changed('a', true)
    assert.deepEqual(index.take(9), ['a', 'b'])
  })

  it('does not count a ref twice when an event named it before the scan', () => {
    const index = indexOf([])
    index.changed('a', true)
    scan(index, ['a', 'b'])
    assert.equal(index.ready, 2)
    assert.deepEqual(index.take(9), ['a', 'b'])
  })

  it('forgets refs that events named once a scan of their whole directory does not meet them, and no others', () => {
    const index = indexOf([])
    for (const ref of ['gone', 'there', '5/gone', '7/elsewhere']) index.changed(ref, true)
    index.beginScan(false)
    index.seen('there', NOW)
    index.changed('new', true) // after its directory was listed
    const listed = ['', '5/']
    index.endScan({ isListed: prefix => listed.includes(prefix), isAsBefore: () => false })
    assert.equal(index.ready, 3)
    assert.deepEqual(index.take(9), ['7/elsewhere', 'new', 'there'])
    index.changed('gone', true)
    assert.deepEqual(index.take(9), ['gone'])
  })

  it('forgets no ref because an overflowing scan did not meet it', () => {
    const index = indexOf([], { windowSize: 2 })
    index.changed('z', true)
    index.beginScan(false)
    for (const ref of ['a', 'b', 'c', 'd', 'e']) if (!index.seen(ref, NOW)) break
    index.endScan({ isListed: () => true, isAsBefore: () => false })
    const met: string[] = []
    index.eachReady(ref => met.push(ref), NOW)
    assert.ok(met.includes('z'), met.join())
  })

  it('keeps the best of a directory that is larger than its window, and asks for a scan when it runs low', () => {
    const all = Array.from({ length: 1000 }, (_, i) => `t${i}`)
    const index = indexOf([...all].reverse(), { windowSize: 100 })
    const order: string[] = []
    while (order.length < 1000) {
      if (index.runsLow) scan(index, all.slice(order.length))
      const taken = index.take(7)
      assert.ok(taken.length > 0)
      for (const ref of taken) index.returned(report(ref, 'ok'), NOW)
      order.push(...taken)
    }
    assert.deepEqual(order, all)
    assert.equal(index.runsLow, false)
  })

  it('does not let a new task overtake better ones that lie beyond the window', () => {
    const index = indexOf(
      Array.from({ length: 30 }, (_, i) => `t${i}`),
      { windowSize: 10 },
    )
    index.changed('z-last', true)
    assert.deepEqual(index.take(30), ['t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7', 't8', 't9'])
    assert.equal(index.runsLow, true)
  })

  it('is true to a model under random scans, events, takes and reports', () => {
    const refs = Array.from({ length: 12 }, (_, i) => (i % 3 === 0 ? `${i}/x` : `t${i}`))
    const step = fc.oneof(
      fc.record({ type: fc.constant('drop' as const), i: fc.nat(11), silently: fc.boolean() }),
      fc.record({ type: fc.constant('scan' as const) }),
      fc.record({ type: fc.constant('take' as const), limit: fc.integer({ min: 1, max: 4 }) }),
      fc.record({
        type: fc.constant('done' as const),
        pick: fc.nat(11),
        kind: fc.constantFrom<ReportKind>('ok', 'untouched', 'retry'),
      }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), steps => {
        const index = new TaskIndex({ order: 'name', frequencyMs: FREQUENCY_MS, windowSize: 4 })
        const present = new Set<string>() // in the directory
        const busy: string[] = []
        const waiting = new Set<string>()
        for (const each of steps) {
          const ref = each.type === 'drop' ? (refs[each.i] ?? '') : ''
          if (each.type === 'drop' && !present.has(ref)) {
            present.add(ref)
            if (!each.silently) index.changed(ref, true)
          } else if (each.type === 'scan') scan(index, [...present])
          else if (each.type === 'take')
            for (const taken of index.take(each.limit, NOW)) {
              assert.ok(!busy.includes(taken), 'a busy ref was given again')
              assert.ok(!waiting.has(taken), 'a waiting ref was given')
              busy.push(taken)
            }
          else if (each.type === 'done' && busy.length > 0) {
            const [finished = ''] = busy.splice(each.pick % busy.length, 1)
            index.returned(report(finished, present.has(finished) ? each.kind : 'gone'), NOW)
            if (present.has(finished) && each.kind === 'ok') present.delete(finished)
            if (present.has(finished) && each.kind === 'retry') waiting.add(finished)
          }
        }
        // nothing is ever lost: scans and takes find all that is due
        for (let i = 0; i < 40; i++) {
          scan(index, [...present])
          for (const taken of index.take(3, NOW)) {
            index.returned(report(taken, 'ok'), NOW)
            present.delete(taken)
          }
        }
        const left = [...present].filter(ref => !waiting.has(ref) && !busy.includes(ref))
        assert.deepEqual(left, [])
      }),
      { numRuns: 3000 },
    )
  })
})

/** Returns a name generated so many µs before NOW, by a process whose number says nothing of its place. */
const madeAt = (microsAgo: number, pid = 1000 - microsAgo) => {
  const micros = NOW * 1000 - microsAgo
  return `uwsgi_spoolfile_on_host_${pid}_1_840383826_${Math.floor(micros / 1e6)}_${micros % 1e6}`
}

describe('an index in order of arrival', () => {
  it('orders refs by the time in their names, whoever made them and however they are met', () => {
    const index = indexOf([madeAt(20), madeAt(2_000_007), madeAt(5)], { order: 'arrival' })
    index.changed(madeAt(999_999), true)
    index.changed(madeAt(1), true)
    assert.deepEqual(
      index.take(9),
      [2_000_007, 999_999, 20, 5, 1].map(ago => madeAt(ago)),
    )
  })

  it('orders a free name by first sight, even if later scans meet it again', () => {
    const index = new TaskIndex({ order: 'arrival', frequencyMs: FREQUENCY_MS })
    scan(index, ['z'], NOW + 1)
    scan(index, [madeAt(-3000), 'z', 'x', 'y'], NOW + 5)
    scan(index, ['x', 'y', 'z', madeAt(-3000)], NOW + 9)
    assert.deepEqual(index.take(9, NOW + 9), ['z', madeAt(-3000), 'x', 'y'])
  })

  it('orders a name from the far future by first sight, too, so that a clock that is ahead makes no task wait', () => {
    const index = new TaskIndex({ order: 'arrival', frequencyMs: FREQUENCY_MS })
    const ahead = madeAt(-3_600_000_000)
    scan(index, [ahead], NOW)
    scan(index, [ahead, madeAt(-100_000)], NOW + 200)
    assert.deepEqual(index.take(9, NOW), [ahead, madeAt(-100_000)])
  })

  it('orders names from before the clock was set back by first sight, so that later tasks do not overtake them', () => {
    const BACK_MS = 3_600_000
    const index = new TaskIndex({ order: 'arrival', frequencyMs: FREQUENCY_MS })
    const madeAfter = (ms: number) => madeAt((BACK_MS - ms) * 1000)
    const before = [madeAt(2000), madeAt(1000)]
    scan(index, before, NOW)
    scan(index, [...before, madeAfter(1000)], NOW - BACK_MS + 2000)
    const expected = [madeAfter(1000), ...before, madeAfter(5000), madeAfter(7000)]
    for (const ms of [6000, 8000]) scan(index, [...expected].reverse(), NOW - BACK_MS + ms)
    assert.deepEqual(index.take(9, NOW - BACK_MS + 8000), expected)
  })

  for (const kind of ['retry', 'error', 'later', 'ignore'] as const)
    it(`orders a task that ended with ${kind} by its next run, even if its worker hands it back or dies`, () => {
      const old = madeAt(5_000_000)
      const index = indexOf([old], { order: 'arrival' })
      index.take(1)
      index.returned(report(old, kind, NOW + 500), NOW)
      index.promote(NOW + 1000)
      scan(index, [madeAt(-400_000), old, madeAt(-600_000)], NOW + 1000)
      const order = [madeAt(-400_000), old, madeAt(-600_000)]
      assert.deepEqual(index.take(9, NOW + 1000), order)
      index.abandoned(order[2] ?? '')
      index.returned(report(old, 'untouched'), NOW + 1000)
      index.abandoned(order[0] ?? '')
      assert.deepEqual(index.take(9, NOW + 1000), order)
    })

  for (const kind of ['retry', 'error', 'later'] as const)
    it(`orders a task that ended with ${kind} by the change that ended its wait, which may be its own settling`, () => {
      const old = madeAt(5_000_000)
      const index = indexOf([old], { order: 'arrival' })
      index.take(1)
      index.returned(report(old, kind, NOW + 30_000), NOW)
      assert.ok(index.changed(old, false, NOW + 100))
      const order = [madeAt(-50_000), old, madeAt(-200_000)]
      scan(index, [...order].reverse(), NOW + 300)
      assert.deepEqual(index.take(9, NOW + 300), order)
    })

  for (const kind of ['locked', 'incomplete'] as const)
    it(`orders a task that was ${kind} and then changed by the time in its name, because it has been runnable`, () => {
      const old = madeAt(5_000_000)
      const index = indexOf([old], { order: 'arrival' })
      index.take(1)
      index.returned(report(old, kind), NOW)
      assert.ok(index.changed(old, false, NOW + 1))
      scan(index, [madeAt(4_000_000)], NOW + 1)
      assert.deepEqual(index.take(9, NOW + 1), [old, madeAt(4_000_000)])
    })

  for (const kind of ['locked', 'incomplete'] as const)
    it(`orders a task that was ${kind} by the time in its name, because it has been runnable`, () => {
      const old = madeAt(5_000_000)
      const index = indexOf([old], { order: 'arrival' })
      index.take(1)
      index.returned(report(old, kind), NOW)
      index.changed(madeAt(4_000_000), true)
      index.promote(NOW + 1000)
      assert.deepEqual(index.take(9, NOW + 1000), [old, madeAt(4_000_000)])
    })

  it('orders a new file under the name of a task that ran by its own first sight', () => {
    const index = new TaskIndex({ order: 'arrival', frequencyMs: FREQUENCY_MS })
    scan(index, ['z'], NOW)
    index.take(1)
    index.returned(report('z', 'ok'), NOW)
    scan(index, ['y'], NOW + 1)
    scan(index, ['z', 'y'], NOW + 2)
    assert.deepEqual(index.take(9, NOW + 2), ['y', 'z'])
  })

  it('ends a scan when its window is full', () => {
    const index = new TaskIndex({ order: 'arrival', frequencyMs: FREQUENCY_MS, windowSize: 2 })
    index.beginScan(false)
    assert.deepEqual([index.seen('a', NOW), index.seen('b', NOW)], [true, false])
    index.endScan()
    index.take(2)
    assert.equal(index.runsLow, true)
  })
})

describe('the ref of a report', () => {
  let index: TaskIndex
  beforeEach(() => {
    index = indexOf(['a'])
    index.take(1)
  })
  const returned = (kind: ReportKind, atMs?: number) => index.returned(report('a', kind, atMs), NOW)
  /** True if the ref is given at this time. */
  const isGivenAt = (ms: number) => {
    index.promote(ms)
    return index.take(1, ms).length === 1
  }

  for (const kind of ['ok', 'gone'] as const)
    it(`is forgotten after ${kind}`, () => {
      returned(kind)
      assert.deepEqual([index.busy, index.ready, index.waiting], [0, 0, 0])
    })

  it('is ready again at once after untouched', () => {
    returned('untouched')
    assert.ok(isGivenAt(NOW))
  })

  for (const kind of ['retry', 'error', 'later'] as const)
    it(`waits for its time after ${kind}`, () => {
      returned(kind, NOW + 5000)
      assert.equal(index.later.wakesAtMs, NOW + 5000)
      assert.ok(!isGivenAt(NOW + 4999))
      assert.ok(isGivenAt(NOW + 5000))
    })

  it('is looked at again after malformed at its time or, without a time, when its file has changed', () => {
    returned('malformed', NOW + 5000)
    assert.equal(index.later.wakesAtMs, NOW + 5000)
    assert.deepEqual(index.unreadable, { later: 1, ready: 0 })
    assert.ok(isGivenAt(NOW + 5000))
    returned('malformed')
    assert.equal(index.later.wakesAtMs, Number.POSITIVE_INFINITY)
    assert.deepEqual(index.unreadable, { later: 1, ready: 0 })
    scan(index, ['a'])
    assert.ok(!isGivenAt(NOW + 1e9))
    assert.ok(index.changed('a', false, NOW))
    assert.deepEqual(index.unreadable, { later: 0, ready: 0 })
    assert.deepEqual(index.take(1, NOW), ['a'])
  })

  for (const kind of ['malformed', 'incomplete', 'unreadable'] as const)
    it(`is no longer counted as unreadable after ${kind} once a look at all files does not find it`, () => {
      returned(kind)
      index.beginScan(true)
      index.later.add('b', NOW + 1e9, true)
      index.endScan()
      assert.deepEqual(index.unreadable, { later: 0, ready: 0 })
    })

  for (const [what, renamed] of [
    ['has changed', false],
    ['was removed or replaced', true],
  ] as const)
    it(`is ready at once after malformed if its file ${what} meanwhile`, () => {
      index.changed('a', renamed, NOW)
      returned('malformed')
      assert.deepEqual(index.take(1, NOW), ['a'])
    })

  for (const kind of ['ignore', 'unreadable', 'unsettled'] as const)
    it(`is looked at again one frequency after ${kind}`, () => {
      returned(kind)
      assert.ok(!isGivenAt(NOW + FREQUENCY_MS - 1))
      assert.ok(isGivenAt(NOW + FREQUENCY_MS))
    })

  it('is looked at again 2 ms after locked, then after 4 ms and so on, up to a second', () => {
    const waits: number[] = []
    for (let i = 0; i < 14; i++) {
      returned('locked')
      waits.push(index.later.wakesAtMs - NOW)
      index.promote(NOW + 1000)
      index.take(1)
    }
    assert.deepEqual(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000, 1000])
  })

  it('is not given by a scan while it waits, unless the scan is for all files', () => {
    returned('later', NOW + 60_000)
    scan(index, ['a'])
    assert.deepEqual(index.take(1, NOW), [])
    index.beginScan(true)
    index.seen('a', NOW)
    index.endScan()
    assert.deepEqual(index.take(1), ['a'])
  })

  it('is looked at again once if its file changes while a worker looks at its time', () => {
    const index = indexOf(['a'])
    index.take(1)
    index.changed('a', false)
    index.returned(report('a', 'later', NOW + 60_000), NOW)
    assert.deepEqual(index.take(1), ['a'])
    index.returned(report('a', 'later', NOW + 60_000), NOW)
    assert.deepEqual(index.take(1), [])
    assert.equal(index.waiting, 1)
  })

  it('waits no longer for a time of its file when that file changes', () => {
    returned('later', NOW + 60_000)
    assert.ok(index.changed('a', false))
    assert.deepEqual(index.take(1), ['a'])
  })

  it('waits no longer for a retry when its file changes, because somebody may have set its time to now', () => {
    returned('retry', NOW + 60_000)
    assert.ok(index.changed('a', false))
    assert.deepEqual(index.take(1), ['a'])
  })

  it('goes on waiting after ignore when its file changes, because we set its times back', () => {
    returned('ignore', NOW + 60_000)
    assert.ok(!index.changed('a', false))
    assert.deepEqual(index.take(1), [])
  })

  it('is given again for a new file under its name: our unlink is one rename event, the arrival a second one', () => {
    index.changed('a', true)
    returned('ok')
    assert.deepEqual(index.take(1), [])
    scan(index, ['b'])
    index.take(1)
    index.changed('b', true)
    index.changed('b', true)
    index.returned(report('b', 'ok'), NOW)
    assert.deepEqual(index.take(1), ['b'])
  })

  it('is ready again at once if its worker died', () => {
    index.abandoned('a')
    assert.deepEqual(index.take(1), ['a'])
  })
})

describe('a parked ref', () => {
  const parked = (ref: string, reason: ParkReason) => ({ ref, kind: 'parked' as const, ranMs: 0, reason })
  let index: TaskIndex
  beforeEach(() => {
    index = indexOf(['a', 'b'])
    for (const ref of index.take(2)) index.returned(parked(ref, ref === 'a' ? 'paused' : 'alone'), NOW)
  })

  it('waits for its reason to end, whatever the time, and whatever a scan meets', () => {
    assert.deepEqual([index.busy, index.ready, index.waiting], [0, 0, 2])
    assert.equal(index.later.wakesAtMs, Number.POSITIVE_INFINITY)
    index.promote(NOW + 1e9)
    scan(index, ['a', 'b'])
    index.unpark('unknown-name')
    assert.deepEqual(index.take(9), [])
    index.unpark('paused')
    assert.deepEqual(index.take(9), ['a'])
    scan(index, ['a', 'b'])
    assert.deepEqual(index.take(9), [])
    assert.deepEqual([index.busy, index.waiting], [1, 1])
  })

  it('stays parked as crashed when its file is written, as by the worker that parked it, not when it is renamed', () => {
    index.changed('c', true)
    index.returned(parked(index.take(1)[0] ?? '', 'crashed'), NOW)
    assert.equal(index.changed('c', false), false)
    assert.deepEqual([index.take(9), index.parkedFor('crashed')], [[], 1])
    assert.equal(index.changed('c', true), true)
    assert.deepEqual([index.take(9), index.parkedFor('crashed')], [['c'], 0])
  })

  it('stays parked as crashed through a scan for all files, which gives one of too many to know by name', () => {
    const scanned = (refs: readonly string[]) => {
      index.beginScan(true)
      for (const ref of refs) index.seen(ref, NOW)
      index.endScan()
      return index.take(9)
    }
    index.unpark('alone')
    index.take(9)
    const refs = Array.from({ length: 1001 }, (_, i) => `c${i}`)
    for (const ref of refs.slice(0, 1000)) index.returned(parked(ref, 'crashed'), NOW)
    assert.deepEqual([scanned(refs.slice(0, 1000)), index.parkedFor('crashed')], [[], 1000])
    index.returned(parked('c1000', 'crashed'), NOW)
    assert.deepEqual([scanned(refs), index.parkedFor('crashed')], [['c1000'], 1000])
  })

  it('may be taken by its reason', () => {
    assert.deepEqual([index.parkedFor('alone'), index.parkedFor('paused')], [1, 1])
    assert.deepEqual(index.takeParked('alone', 9), ['b'])
    assert.deepEqual(index.takeParked('alone', 9), [])
    assert.deepEqual([index.busy, index.parkedFor('alone')], [1, 0])
    index.unpark('alone')
    assert.deepEqual(index.take(9), [])
  })

  it('is ready when its file changes, because it may be another task by now', () => {
    assert.ok(index.changed('b', true))
    assert.deepEqual(index.takeParked('alone', 9), [])
    assert.deepEqual(index.take(9), ['b'])
    index.returned(parked('b', 'alone'), NOW)
    assert.deepEqual(index.takeParked('alone', 9), ['b'])
  })

  for (const isForAll of [true, false])
    it(`is looked at again by a scan of ${isForAll ? 'waiting files' : 'changed files'}, unless a person paused it`, () => {
      index.beginScan(isForAll, true, () => false)
      for (const ref of ['a', 'b']) index.seen(ref, NOW)
      index.endScan()
      assert.deepEqual(index.take(9), ['b'])
      index.unpark('paused')
      assert.deepEqual(index.take(9), ['a'])
    })

  it('takes little memory when there are many: scans tell the names of most', () => {
    const COUNT = 200_000
    const many = new TaskIndex({ order: 'arrival', frequencyMs: FREQUENCY_MS })
    const refs = Array.from(
      { length: COUNT },
      (_, i) => Buffer.from(`uwsgi_spoolfile_on_host_1234_${i}_84_1795238706_9943`).toString('latin1'), // in one piece
    )
    const before = liveBytes()
    for (const ref of refs) {
      many.changed(ref, true)
      many.take(1)
      many.returned(parked(ref, 'paused'), NOW)
    }
    assert.equal(many.waiting, COUNT)
    assert.ok(liveBytes() - before < 10e6, `${liveBytes() - before} bytes`)
    scan(many, refs)
    assert.equal(many.ready, 0)
    many.unpark('paused')
    assert.ok(many.ready > 0 && many.ready < 2000, `${many.ready} names`)
    assert.ok(many.runsLow)
    let given = many.take(COUNT).length
    while (many.runsLow) {
      scan(many, refs.slice(given))
      given += many.take(COUNT).length
    }
    assert.equal(given, COUNT)
  })

  it('has one of a limited number of places: further refs wait for a frequency, and are not lost', () => {
    const MOST = 10
    const full = new TaskIndex({ order: 'name', frequencyMs: FREQUENCY_MS, parkedSize: MOST })
    const park = (ref: string, reason: ParkReason) => {
      full.changed(ref, true)
      assert.deepEqual(full.take(1, NOW), [ref])
      full.returned(parked(ref, reason), NOW)
    }
    for (let i = 0; i < MOST; i++) park(`t${i}`, i % 2 === 0 ? 'paused' : 'unknown-name')
    for (const ref of ['over', 't0']) park(ref, 'alone')
    assert.deepEqual([full.parkedFor('alone'), full.waiting], [1, MOST + 1])
    full.promote(NOW + FREQUENCY_MS)
    assert.deepEqual(full.take(9, NOW + FREQUENCY_MS), ['over'])
    full.returned(parked('over', 'alone'), NOW + FREQUENCY_MS)
    assert.equal(full.parkedFor('alone'), 1, 'there is still no room')
    full.changed('t1', true) // leaves its place
    full.promote(NOW + 2 * FREQUENCY_MS)
    assert.deepEqual(full.take(9, NOW + 2 * FREQUENCY_MS), ['over', 't1'])
    full.returned(parked('over', 'alone'), NOW)
    assert.equal(full.parkedFor('alone'), 2)
  })
})

describe('many refs that wait', () => {
  it('take little memory, and the soonest are known by name', () => {
    const index = new TaskIndex({ order: 'name', frequencyMs: FREQUENCY_MS })
    const before = liveBytes()
    for (let i = 0; i < 300_000; i++) {
      const ref = `uwsgi_spoolfile_on_host_1234_${i}_840383826_1795238706_994353`
      index.changed(ref, true)
      index.take(1)
      index.returned(report(ref, 'later', NOW + 1000 * (300_000 - i)), NOW)
    }
    assert.equal(index.waiting, 300_000)
    assert.ok(liveBytes() - before < 60e6, `${liveBytes() - before} bytes`)
    index.promote(NOW + 1500)
    assert.deepEqual(index.take(9), ['uwsgi_spoolfile_on_host_1234_299999_840383826_1795238706_994353'])
    assert.equal(index.later.horizonMs <= NOW + 1500, false)
    assert.equal(index.later.horizonMs <= NOW + 400_000_000, true)
  })

  it('are not given when others come due together, if they wait for longer', () => {
    const index = new TaskIndex({ order: 'name', frequencyMs: FREQUENCY_MS })
    const refs = Array.from({ length: 200_000 }, (_, i) => `t${i}`)
    for (const [i, ref] of refs.entries()) {
      index.changed(ref, true)
      index.take(1)
      index.returned(report(ref, 'later', NOW + (i % 2 === 0 ? 5000 : 86_400_000)), NOW)
    }
    index.promote(NOW + 5000)
    scan(index, refs, NOW + 5000)
    assert.deepEqual([index.ready, index.waiting], [100_000, 100_000])
    assert.ok(index.take(200_000, NOW + 5000).every(ref => Number(ref.slice(1)) % 2 === 0))
  })
})

describe('a waiting list', () => {
  it('counts each ref once, however often its time changes', () => {
    const list = new WaitingList()
    for (let i = 0; i < 1000; i++) list.add(`t${i % 100}`, NOW + i, true)
    assert.equal(list.size, 100)
    assert.equal(list.endOnChange('t7'), 'ended')
    assert.equal(list.endOnChange('t7'), 'no wait')
    assert.deepEqual(
      [list.size, list.isWaiting('t7', NOW - 1), list.isWaiting('t8', NOW - 1)],
      [99, false, true],
    )
    list.clear()
    assert.deepEqual([list.size, list.isWaiting('t8', NOW - 1)], [0, false])
  })

  it('holds more refs than a Map could', { skip: isLong ? false : 'takes a gigabyte and a minute' }, () => {
    const list = new WaitingList()
    for (let i = 0; i <= 2 ** 24; i++) list.add(`t${i}`, NOW, true)
    assert.ok(list.size > 2 ** 24 - 100)
  })
})

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

function liveBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

describe('compareVersions and the index', () => {
  it('agree on random names', () => {
    const name = fc.string({ unit: fc.constantFrom(...'0129ab_'), minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(fc.uniqueArray(name, { maxLength: 30 }), fc.nat(29), (names, cut) => {
        const index = indexOf(names.slice(cut))
        for (const each of names.slice(0, cut)) index.changed(each, true)
        assert.deepEqual(index.take(99), [...names].sort(compareVersions))
      }),
      { numRuns: 2000 },
    )
  })
})

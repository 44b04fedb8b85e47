import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { ScanTimetable } from '#src/engines/spool/index/scan-timetable.js'

describe('requests for a scan', () => {
  it('become one scan, at the earliest time, and for all files if one of the requests was', () => {
    for (const [first, second] of [
      [5, 9],
      [9, 5],
    ] as const) {
      const timetable = new ScanTimetable(1_000_000)
      timetable.begin()
      timetable.want(first, first === 9)
      assert.equal(timetable.want(second, second === 9), 5)
      assert.ok(timetable.begin())
      assert.ok(!timetable.begin())
    }
  })
})

describe('a listing because of unclear events', () => {
  it('that was put off comes at once when there is nothing else to do, unless the last one has only just ended', async () => {
    const timetable = new ScanTimetable(1_000_000)
    const now = performance.now()
    timetable.begin()
    timetable.ended(now - 1000, true, true, 99)
    const [busy, idle] = [timetable.unclearInMs(99), timetable.idleUnclearInMs(99)]
    assert.ok(busy >= 10_000 && idle > 0.9 * busy, `${busy}, ${idle}`)

    timetable.begin()
    timetable.ended(performance.now() - 1, true, true, 99)
    await setTimeout(1)
    await setTimeout(11 * timetable.unclearInMs(99))
    assert.ok(timetable.unclearInMs(99) >= 10)
    assert.equal(timetable.idleUnclearInMs(99), 0)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openCron } from '#src/runtime/schedule/cron.js'
import { CalendarTicks, TimerTicks } from '#src/runtime/schedule/ticks.js'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const utc = (text: string) => Date.parse(`${text}Z`)

/** Yields the irregular times at which a busy process looks: up to `lateMs` after the time that it asked for. */
function* looks(from: number, until: number, ask: () => number, lateMs: number): Generator<number> {
  let state = 17
  for (let now = from; now < until; ) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    now = Math.max(now + 1, ask()) + Math.floor((state / 2 ** 31) * lateMs)
    yield now
  }
}

describe('a timer', () => {
  for (const everyMs of [50, 1000, 7000, 3_600_000])
    it(`of ${everyMs} ms fires each instant once, even if looks are late by up to 90 % of a period`, () => {
      const ticks = new TimerTicks(everyMs, 0, 5)
      const until = Math.min(365 * DAY, everyMs * 100_000)
      const fired: number[] = []
      for (const now of looks(5, until, () => ticks.nextAtMs, everyMs * 0.9)) {
        const instant = ticks.take(now)
        if (instant !== undefined) fired.push(instant)
        assert.ok(ticks.nextAtMs > now)
      }
      assert.deepEqual(
        fired,
        Array.from({ length: fired.length }, (_, i) => 5 + (i + 1) * everyMs),
      )
      assert.ok(fired.length >= until / everyMs - 2)
    })

  it('fires once for all instants that were slept through, and keeps its phase', () => {
    const ticks = new TimerTicks(10, 0, 0)
    assert.equal(ticks.take(9.9), undefined)
    assert.equal(ticks.take(57), 50)
    assert.equal(ticks.take(58), undefined)
    assert.equal(ticks.nextAtMs, 60)
  })

  it('with iterations ends after the last one, and stays ended', () => {
    const ticks = new TimerTicks(10, 2, 0)
    assert.deepEqual([ticks.take(10), ticks.take(20), ticks.take(30)], [10, 20, undefined])
    ticks.restart(100)
    assert.equal(ticks.nextAtMs, Number.POSITIVE_INFINITY)
  })

  it('waits its whole period again after a restart', () => {
    const ticks = new TimerTicks(10, 0, 0)
    ticks.restart(9)
    assert.equal(ticks.take(10), undefined)
    assert.equal(ticks.take(19), 19)
  })
})

describe('the calendar', () => {
  const cron = (expression: string, zone = 'Europe/Berlin') => openCron(expression, zone)

  it('fires every instant of a year exactly once, also in both nights in which summer time changes', () => {
    const table = cron('30 * * * *')
    const [from, until] = [utc('2026-01-01'), utc('2027-01-01')]
    const ticks = new CalendarTicks(table, from)
    const fired: number[] = []
    for (const now of looks(from, until, () => ticks.nextAtMs, 50 * SECOND)) {
      const instant = ticks.take(now)
      if (instant !== undefined) fired.push(instant)
    }
    assert.deepEqual(
      fired.filter(at => at < until),
      Array.from({ length: 365 * 24 }, (_, i) => from + i * HOUR + 30 * MINUTE),
    )
  })

  it('does not fire the instant at which it begins', () => {
    const now = utc('2026-06-01T10:00')
    assert.equal(new CalendarTicks(cron('0 * * * *'), now).take(now), undefined)
  })

  it('fires an instant less than a minute late, and makes up for no older one', () => {
    const start = utc('2026-06-01T10:30')
    const due = utc('2026-06-01T11:00')
    for (const [lateMs, expected] of [
      [59_999, due],
      [60_000, undefined],
    ] as const)
      assert.equal(new CalendarTicks(cron('0 * * * *'), start).take(due + lateMs), expected)
  })

  it('leaves out an instant past which the clock is set, and fires the one to which the clock is set', () => {
    const ticks = new CalendarTicks(cron('0 * * * *'), utc('2026-06-01T10:30'))
    assert.equal(ticks.take(utc('2026-06-01T12:30')), undefined)
    assert.equal(ticks.take(utc('2026-06-01T13:00')), utc('2026-06-01T13:00'))
    assert.equal(ticks.take(utc('2026-06-03T09:00') + 5 * SECOND), utc('2026-06-03T09:00'))
  })

  it('repeats nothing when the clock is set back by less than an hour', () => {
    const ticks = new CalendarTicks(cron('*/10 * * * *'), utc('2026-06-01T10:55'))
    assert.equal(ticks.take(utc('2026-06-01T11:00')), utc('2026-06-01T11:00'))
    assert.equal(ticks.take(utc('2026-06-01T11:10')), utc('2026-06-01T11:10'))
    for (let now = utc('2026-06-01T10:20'); now < utc('2026-06-01T11:20'); now += SECOND)
      assert.equal(ticks.take(now), undefined)
    assert.equal(ticks.take(utc('2026-06-01T11:20')), utc('2026-06-01T11:20'))
  })

  it('starts over when the clock is set back by more than an hour', () => {
    const ticks = new CalendarTicks(cron('*/10 * * * *'), utc('2036-06-01T10:55'))
    assert.equal(ticks.take(utc('2026-06-01T10:55')), undefined)
    assert.equal(ticks.take(utc('2026-06-01T11:00')), utc('2026-06-01T11:00'))
  })

  it('with seconds, fires only the latest instant that was slept through', () => {
    const ticks = new CalendarTicks(cron('*/5 * * * * *'), utc('2026-06-01T10:00'))
    assert.equal(ticks.take(utc('2026-06-01T10:00:23')), utc('2026-06-01T10:00:20'))
    assert.equal(ticks.nextAtMs, utc('2026-06-01T10:00:25'))
  })

  it('leaves out what was due before a restart', () => {
    const ticks = new CalendarTicks(cron('0 * * * *'), utc('2026-06-01T10:30'))
    ticks.restart(utc('2026-06-01T11:00') + 5)
    assert.equal(ticks.take(utc('2026-06-01T11:00') + 10), undefined)
    assert.equal(ticks.nextAtMs, utc('2026-06-01T12:00'))
  })
})

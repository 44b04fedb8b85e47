import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RespawnPace } from '#src/base/respawn-pace.js'

/** Returns when processes are replaced that die `livedMs` after they came. */
function replacements(processes: number, livedMs: number, untilMs: number, progress = false): number[] {
  const pace = new RespawnPace()
  const deaths = Array.from({ length: processes }, () => livedMs)
  const spawned: number[] = []
  for (;;) {
    deaths.sort((a, b) => a - b)
    const now = deaths.shift() ?? Number.POSITIVE_INFINITY
    if (now > untilMs) return spawned
    if (progress) pace.progressed()
    const at = now + pace.failed(livedMs, now)
    spawned.push(at)
    deaths.push(at + livedMs)
  }
}

const between = (times: readonly number[], from: number, to: number) =>
  times.filter(at => at >= from && at < to).length

describe('RespawnPace', () => {
  for (const processes of [1, 4, 16])
    it(`without progress, replaces ten in the first 10 s, and one in 30 s later, of ${processes} processes`, () => {
      const spawned = replacements(processes, 50, 300_000)
      assert.ok(between(spawned, 0, 10_000) <= 10)
      for (let from = 10_000; from < 240_000; from += 30_000)
        assert.ok(between(spawned, from, from + 30_000) <= 1, `from ${from} on`)
      assert.ok(between(spawned, 0, 300_000) > 10)
    })

  it('with progress, replaces twenty at once, and then one per second', () => {
    const spawned = replacements(1, 10, 60_000, true)
    assert.ok(between(spawned, 0, 500) >= 20)
    assert.ok(between(spawned, 10_000, 40_000) <= 31)
    assert.ok(between(spawned, 10_000, 40_000) >= 29)
  })

  it('does not wait after progress, or when a process lived long', () => {
    const pace = new RespawnPace()
    for (let i = 0; i < 6; i++) pace.failed(10, 100_000)
    assert.ok(pace.failed(10, 100_000) > 1000)
    assert.equal(pace.progressed(), true)
    assert.equal(pace.progressed(), false)
    assert.equal(pace.failed(10, 100_000), 0)
    assert.equal(pace.failed(10, 100_000), 100)
    assert.equal(pace.failed(60_000, 100_000), 0)
  })
})

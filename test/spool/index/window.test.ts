import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { OrderedWindow } from '#src/spool/index/window.js'
import { compareVersions } from '#src/spool/version-order.js'

function takeAll(window: OrderedWindow): string[] {
  const taken: string[] = []
  for (let ref = window.next(); ref !== undefined; ref = window.next()) taken.push(ref)
  return taken
}

/** Distinct numbers in an order that looks like chance. */
const shuffled = (count: number) => Array.from({ length: count }, (_, i) => (i * 104_729) % 1_000_003)

describe('an ordered window', () => {
  it('gives the best of all that it was shown, in order, and knows what comes before the rest', () => {
    const names = fc.uniqueArray(
      fc.string({ unit: fc.constantFrom(...'0129ab_'), minLength: 1, maxLength: 6 }),
      {
        maxLength: 80,
      },
    )
    fc.assert(
      fc.property(names, fc.integer({ min: 1, max: 40 }), (refs, limit) => {
        const window = new OrderedWindow(limit)
        for (const ref of refs) window.add(ref)
        window.seal(ref => ref.endsWith('9'))
        const best = [...refs].sort(compareVersions).slice(0, limit)
        assert.equal(window.isOverflowed, refs.length > limit)
        for (const beyond of [...refs].sort(compareVersions).slice(limit))
          assert.equal(window.isBeforeTheRest(beyond), false)
        assert.equal(window.size, best.filter(ref => !ref.endsWith('9')).length)
        assert.deepEqual(
          takeAll(window),
          best.filter(ref => !ref.endsWith('9')),
        )
        assert.equal(window.size, 0)
      }),
      { numRuns: 2000 },
    )
  })

  for (const [order, numbers] of [
    ['any order', shuffled(300_000)],
    ['the worst order', Array.from({ length: 300_000 }, (_, i) => 300_000 - i)],
  ] as const)
    it(`of 300,000 names in ${order}, keeps about as many as it may, none worse than what it dropped, and never works for long`, () => {
      const window = new OrderedWindow(120_000)
      let longest = 0
      const timed = (work: () => void) => {
        const before = process.cpuUsage()
        work()
        longest = Math.max(longest, process.cpuUsage(before).user / 1000)
      }
      const names = numbers.map(
        number => `uwsgi_spoolfile_on_host_1234_${number}_840383826_1795238706_994353`,
      )
      // a scan reads so many at once
      for (let i = 0; i < names.length; i += 2048)
        timed(() => {
          for (const name of names.slice(i, i + 2048)) window.add(name)
        })
      timed(() => window.seal(undefined))
      assert.ok(window.size >= 119_900 && window.size < 135_000, `${window.size}`)
      const taken = takeAll(window)
      assert.deepEqual(taken, names.sort(compareVersions).slice(0, taken.length))
      assert.ok(longest < 100, `${longest} ms at a stretch`) // a tenth of it on an idle machine
    })
})

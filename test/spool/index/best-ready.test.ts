import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { bestReady } from '#src/engines/directory/feed.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import type { TaskOrder } from '#src/engines/spool/task-order.js'

const NOW = Date.now()

describe('the best ready refs', () => {
  it('are the refs that the index gives next, in its order, and stay in the index', () => {
    const ref = fc
      .tuple(fc.constantFrom('', '5/', '10/'), fc.integer({ min: 1, max: 60 }))
      .map(([prefix, n]) => `${prefix}uwsgi_spoolfile_on_h_1_${n}_1_${1_700_000_000 + ((n * 37) % 50)}_1`)
    const refs = fc.uniqueArray(ref, { maxLength: 80 })
    const orders = fc.constantFrom<TaskOrder>('name', 'age', 'arrival')
    const few = fc.integer({ min: 0, max: 5 })
    fc.assert(
      fc.property(
        orders,
        refs,
        refs,
        few,
        fc.nat(100),
        fc.integer({ min: 1, max: 100 }),
        (order, met, fresh, taken, from, count) => {
          const index = new TaskIndex({ order, frequencyMs: 30_000 })
          index.beginScan(false)
          for (const each of met) index.seen(each, NOW)
          index.endScan()
          for (const each of fresh) index.changed(each, true)
          index.take(taken)
          const best = bestReady(index, order, from, count)
          assert.deepEqual(best, index.take(from + count).slice(from))
        },
      ),
      { numRuns: 300 },
    )
  })
})

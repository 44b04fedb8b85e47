import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { SlotWatch } from '#src/engines/spool/index/slot-watch.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import { type HeldSlot, slotTaker } from '#src/engines/spool/slot-files.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const SLOTS = { name: 'few', count: 3 }
const NONE: ReadonlySet<number> = new Set()

/** Starts a watch for one task that waits. Another slot is free at each of the first `moments` looks; the last one stays free. */
function watched(t: TestContext, moments: number) {
  const spool = spoolDirectory()
  const takeSlot = slotTaker('ofd')
  const take = (number: number) => takeSlot(spool, SLOTS, number, NONE) ?? assert.fail()
  const held = [0, 1, 2].map(take)
  const index = new TaskIndex({ order: 'arrival', frequencyMs: 30_000 })
  index.returned({ ref: 'a', kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, Date.now())
  const counts = { looks: 0 }
  let free: HeldSlot | undefined
  const { queues } = index.slots
  t.mock.method(index.slots, 'queues', () => {
    if (counts.looks++ < moments) {
      if (free !== undefined) held[free.number] = take(free.number)
      free = held[counts.looks % 3] ?? assert.fail()
      free.release()
    }
    return queues.call(index.slots)
  })
  const watch = new SlotWatch(spool, index, () => {})
  watch.watch()
  t.after(() => watch.close())
  return { index, counts, watch }
}

describe('the look for slots that others gave back', () => {
  it('makes a task ready for a slot that stays free, not for one that is free for a moment between two tasks', async t => {
    t.mock.method(performance, 'now', () => 1e6)
    const { index, counts } = watched(t, 10)
    await until('the watch has looked', () => index.ready > 0 || counts.looks > 20) // by looks, as the clock stands
    assert.equal(index.ready, 1)
    assert.ok(counts.looks > 10, `after ${counts.looks} looks`)
  })

  it('makes a task ready after a second if no slot stays free', async t => {
    let now = 1e6
    t.mock.method(performance, 'now', () => now)
    const { index, counts } = watched(t, Number.POSITIVE_INFINITY)
    await until('the watch has looked', () => index.ready > 0 || counts.looks > 5)
    assert.equal(index.ready, 0)
    now += 1000
    await until('the watch has looked', () => index.ready > 0 || counts.looks > 20)
    assert.equal(index.ready, 1)
  })

  it('asks a looker that cannot look only once a second, because each time may start a new process', async t => {
    const { index, counts, watch } = watched(t, 0)
    index.returned({ ref: 'b', kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, Date.now())
    let asked = 0
    const nobody = async () => undefined
    const freeSlots = async () => void asked++
    watch.lookBy({ look: nobody, later: nobody, holder: nobody, freeSlots })
    await until('the watch has asked', () => asked > 0)
    await setTimeout(500)
    assert.deepEqual([asked, counts.looks, index.ready], [1, 1, 1])
  })

  it('makes a task ready each second while the looker does not answer, and does not ask it again', async t => {
    const { index, watch } = watched(t, 0)
    index.returned({ ref: 'b', kind: 'parked', ranMs: 0, reason: 'slot', slots: SLOTS }, Date.now())
    let asked = 0
    const nobody = async () => undefined
    const freeSlots = () => new Promise<undefined>(() => void asked++)
    watch.lookBy({ look: nobody, later: nobody, holder: nobody, freeSlots })
    for (const [given, ref] of ['a', 'b'].entries()) {
      await until(`${ref} is to be tried`, () => index.ready === 1)
      assert.deepEqual(index.take(1), [ref])
      assert.equal(index.parkedFor('slot'), 1 - given)
    }
    assert.equal(asked, 1)
  })
})

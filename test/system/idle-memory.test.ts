import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { giveMemoryBackWhenIdle, idleness } from '#src/system/idle-memory.js'

describe('memory', () => {
  it('is given back once each time a process becomes idle after work', () => {
    const becomesIdle = idleness()
    const looks = [0.9, 0.001, 0, 0.01, 0.5, 0.3, 0.02, 0]
    assert.deepEqual(looks.map(becomesIdle), [false, true, false, false, false, false, true, false])
  })

  it('is given back by a garbage collection, which leaves no global gc', { timeout: 60_000 }, async () => {
    const keepsTheLoopAlive = setInterval(() => {}, 60_000) // without polling, which would be work
    const collected = new Promise<void>(resolve => {
      registry = new FinalizationRegistry(() => resolve())
      registry.register({}, 0)
    })
    giveMemoryBackWhenIdle(20)
    await collected
    clearInterval(keepsTheLoopAlive)
    assert.equal(Reflect.get(globalThis, 'gc'), undefined)
  })
})

/** At the top level, so that it is not collected itself. */
let registry: FinalizationRegistry<number>

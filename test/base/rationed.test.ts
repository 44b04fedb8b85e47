import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RationedPart } from '#src/base/rationed.js'

/** Keeps the processor busy for so long. */
function work(ms: number): void {
  for (const since = performance.now(); performance.now() - since < ms; );
}

describe('a part that is costly to take', () => {
  it('is taken in a small share of the time, however many ask for it', async () => {
    const taken: number[] = []
    const costs: number[] = []
    const part = new RationedPart(from => {
      const before = process.cpuUsage()
      work(5)
      const { user, system } = process.cpuUsage(before)
      costs.push((user + system) / 1000)
      return taken.push(from)
    }, 9)
    const since = performance.now()
    await Promise.all(Array.from({ length: 8 }, (_, i) => part.get(i)))
    assert.deepEqual(taken, [0, 1, 2, 3, 4, 5, 6, 7])
    const waitedMs = 9 * costs.slice(0, -1).reduce((sum, ms) => sum + ms, 0)
    const tookMs = performance.now() - since
    assert.ok(tookMs >= waitedMs - 10, `${tookMs} ms, and ${waitedMs} ms of waiting`)
  })

  it('is shared by those who ask for it at the same time, and is taken anew after a failure', async () => {
    let count = 0
    const part = new RationedPart(from => {
      work(20)
      if (from === 7) throw new Error('no')
      return ++count
    }, 20)
    assert.deepEqual(await Promise.all([part.get(3), part.get(3)]), [1, 1])
    await assert.rejects(part.get(7), /no/)
    assert.equal(await part.get(4), 2)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random, SEED } from '../helpers/chaos/random.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { Soak } from '../helpers/soak/scene.js'
import { memoryMb, openFiles } from '../helpers/usage.js'

/** How many minutes the test takes, unless SPOOLD_TEST_SOAK_MINUTES says so. */
const MINUTES = Number(process.env.SPOOLD_TEST_SOAK_MINUTES ?? (isLong ? 30 : 0.5))
const PRODUCE_EVERY_MS = 25
const PATIENCE_MS = 120_000
/** The share of clicks that may have no answer, on a machine that has no time for the daemon. */
const MAX_UNANSWERED = 0.02
/** The share of the time after which the daemon has reached its full size. */
const WARM_UP = 0.3
const MAX_GROWTH_MB = 40
const MAX_MORE_FILES = 10

describe('everything at once', () => {
  it(`for ${MINUTES} minutes loses no task, overlaps no runs, keeps all limits, and buries no innocent task`, {
    skip: skipUnless('root', 'mount', 'python3'),
  }, async t => {
    const random = new Random(SEED)
    const soak = new Soak(random)
    await Promise.all([soak.start('steady'), soak.start('other')])
    const producer = soak.produce(PRODUCE_EVERY_MS)
    const { pid } = soak.steady
    const [began, lasts] = [performance.now(), MINUTES * 60_000]
    const sizes: { files: number; memory: number }[] = []
    for (let passed = 0; passed < lasts; passed = performance.now() - began) {
      await sleep(random.between(50, 400))
      await soak.act()
      assert.ok(soak.steady.isRunning, 'the daemon that is never stopped has ended')
      if (passed > WARM_UP * lasts) sizes.push({ files: openFiles(pid), memory: memoryMb(pid) })
    }
    const { violations, summary } = await soak.settle(PATIENCE_MS)
    assert.equal(await producer.code(), 0, producer.output)
    t.diagnostic(summary)
    t.diagnostic(JSON.stringify(soak.counts))
    assert.deepEqual(violations, [], `seed ${SEED}`)
    const { click = 0, unanswered = 0 } = soak.counts
    assert.ok(
      unanswered <= Math.max(1, MAX_UNANSWERED * click),
      `${unanswered} of ${click} clicks had no answer`,
    )
    const third = Math.ceil(sizes.length / 3)
    const [early, late] = [sizes.slice(0, third), sizes.slice(-third)]
    const most = (of: typeof sizes, key: 'files' | 'memory') => Math.max(...of.map(each => each[key]))
    const least = (of: typeof sizes, key: 'files' | 'memory') => Math.min(...of.map(each => each[key]))
    t.diagnostic(
      `the master: ${most(early, 'files')} files, then ${least(late, 'files')}; ${most(early, 'memory')} MB, then ${least(late, 'memory')}`,
    )
    assert.ok(least(late, 'files') - most(early, 'files') <= MAX_MORE_FILES, 'descriptors stay open')
    assert.ok(least(late, 'memory') - most(early, 'memory') <= MAX_GROWTH_MB, 'memory grows')
  })
})

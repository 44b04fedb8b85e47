import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random, SEED } from '../helpers/chaos/random.js'
import { type Fsync, Scene } from '../helpers/machines/scene.js'
import { isLong, skipUnless } from '../helpers/requires.js'

const TASKS = isLong ? 20_000 : 400
const PER_SECOND = isLong ? 40 : 20
/** The first machines, this many, lose workers while the others are cut off or stopped for longer than their locks last. */
const RESTLESS = 2
const OVER_A_LOCK_MS = 32_000
const ACTS = ['worker', 'worker', 'daemon', 'redis', 'cut', 'stop'] as const
const PATIENCE_MS = 90_000

describe('four machines on one Redis', {
  skip: skipUnless('redis-server', 'netns'),
}, () => {
  for (const fsync of (isLong ? ['always', 'everysec'] : ['always']) satisfies Fsync[])
    it(`lose none of ${TASKS} tasks and begin no at-most-once task twice, with appendfsync ${fsync}`, async t => {
      const random = new Random(SEED)
      const scene = new Scene(random, fsync)
      await scene.startRedis()
      await scene.startDaemons()
      const producer = scene.produce(TASKS, PER_SECOND)
      while (producer.isRunning) {
        // while these two are away, the others find the tasks that they had, and lose nothing but workers
        const away = Promise.all([
          scene.cut(RESTLESS, OVER_A_LOCK_MS),
          scene.stop(RESTLESS + 1, OVER_A_LOCK_MS),
        ])
        let isAway = true
        void away.then(() => {
          isAway = false
        })
        while (isAway) {
          await sleep(random.between(500, 1500))
          scene.killWorker(Math.floor(random.between(0, RESTLESS)))
        }
        await away
        for (const what of random.shuffled([...ACTS, ...ACTS])) {
          await sleep(random.between(100, 1000))
          if (producer.isRunning) await scene.act(what)
        }
      }
      assert.equal(await producer.code(), 0, producer.output)
      const { violations, summary } = await scene.settle(PATIENCE_MS)
      t.diagnostic(summary)
      t.diagnostic(JSON.stringify(scene.counts))
      assert.deepEqual(violations, [], `seed ${SEED}`)
    })
})

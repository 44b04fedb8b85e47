import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Random, SEED } from '../helpers/chaos/random.js'
import { Scene } from '../helpers/chaos/scene.js'
import type { Variant } from '../helpers/chaos/variant.js'
import { judge } from '../helpers/chaos/verdict.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, skipUnless } from '../helpers/requires.js'

/**
 * SPOOLD_TEST_CHAOS_ONLY names one variant, SPOOLD_TEST_CHAOS_KILLS is the number of kills, and SPOOLD_TEST_CHAOS_KEEP is a
 * directory for the journals and logs.
 */
const { SPOOLD_TEST_CHAOS_ONLY, SPOOLD_TEST_CHAOS_KILLS } = process.env
/** In ms. After so long without anything happening, a task that is left counts as forgotten. */
const PATIENCE_MS = isLong ? 90_000 : 20_000

interface Trial extends Variant {
  /** How many kills the long tests make, and how many the short ones. */
  readonly kills: readonly [number, number]
  readonly needs?: Parameters<typeof skipUnless>
}

const ACTS = {
  'kill-worker': 40,
  'kill-master': 12,
  'kill-all': 12,
  quit: 4,
  stop: 4,
  reload: 4,
  'pause-worker': 20,
  'pause-master': 8,
} as const
const BELOW = { ...ACTS, 'kill-below': 25, 'pause-below': 12 }

/** These acts follow the random ones, in this order. Nothing repairs what the last one breaks. */
const FINALE = ['stop', 'reload', 'kill-worker'] as const

const TRIALS: Readonly<Record<string, Trial>> = {
  'Node, tmpfs': { language: 'js', ini: {}, acts: ACTS, pauseMs: 12, kills: [120, 3] },
  'Node, on disk': { language: 'js', ini: {}, acts: ACTS, base: tmpdir(), pauseMs: 15, kills: [80, 2] },
  'Node, four tasks at a time': {
    language: 'js',
    ini: { 'spooler-concurrency': 4, 'spooler-max-crashes': 1 },
    acts: ACTS,
    pauseMs: 15,
    kills: [80, 3],
  },
  promises: {
    language: 'js',
    ini: {},
    acts: ACTS,
    promisesMs: 50,
    pauseMs: 30,
    kills: [60, 2],
  },
  'promises, four at a time': {
    language: 'js',
    ini: { 'spooler-concurrency': 4, 'spooler-max-tasks': 50, 'spooler-quiet': false },
    acts: ACTS,
    promisesMs: 50,
    pauseMs: 15,
    kills: [60, 2],
  },
  'Python hosts': {
    language: 'python',
    ini: { python: PYTHON },
    acts: BELOW,
    pauseMs: 15,
    kills: [60, 3],
    needs: ['python3'],
  },
  programs: {
    language: 'shell',
    ini: {},
    acts: BELOW,
    pauseMs: 60,
    kills: [50, 2],
  },
  leases: {
    language: 'js',
    ini: { 'spooler-lock': 'lockfile' },
    acts: { ...ACTS, 'pause-worker': 5, 'pause-master': 5 },
    pauseMs: 30,
    hasLeases: true,
    kills: [30, 2],
  },
  'beside a live uWSGI': {
    language: 'js',
    ini: {},
    acts: { ...ACTS, 'kill-uwsgi': 20 },
    pauseMs: 15,
    hasUwsgi: true,
    kills: [40, 2],
    needs: ['uwsgi'],
  },
}

describe('chaos', { concurrency: isLong ? 1 : 3 }, () => {
  for (const [name, trial] of Object.entries(TRIALS)) {
    const kills = Number(SPOOLD_TEST_CHAOS_KILLS ?? trial.kills[isLong ? 0 : 1])
    const skip =
      SPOOLD_TEST_CHAOS_ONLY !== undefined && !name.includes(SPOOLD_TEST_CHAOS_ONLY)
        ? 'another one is wanted'
        : skipUnless(...(trial.needs ?? []))
    it(`${name}: after ${kills} kills no task is lost, ran twice at once, or paid for another`, {
      skip,
    }, async t => {
      const scene = new Scene(trial, SEED)
      const random = new Random(SEED + 2)
      await scene.start()
      await scene.ready()
      for (let done = 0; done < kills; ) {
        await setTimeout(random.between(30, random.next() < 0.7 ? 300 : 900))
        if (await scene.act()) done++
      }
      for (const act of FINALE) {
        await scene.busy()
        await scene.act(act)
      }
      const [began, over] = [performance.now(), () => Math.round((performance.now() - began) / 1000)]
      const left = await scene.settle(PATIENCE_MS)
      const { violations, summary } = await judge(scene, left, trial)
      t.diagnostic(`${name}: ${summary}; settled after ${over()} s`)
      assert.equal(
        violations.length,
        0,
        `seed ${SEED}: ${violations.length} violations\n${violations.join('\n')}`,
      )
    })
  }
})

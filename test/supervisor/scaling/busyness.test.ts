// cspell:ignoreRegExp /'[bis]+'/g
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Decision, Snapshot } from '#src/runtime/supervisor/scaling/algorithm.js'
import { busyness, busynessSettings } from '#src/runtime/supervisor/scaling/busyness.js'
import { OPTIONS, SECOND, snapshot, workers } from '../../helpers/scaling.js'

type Busyness = (typeof OPTIONS)['busyness']

/** A pool that ticks each second. A window has three ticks, and a worker may go after two windows. */
class Pool {
  readonly lines: string[] = []
  readonly #options: Snapshot['options']
  readonly #ran: number[] = []
  #seconds = 0
  #state: Parameters<typeof busyness>[1]

  constructor(given: Partial<Busyness> = {}, step?: number) {
    this.#options = {
      ...OPTIONS,
      step,
      busyness: { ...OPTIONS.busyness, multiplier: 2, isVerbose: true, ...given },
    }
  }

  /** @param shares what part of the second each worker has run */
  tick(states: string, shares: readonly number[], given: Partial<Snapshot> = {}): Decision {
    this.#seconds++
    const living = workers(states).map(worker => {
      const ran = (this.#ran[worker.number] ?? 0) + (shares[worker.number - 1] ?? 0) * SECOND
      this.#ran[worker.number] = ran
      return { ...worker, busyMicros: ran }
    })
    const seen = { options: this.#options, nowMicros: this.#seconds * SECOND, workers: living, ...given }
    const decision = busyness(snapshot(states, seen), this.#state)
    this.#state = decision.state
    this.lines.push(...(decision.lines ?? []))
    return decision
  }

  /** @returns how many workers there should be after a window in which each has run this share of the time */
  window(states: string, share: number, given: Partial<Snapshot> = {}): number {
    const shares = Array.from(states, () => share)
    this.tick(states, shares)
    this.tick(states, shares)
    this.lines.length = 0
    return this.tick(states, shares, given).target
  }
}

const own = (pool: Pool) =>
  pool.lines.filter(line => !line.includes('average busyness of')).filter(line => !line.includes('worker nr'))

describe('busyness', () => {
  it('lists its settings', () => {
    assert.deepEqual(busynessSettings(OPTIONS), [
      '[busyness] settings: min=25%, max=50%, overload=3, multiplier=10, respawn penalty=2',
      '[busyness] backlog alert is set to 33 request(s), step is 1',
      '[busyness] backlog non-zero alert is set to 60 second(s)',
    ])
  })

  it('measures the share of the window in which each worker ran', () => {
    const pool = new Pool()
    for (const shares of [
      [0, 0.5],
      [0.9, 0.5],
      [0, 0.5],
    ])
      pool.tick('ib', shares)
    assert.deepEqual(pool.lines, [
      '[busyness] worker nr 1 3s average busyness is at 30%',
      '[busyness] worker nr 2 3s average busyness is at 50%',
      '[busyness] 3s average busyness of 2 worker(s) is at 40%',
      '[busyness] 3s average busyness is at 40%, 1 non-idle cycle(s), adjusting cheaper timer',
    ])
  })

  it('names no single worker when there is one', () => {
    const pool = new Pool()
    pool.window('i', 0.16)
    assert.deepEqual(pool.lines, ['[busyness] 3s average busyness of 1 worker(s) is at 16%'])
  })

  it('is silent about what it measures unless verbose', () => {
    const pool = new Pool({ isVerbose: false })
    pool.window('ib', 0.4)
    assert.deepEqual(pool.lines, [])
  })

  it('counts at most 100 % for a run that began before the window', () => {
    const pool = new Pool()
    pool.tick('i', [0])
    pool.tick('i', [0])
    pool.tick('i', [9])
    assert.ok(pool.lines[0]?.endsWith('is at 100%'), pool.lines[0])
  })

  it('counts a worker that was busy and has ended no run as busy all the time', () => {
    const pool = new Pool()
    pool.window('bi', 0)
    assert.equal(
      pool.lines[0],
      '[busyness] worker 1 was busy 3 time(s) in last cycle but no request was completed during this time, marking as 100% busy',
    )
    assert.equal(pool.lines[1], '[busyness] worker nr 1 3s average busyness is at 100%')
  })

  it('spawns `step` when the average is above the maximum', () => {
    const pool = new Pool({}, 3)
    assert.equal(pool.window('bb', 0.51), 5)
    assert.deepEqual(own(pool), ['[busyness] 3s average busyness is at 51%, will spawn 3 new worker(s)'])
    assert.equal(pool.window('bb', 0.5), 2)
  })

  it('logs that there can be no more workers', () => {
    const full = new Pool()
    assert.equal(full.window('bbbbbbbbbb', 1), 10)
    const limited = new Pool()
    assert.equal(limited.window('bb', 1, { canSpawn: false }), 2)
    for (const [pool, count] of [
      [full, 10],
      [limited, 2],
    ] as const)
      assert.deepEqual(own(pool), [
        `[busyness] 3s average busyness is at 100% but we already started maximum number of workers available with current limits (${count})`,
      ])
  })

  it('stops one worker after `multiplier` windows below the minimum', () => {
    const pool = new Pool()
    assert.equal(pool.window('iii', 0.1), 3)
    assert.deepEqual(own(pool), ['[busyness] need to wait 3 more second(s) to cheap worker'])
    assert.equal(pool.window('iii', 0.1), 2)
    assert.deepEqual(own(pool), ['[busyness] 3s average busyness is at 10%, cheap one of 3 running workers'])
    assert.equal(pool.window('ii', 0.1), 2)
  })

  it('waits one window longer for each window between minimum and maximum, and starts over after three in a row', () => {
    const pool = new Pool()
    const seen: string[] = []
    for (const share of [0.3, 0.3, 0.3, 0.1, 0.1]) {
      pool.window('iii', share)
      seen.push(...own(pool).map(line => line.replace('[busyness] 3s average busyness is at ', '')))
    }
    assert.deepEqual(seen, [
      '30%, 1 non-idle cycle(s), adjusting cheaper timer',
      '30%, 2 non-idle cycle(s), adjusting cheaper timer',
      '30%, 3 non-idle cycle(s), resetting cheaper timer',
      '[busyness] need to wait 3 more second(s) to cheap worker',
      '10%, cheap one of 3 running workers',
    ])
  })

  it('takes more windows to stop a worker after one that had to come back too soon, and fewer again later', () => {
    const pool = new Pool()
    pool.window('iii', 0)
    assert.equal(pool.window('iii', 0), 2)
    assert.equal(pool.window('bb', 1), 3)
    assert.deepEqual(own(pool), [
      '[busyness] worker(s) respawned to fast, increasing cheaper multiplier to 4 (+2)',
      '[busyness] 3s average busyness is at 100%, will spawn 1 new worker(s)',
    ])
    for (let windows = 0; windows < 3; windows++) assert.equal(pool.window('iiii', 0), 4)
    assert.equal(pool.window('iiii', 0), 3)
    assert.deepEqual(own(pool), ['[busyness] 3s average busyness is at 0%, cheap one of 4 running workers'])
    for (let windows = 0; windows < 3; windows++) assert.equal(pool.window('iii', 0), 3)
    assert.equal(pool.window('iii', 0), 2)
    assert.deepEqual(own(pool), [
      '[busyness] decreasing cheaper multiplier to 3',
      '[busyness] 3s average busyness is at 0%, cheap one of 3 running workers',
    ])
  })

  it('gives no penalty for a worker that is recycled soon after a stop', () => {
    const pool = new Pool()
    pool.window('iii', 0)
    assert.equal(pool.window('iii', 0), 2)
    pool.tick('ii', [0.3, 0.3])
    assert.equal(pool.tick('i', [0.3], { delayed: 1, target: 2 }).target, 2)
    assert.equal(pool.tick('is', [0.3], { target: 2 }).target, 2)
    for (let windows = 0; windows < 9; windows++) pool.window('ii', 0.3)
    assert.ok(!pool.lines.some(line => line.includes('respawned to fast')))
    pool.window('ii', 0)
    assert.deepEqual(own(pool), [])
  })

  it('gives no penalty for growth without a stop before', () => {
    const pool = new Pool()
    pool.window('bb', 1)
    assert.deepEqual(own(pool), ['[busyness] 3s average busyness is at 100%, will spawn 1 new worker(s)'])
  })

  it('spawns emergency workers within a window when more tasks wait than the alert', () => {
    const pool = new Pool({ backlogStep: 3 })
    assert.equal(pool.tick('bb', [1, 1], { backlog: 33 }).target, 2)
    assert.equal(pool.tick('bb', [1, 1], { backlog: 34 }).target, 5)
    assert.deepEqual(own(pool), [
      '[busyness] backlog is starting to fill (33)',
      '[busyness] 34 requests in listen queue, spawning 3 emergency worker(s) (3)!',
    ])
    assert.equal(pool.tick('bb', [1, 1], { backlog: 99, canSpawn: false }).target, 2)
  })

  it('stops workers sooner while emergency workers run', () => {
    const pool = new Pool({ multiplier: 9, backlogMultiplier: 1 })
    for (let tick = 0; tick < 2; tick++) pool.tick('ii', [], { backlog: 40 })
    pool.tick('iiii', [])
    pool.window('iiii', 0)
    assert.deepEqual(own(pool), [
      '[busyness] 2 emergency worker(s) running, using 3 seconds cheaper timer',
      '[busyness] 3s average busyness is at 0%, cheap one of 4 running workers',
    ])
  })

  it('spawns one worker when tasks have waited for longer than allowed, and logs when there is no room', () => {
    const pool = new Pool({ backlogNonzero: 2 }, 1)
    const states = 'i'.repeat(9)
    for (let tick = 0; tick < 3; tick++) pool.tick(states, [], { backlog: 5 })
    assert.deepEqual(own(pool).slice(0, 1), ['[busyness] backlog is starting to fill (5)'])
    pool.lines.length = 0
    assert.equal(pool.tick(states, [], { backlog: 5 }).target, 10)
    assert.deepEqual(own(pool), [
      '[busyness] backlog was non-zero for 3 second(s), spawning new worker(s)',
      '[busyness] 5 requests in listen queue, spawning 1 emergency worker(s) (1)!',
    ])
    const full = new Pool({ backlogNonzero: 2, isVerbose: false })
    for (let tick = 0; tick < 2; tick++) full.tick('bbbbbbbbbb', [], { backlog: 5 })
    full.tick('bbbbbbbbbb', [], { backlog: 5 })
    full.lines.length = 0
    assert.equal(full.tick('bbbbbbbbbb', [], { backlog: 5 }).target, 10)
    assert.deepEqual(own(full), [
      '[busyness] backlog was non-zero for 3 second(s), spawning new worker(s)',
      '[busyness] 5 requests in listen queue but we are already started maximum number of workers (10)',
    ])
  })

  it('logs that no task waits any more', () => {
    const pool = new Pool()
    pool.tick('bb', [], { backlog: 1 })
    pool.tick('bb', [])
    assert.deepEqual(own(pool), [
      '[busyness] backlog is starting to fill (1)',
      '[busyness] backlog is now empty',
    ])
  })

  it('does nothing while no worker lives', () => {
    const pool = new Pool()
    for (let tick = 0; tick < 9; tick++)
      assert.equal(pool.tick('', [], { delayed: 2, backlog: 99 }).target, 2)
    assert.deepEqual(pool.lines, [])
  })
})

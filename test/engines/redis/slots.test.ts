import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { OK } from '#src/base/task/outcome.js'
import { displayName } from '#src/base/task/ref.js'
import type { TermsOrPark } from '#src/base/task/terms.js'
import type { Claim, Claims } from '#src/engines/claims.js'
import { RedisClaims } from '#src/engines/redis/claims.js'
import { Connection } from '#src/engines/redis/connection.js'
import { RedisEnqueuer } from '#src/engines/redis/enqueuer.js'
import { RedisFeed } from '#src/engines/redis/feed.js'
import { type Libraries, loadLibraries } from '#src/engines/redis/libraries.js'
import { queuesOf } from '#src/engines/redis/queues.js'
import { RedisTaskStore } from '#src/engines/redis/records/task-store.js'
import { ticketRef } from '#src/engines/redis/refs.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import { parseRedisAddress } from '#src/formats/protocol/redis-address.js'
import { lastValue, type Vars } from '#src/formats/protocol/vars.js'
import { CLAIMS_DEFAULTS } from '../../helpers/engine.js'
import { startRedis } from '../../helpers/redis.js'
import { requestFrom } from '../../helpers/request.js'
import { skipUnless } from '../../helpers/requires.js'
import { until } from '../../helpers/until.js'
import { beginOf, claimOf } from '../conformance/engines.js'

const missing = skipUnless('redis-server')

/** Returns the `termsOf` of handlers that know these names and their limits; a name with undefined has no limit. */
const knowing =
  (limits: Readonly<Record<string, number | undefined>>) =>
  (vars: Vars): TermsOrPark => {
    const name = displayName(lastValue(vars, 'task') ?? '')
    if (!(name in limits)) return 'unknown-name'
    const count = limits[name]
    const slots = count === undefined ? {} : { slots: { name, count } }
    return { name, delivery: 'at-least-once', policy: { maxAttempts: 1, delayMs: 0 }, ...slots }
  }

describe('limited tasks on Redis', { skip: missing }, () => {
  const redis = missing === false ? startRedis() : assert.fail()
  let libraries: Libraries | undefined
  let spools = 0
  const opened: Connection[] = []
  before(async () => {
    await redis.ready()
    libraries = await loadLibraries()
  })
  after(() => {
    for (const connection of opened) connection.close()
  })

  function openSpool() {
    const queue = `limited${spools++}`
    const connect = () => {
      assert.ok(libraries !== undefined)
      const connection = new Connection(parseRedisAddress(redis.address(queue)), libraries)
      opened.push(connection)
      return connection
    }
    const enqueuer = new RedisEnqueuer(connect())
    const store = async (task: string, n: number, more = {}) => {
      await enqueuer.store(requestFrom({ task, n: String(n), args: '[]' }, more))
    }
    return {
      key: (type: string, task?: string) =>
        `bull:${queue}${task === undefined ? '' : `@${encodeURIComponent(task)}`}:${type}`,
      connect,
      store,
      claims: (limits: Readonly<Record<string, number | undefined>>) =>
        new RedisClaims(connect(), { ...CLAIMS_DEFAULTS, termsOf: knowing(limits) }),
      async feed() {
        const feed = new RedisFeed(connect(), connect())
        await feed.open(() => {})
        return feed
      },
    }
  }
  let tickets = 0
  const sifting = () => ticketRef({ task: undefined, isSifting: true }, `t${tickets++}`)
  const ticketFor = (task: string) => ticketRef({ task, isSifting: false }, `t${tickets++}`)
  const numberOf = ({ vars }: Claim) => Number(lastValue(vars, 'n'))
  async function refused(claims: Claims, ref: string) {
    const report = await claims.claim(ref)
    assert.ok('kind' in report, 'it was claimed')
    return report
  }

  it('do not hold up tasks without a limit, and keep their order, priorities and times', async () => {
    const { store, claims, key } = openSpool()
    const worker = claims({ few: 1, free: undefined })
    await store('few', 0)
    const first = await beginOf(worker, 'first')
    for (let n = 1; n <= 30; n++) await store(n % 3 === 0 ? 'free' : 'few', n)
    await store('few', 31, { priority: 7 })
    await store('few', 32, { at: Math.ceil(Date.now() / 1000) + 3600 })
    for (let n = 3; n <= 30; n += 3) assert.equal(numberOf(await claimOf(worker, sifting())), n)
    assert.equal((await refused(worker, sifting())).kind, 'locked')
    assert.deepEqual(
      [await redis.client.zcard(key('prioritized', 'few')), await redis.client.zcard(key('delayed'))],
      [21, 1],
    )
    await worker.settle(first, OK, 1)
    const expected = [31, ...Array.from({ length: 30 }, (_, i) => i + 1).filter(n => n % 3 !== 0)]
    for (const n of expected) {
      const claim = await beginOf(worker, ticketFor('few'))
      assert.equal(numberOf(claim), n)
      assert.equal(claim.priority, n === 31 ? 7 : null)
      await worker.settle(claim, OK, 1)
    }
  })

  it('have a new limit as soon as a worker that knows it claims one of them', async () => {
    const { store, claims, feed } = openSpool()
    const old = claims({ few: 1 })
    for (let n = 0; n < 5; n++) await store('few', n)
    await beginOf(old, 'first')
    assert.equal((await refused(old, sifting())).kind, 'gone')
    assert.equal((await refused(old, ticketFor('few'))).reason, 'slot')
    const newer = claims({ few: 3 })
    const started = await feed()
    const [ref = '', ...others] = await until(
      'one is given although no slot of the old limit is free',
      () => {
        const refs = started.take(9).filter(each => each.includes('few'))
        return refs.length === 0 ? undefined : refs
      },
    )
    assert.deepEqual(others, [])
    await beginOf(newer, ref)
    await beginOf(old, ticketFor('few'))
    started.close()
  })

  it('are still claimed, and all at once, after their name has lost its limit', async () => {
    const { store, claims } = openSpool()
    const old = claims({ few: 1 })
    for (let n = 0; n < 4; n++) await store('few', n)
    await beginOf(old, 'first')
    for (const ref of ['second', 'third']) assert.equal((await refused(old, ref)).reason, 'slot')
    const newer = claims({ few: undefined })
    assert.equal(numberOf(await beginOf(newer, ticketFor('few'))), 1)
    assert.equal(numberOf(await beginOf(newer, ticketFor('few'))), 2)
    assert.equal(numberOf(await beginOf(newer, sifting())), 3)
  })

  it('are left to daemons that know their names, and do not keep other daemons from being drained', async () => {
    const { store, claims, feed } = openSpool()
    const knows = claims({ few: 1 })
    await store('few', 0)
    await store('few', 1)
    const running = await beginOf(knows, 'first')
    assert.equal((await refused(knows, 'second')).reason, 'slot')
    await knows.settle(running, OK, 1)
    const stranger = await feed()
    const [ref = ''] = stranger.take(9)
    const report = await refused(claims({ other: 1 }), ref)
    assert.deepEqual([report.reason, report.detail], ['unknown-name', 'few'])
    stranger.report({ returned: [report] })
    await until('the stranger has nothing to do', () => stranger.state.isDrained)
    assert.deepEqual(
      [stranger.take(9), stranger.state.parked['unknown-name'], stranger.state.waiting],
      [[], 1, 1],
    )
    stranger.changed('handlers')
    assert.equal(stranger.take(9).length, 1)
    assert.equal(numberOf(await claimOf(knows, ticketFor('few'))), 1)
    stranger.close()
  })

  it('get their slot back when the lock of a lost worker expires, and their dead letters are counted', async () => {
    const { store, claims, connect, key } = openSpool()
    await store('few', 0)
    const gone = await beginOf(claims({ few: 1 }), 'first')
    await redis.client.del(key(`${gone.name}:lock`, 'few'))
    const [, queue] = await queuesOf(connect())
    assert.equal(queue?.task, 'few')
    assert.deepEqual(await queue.unlocked(), [gone.name])
    await queue.recover(gone.name)
    const worker = claims({ few: 1 })
    const report = await refused(worker, ticketFor('few'))
    assert.equal(report.kind, 'set-aside', 'its only attempt was the crash')
    const upkeep = new RedisUpkeep(connect())
    const { dead } = await upkeep.stats()
    assert.deepEqual([dead.count, dead.byReason], [1, { attempts: 1 }])
    assert.equal((await upkeep.purge({ maxAgeMs: null, maxCount: 0 })).removed, 1)
  })

  it('are listed by time among all dead letters, from any place on, in both directions', async () => {
    const { connect, key } = openSpool()
    await redis.client.hset(key('spoold:limited'), { few: key('', 'few'), odd: key('', 'odd') })
    const times = [5, 1, 3, 3, 7, 3, 9, 3, 2, 8, 3, '+inf'] as const
    for (const [i, atMs] of times.entries()) {
      const queue = [undefined, 'few', 'odd'][i % 3]
      await redis.client.zadd(key('failed', queue), atMs, `job${i}`)
      await redis.client.hset(key(`job${i}`, queue), { timestamp: 1, finishedOn: i })
    }
    const store = await RedisTaskStore.open(connect())
    const page = async (from: number, most: number, isReversed: boolean) => {
      const { tasks, looked } = await store.part(['dead'], from, most, isReversed)
      assert.equal(looked, tasks.length)
      return tasks.map(({ ref }) => ref)
    }
    const whole = await page(0, 99, false)
    const timeOf = (ref: string) =>
      Number(times[Number(ref.slice(3))] === '+inf' ? 99 : times[Number(ref.slice(3))])
    assert.deepEqual(whole.map(timeOf), [1, 2, 3, 3, 3, 3, 3, 5, 7, 8, 9, 99])
    assert.equal(new Set(whole).size, times.length)
    for (let from = 0; from <= times.length; from++) {
      assert.deepEqual(await page(from, 4, false), whole.slice(from, from + 4))
      assert.deepEqual(await page(from, 4, true), whole.toReversed().slice(from, from + 4))
    }
  })

  it('may have any name', async () => {
    const { store, claims } = openSpool()
    const name = 'naïve:*{1}@%/…'
    const worker = claims({ [name]: 1 })
    await store(name, 0)
    await store(name, 1)
    const claim = await beginOf(worker, 'first')
    assert.equal((await refused(worker, 'second')).slots?.name, name)
    await worker.settle(claim, OK, 1)
    assert.equal(numberOf(await beginOf(worker, ticketFor(name))), 1)
  })

  it('have fencing tokens that only grow, over all tasks and workers', async () => {
    const { store, claims } = openSpool()
    for (let n = 0; n < 6; n++) await store(n % 2 === 0 ? 'few' : 'free', n)
    let last = 0
    for (let n = 0; n < 6; n++) {
      const claim = await beginOf(claims({ few: 9, free: undefined }), 'next')
      assert.ok((claim.fencingToken ?? 0) > last, `${claim.fencingToken} after ${last}`)
      last = claim.fencingToken ?? 0
    }
  })

  it('have their queue forgotten after it was empty for a time, without losing a task that is moved there meanwhile', async () => {
    const { store, claims, feed, connect, key } = openSpool()
    const upkeep = new RedisUpkeep(connect())
    const [one, other] = [claims({ few: 1, rare: 1 }), claims({ few: 1, rare: 1 })]
    await store('rare', 0)
    const rare = await beginOf(one, 'rare')
    assert.equal(await upkeep.forget(0), 0, 'it runs')
    await one.settle(rare, { kind: 'bury', detail: 'no' }, 1)
    assert.equal(await upkeep.forget(0), 0, 'it is dead')
    assert.equal(await upkeep.purge({ maxAgeMs: null, maxCount: 0 }).then(({ removed }) => removed), 1)
    assert.equal(await upkeep.forget(60_000), 0, 'its queue was used just now')
    assert.equal(await upkeep.forget(0), 1)
    const keys = await redis.client.keys(`${key('', 'rare')}*`)
    assert.deepEqual(keys, [], 'nothing of it is left')

    const total = 200
    let forgotten = 0
    let isOver = false
    const forgetting = (async () => {
      while (!isOver) forgotten += await upkeep.forget(0)
    })()
    const ran: number[] = []
    let [running, most] = [0, 0]
    const work = async (worker: Claims) => {
      while (ran.length < total) {
        const claim = await worker.claim(sifting())
        if ('kind' in claim) {
          const limited = await worker.claim(ticketFor('few'))
          if (!('kind' in limited)) await run(worker, limited)
        } else await run(worker, claim)
      }
    }
    const run = async (worker: Claims, claim: Claim) => {
      most = Math.max(most, ++running)
      assert.equal(await worker.begin(claim, 'alone'), undefined)
      ran.push(numberOf(claim))
      running--
      await worker.settle(claim, OK, 1)
    }
    const storing = (async () => {
      for (let n = 0; n < total; n++) {
        await store('few', n)
        if (n % 3 === 0) await until('the queue is empty', () => ran.length > n) // the queue is forgotten at about this time
      }
    })()
    await Promise.all([storing, work(one), work(other)])
    isOver = true
    await forgetting
    assert.deepEqual(
      ran.sort((a, b) => a - b),
      Array.from({ length: total }, (_, n) => n),
    )
    assert.equal(most, 1, 'the limit holds')
    assert.ok(forgotten > 5, `it was forgotten ${forgotten} times`)
    await until('the queue is forgotten', async () => {
      await upkeep.forget(0)
      return (await redis.client.hlen(key('spoold:limited'))) === 0
    })
    const started = await feed()
    assert.equal(started.state.ready, 0)
    started.close()
  })
})

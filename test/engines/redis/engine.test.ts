import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { OK, type Outcome } from '#src/base/task/outcome.js'
import type { Claim } from '#src/engines/claims.js'
import { RedisClaims } from '#src/engines/redis/claims.js'
import { Connection } from '#src/engines/redis/connection.js'
import { RedisEnqueuer } from '#src/engines/redis/enqueuer.js'
import { RedisFeed } from '#src/engines/redis/feed.js'
import { type Libraries, loadLibraries } from '#src/engines/redis/libraries.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import { parseRedisAddress } from '#src/formats/protocol/redis-address.js'
import { lastValue, toPairs } from '#src/formats/protocol/vars.js'
import { CLAIMS_DEFAULTS, type EngineSettings } from '../../helpers/engine.js'
import { startRedis } from '../../helpers/redis.js'
import { requestFrom } from '../../helpers/request.js'
import { skipUnless } from '../../helpers/requires.js'
import { until } from '../../helpers/until.js'
import { beginOf, claimOf, claimOnceDue, refusalOf } from '../conformance/engines.js'

const missing = skipUnless('redis-server')

describe('the engine on Redis', { skip: missing }, () => {
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

  function openSpool(lockMs?: number) {
    const queue = `own${spools++}`
    const connect = () => {
      assert.ok(libraries !== undefined)
      const connection = new Connection(parseRedisAddress(redis.address(queue)), libraries, lockMs)
      opened.push(connection)
      return connection
    }
    return {
      connect,
      key: (type: string) => `bull:${queue}:${type}`,
      enqueuer: new RedisEnqueuer(connect()),
      another: () => new RedisEnqueuer(connect()),
      claims: (settings: EngineSettings & { readonly identity?: string } = {}) =>
        new RedisClaims(connect(), { ...CLAIMS_DEFAULTS, ...settings }),
      feed: () => new RedisFeed(connect(), connect()),
    }
  }
  const leaseOf = ({ notice }: Claim) => notice?.lease ?? ''

  it('keeps the bytes of packets and bodies, and keys that repeat', async () => {
    const { enqueuer, claims } = openSpool()
    const bytes = Buffer.from([...Array(256).keys()])
    const pairs = [
      ['k', bytes],
      ['k', 'again'],
    ] as const
    await enqueuer.store(requestFrom(pairs, { body: bytes }))
    const claim = await claimOf(claims(), 'ticket')
    assert.deepEqual(toPairs(claim.vars), [
      [Buffer.from('k'), bytes],
      [Buffer.from('k'), Buffer.from('again')],
    ])
    assert.deepEqual(claim.readBody(), bytes)
  })

  it('takes 16 MB, refuses more, and refuses priorities that BullMQ does not have', async () => {
    const { enqueuer, claims } = openSpool()
    const most = 16 * 1024 * 1024
    await assert.rejects(enqueuer.store(requestFrom({}, { body: randomBytes(most) })), {
      code: 'REQUEST_INVALID',
      message: /^body: at most \d+ bytes/,
    })
    await assert.rejects(enqueuer.store(requestFrom({}, { priority: 2_097_151 })), {
      code: 'REQUEST_INVALID',
      message: /priority: .* 0 to 2097150, got 2097151/,
    })
    await enqueuer.store(requestFrom({}, { body: randomBytes(most - 1000), priority: 2_097_150 }))
    const claim = await claimOf(claims(), 'ticket')
    assert.deepEqual([claim.bodyBytes, claim.priority], [most - 1000, 2_097_150])
  })

  it('stores a task once, however many enqueuers store its id at the same time', async () => {
    const { another, claims } = openSpool()
    const others = openSpool().enqueuer
    const enqueuers = Array.from({ length: 10 }, another)
    await Promise.all(enqueuers.map(each => each.store(requestFrom({}, { priority: 9 })))) // all are connected
    const all = await Promise.all(enqueuers.map(each => each.store(requestFrom({}, { id: 'one' }))))
    assert.equal(all.filter(({ isDuplicate }) => !isDuplicate).length, 1)
    assert.equal(new Set(all.map(({ path }) => path)).size, 1)
    assert.equal(
      (await others.store(requestFrom({}, { id: 'one' }))).isDuplicate,
      false,
      'the id is free in another spool',
    )
    const worker = claims()
    for (let n = 0; n < 11; n++) await claimOf(worker, `ticket ${n}`)
    assert.equal((await refusalOf(worker, 'another')).kind, 'locked')
  })

  it('fetches the next task when one is settled, and gives it back if nobody claims it', async () => {
    const { enqueuer, claims, key } = openSpool()
    for (const n of ['1', '2', '3']) await enqueuer.store(requestFrom({ n }))
    const [worker, active] = [claims(), () => redis.client.llen(key('active'))]
    const first = await beginOf(worker, 'ticket 1')
    assert.equal((await worker.settle(first, OK, 1, 'ticket 2')).kind, 'ok')
    assert.equal(await active(), 1, 'it is fetched')
    const second = await beginOf(worker, 'ticket 2')
    assert.deepEqual([lastValue(second.vars, 'n'), await active()], ['2', 1])
    assert.equal((await worker.settle(second, OK, 1, 'ticket 3')).kind, 'ok')
    worker.rest(true)
    await until('the fetched task is given back', async () => (await active()) === 0)
    const third = await beginOf(claims(), 'ticket')
    assert.deepEqual([lastValue(third.vars, 'n'), third.attempt], ['3', 1])
  })

  it('begins a task in the step that fetches it, as the run before it began, and takes that back if nobody runs it', async () => {
    const { enqueuer, claims, feed, key } = openSpool()
    for (const n of ['1', '2', '3', '4']) await enqueuer.store(requestFrom({ n }))
    const progress = async (id: string) => JSON.parse((await redis.client.hget(key(id), 'progress')) ?? '{}')
    const active = () => redis.client.lrange(key('active'), 0, -1)
    const worker = claims({ identity: 'dead' })
    const first = await beginOf(worker, 'ticket 1')
    await worker.settle(first, OK, 1, 'ticket 2')
    const [fetched = ''] = await active()
    assert.equal((await progress(fetched)).past, 'died-alone')
    const second = await beginOf(worker, 'ticket 2', 'beside')
    assert.equal(
      (await progress(fetched)).past,
      'died-beside',
      'the fetched task begins beside others, as asked',
    )
    assert.ok((second.fencingToken ?? 0) > (first.fencingToken ?? 0))
    await worker.settle(second, OK, 1, 'ticket 3')
    worker.rest(true)
    await until('the fetched task is given back', async () => (await active()).length === 0)
    const third = await beginOf(worker, 'ticket 3')
    assert.deepEqual([third.attempt, third.mustBeAlone, lastValue(third.vars, 'n')], [1, false, '3'])
    await worker.settle(third, OK, 1, 'ticket 4')
    const parked = await claimOf(worker, 'ticket 4')
    assert.equal((await worker.release(parked)).kind, 'untouched')
    assert.equal((await progress(parked.name)).past, 'none')
    await enqueuer.store(requestFrom({ n: '5' }))
    await worker.settle(await beginOf(worker, 'ticket 5'), OK, 1, 'ticket 6')
    const master = feed()
    master.lose({ worker: { identity: 'dead', leases: [] } })
    await until('the task that the dead worker fetched is back', async () => (await active()).length === 0)
    const last = await claimOf(claims(), 'ticket')
    assert.deepEqual([last.attempt, last.mustBeAlone], [1, false], 'the task is not blamed for the crash')
    master.close()
  })

  it('calls one script per task while tasks follow each other, and begins no task with a record in the fetch', async () => {
    const { enqueuer, claims, key } = openSpool()
    for (let n = 0; n < 40; n++) await enqueuer.store(requestFrom({ n: String(n) }))
    const worker = claims()
    const scripts = async () =>
      Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await redis.client.info('commandstats'))?.[1])
    let [claim, before] = [await beginOf(worker, 'ticket'), await scripts()]
    for (let n = 0; n < 30; n++) {
      await worker.settle(claim, OK, 1, 'ticket')
      claim = await beginOf(worker, 'ticket')
      if (n === 9) before = await scripts() // from now on Redis knows all scripts
    }
    assert.equal((await scripts()) - before, 20)
    const [next = ''] = await redis.client.zrange(key('prioritized'), 0, 0)
    const record = JSON.stringify({ attempts: 2, crashes: 0, policy: {}, past: 'none' })
    await redis.client.hset(key(next), 'progress', record)
    await worker.settle(claim, OK, 1, 'ticket')
    assert.equal(await redis.client.hget(key(next), 'progress'), record)
    assert.equal((await beginOf(worker, 'ticket')).attempt, 3)
  })

  it('marks a task that is delivered at most once when it begins, not when it is fetched', async () => {
    const { enqueuer, claims, feed, key } = openSpool()
    for (const n of ['1', '2', '3'])
      await enqueuer.store(requestFrom({ n, spooler_delivery: 'at-most-once' }))
    const worker = claims({ identity: 'dead' })
    await worker.settle(await beginOf(worker, 'ticket 1'), OK, 1, 'ticket 2')
    const [fetched = ''] = await redis.client.lrange(key('active'), 0, -1)
    assert.equal(await redis.client.hget(key(fetched), 'progress'), null)
    await worker.settle(await beginOf(worker, 'ticket 2'), OK, 1, 'ticket 3')
    await enqueuer.store(requestFrom({ n: '0' }, { priority: 1 }))
    await enqueuer.store(requestFrom({ n: '4', spooler_delivery: 'at-most-once' }, { priority: 2 }))
    await claimOf(worker, 'ticket 3')
    const often = await beginOf(worker, 'ticket 4')
    await worker.settle(often, OK, 1, 'ticket 5')
    const once = await claimOf(worker, 'ticket 5')
    assert.deepEqual([lastValue(once.vars, 'n'), once.isOnce], ['4', true])
    const master = feed()
    master.lose({ worker: { identity: 'dead', leases: [] } })
    await until('the tasks are back', async () => (await redis.client.llen(key('active'))) === 0)
    assert.equal((await claimOf(claims(), 'ticket')).attempt, 1, 'it had not begun')
    master.close()
  })

  it('blames a task that is delivered at most once for no death of a process in which it was fetched and had not begun', async () => {
    const { enqueuer, claims, feed } = openSpool()
    const worker = claims({ identity: 'dead' })
    await enqueuer.store(requestFrom({ n: '1' }))
    await enqueuer.store(requestFrom({ n: '2', spooler_delivery: 'at-most-once' }))
    await worker.settle(await beginOf(worker, 'ticket 1'), OK, 1, 'ticket 2')
    const fetched = await claimOf(worker, 'ticket 2')
    const master = feed()
    const lastRun = { kind: 'crash', cause: 'its process was killed' } as const
    master.lose({
      cutShort: [{ ref: 'ticket 2', lastRun, lease: leaseOf(fetched) }],
      worker: { identity: 'dead', leases: [leaseOf(fetched)] },
    })
    const claim = await claimOnceDue(claims(), 'ticket')
    assert.deepEqual([lastValue(claim.vars, 'n'), claim.attempt], ['2', 1])
    assert.deepEqual([claim.hasCrashed, claim.mustBeAlone], [false, false])
    master.close()
  })

  it('runs a task without a time at once, however fast the clock of its enqueuer is', async () => {
    const { enqueuer, claims, key } = openSpool()
    const worker = claims()
    for (const fastMs of [5000, 90_000]) {
      const { path } = await enqueuer.store(requestFrom({ n: fastMs }))
      const job = key(path.split('/').at(-1) ?? '')
      await redis.client.hincrby(job, 'timestamp', fastMs)
    }
    await worker.settle(await beginOf(worker, 'ticket 1'), OK, 1, 'ticket 2')
    await worker.settle(await beginOf(worker, 'ticket 2'), OK, 1)
    assert.equal(await redis.client.zcard(key('delayed')), 0)
  })

  it('puts off a task that a fast clock released before its time, whether it is pulled or fetched', async () => {
    const { enqueuer, claims, key } = openSpool()
    const worker = claims()
    const dueAtMs = Math.ceil(Date.now() / 1000 + 3600) * 1000
    for (const isFetched of [false, true]) {
      if (isFetched) await enqueuer.store(requestFrom({ n: 'due' }))
      const before = isFetched ? await beginOf(worker, 'ticket before') : undefined
      const { path } = await enqueuer.store(requestFrom({ n: 'early' }, { at: dueAtMs / 1000 }))
      const id = path.split('/').at(-1) ?? ''
      await redis.client.zadd(key('delayed'), 1, id) // as if its time had come
      if (before !== undefined) await worker.settle(before, OK, 1, 'ticket')
      const refusal = await refusalOf(worker, 'ticket')
      assert.equal(refusal.kind, 'later')
      assert.ok(Math.abs((refusal.atMs ?? 0) - dueAtMs) < 1000, `${refusal.atMs} is not ${dueAtMs}`)
      assert.equal(await redis.client.llen(key('active')), 0)
    }
    assert.equal(await redis.client.zcard(key('delayed')), 2)
  })

  it('fetches nothing if the next ref is no ticket for the next task', async () => {
    const { enqueuer, claims, key } = openSpool()
    for (const next of [undefined, 'held id token', 'sifting ticket', 'limited ticket app.add']) {
      await enqueuer.store(requestFrom({ n: 1 }))
      await enqueuer.store(requestFrom({ n: 2 }))
      const worker = claims()
      assert.equal((await worker.settle(await beginOf(worker, 'ticket'), OK, 1, next)).kind, 'ok')
      assert.equal(await redis.client.llen(key('active')), 0, next)
    }
  })

  it('does not begin a task whose lock is lost, because another worker may have it', async () => {
    const { enqueuer, claims, key } = openSpool()
    await enqueuer.store(requestFrom({ spooler_delivery: 'at-most-once' }))
    const worker = claims()
    const claim = await claimOf(worker, 'ticket')
    await redis.client.set(`${key(claim.name)}:lock`, 'of somebody else')
    assert.equal((await worker.begin(claim, 'alone'))?.kind, 'locked')
    assert.equal(await redis.client.hget(key(claim.name), 'progress'), null)
  })

  it('takes an expired lock again if nobody else took the task, and leaves a lock that somebody else holds', async () => {
    const { enqueuer, claims, feed, key } = openSpool()
    await enqueuer.store(requestFrom({ n: 1 }))
    const worker = claims()
    const claim = await beginOf(worker, 'ticket')
    const lock = `${key(claim.name)}:lock`
    const master = feed()
    await redis.client.del(lock)
    master.leases.keep([leaseOf(claim)])
    await until('the lock is taken again', async () => (await redis.client.exists(lock)) === 1)
    assert.equal((await worker.settle(claim, OK, 1)).kind, 'ok')

    await enqueuer.store(requestFrom({ n: 2 }))
    const second = await beginOf(worker, 'ticket')
    const taken = `${key(second.name)}:lock`
    await redis.client.set(taken, 'of somebody else')
    master.leases.keep([leaseOf(second)])
    assert.equal((await worker.settle(second, OK, 1)).kind, 'unsettled')
    assert.equal(await redis.client.get(taken), 'of somebody else')
  })

  it('leaves a renewed task to its worker although all locks expire at once, as when the clock of Redis is set forward', async () => {
    const lockMs = 3000
    const { enqueuer, claims, feed, key } = openSpool(lockMs)
    await enqueuer.store(requestFrom({ n: 1 }))
    const worker = claims()
    const claim = await beginOf(worker, 'ticket')
    const masters = [feed(), feed()]
    for (const master of masters) {
      await master.open(() => {})
      await sleep(lockMs / 6) // they look for lost tasks at different times
    }
    for (let jumps = 0; jumps < 3; jumps++) {
      for (const each of await redis.client.keys(key('*')))
        if ((await redis.client.pttl(each)) > 0) await redis.client.del(each)
      await sleep(lockMs / 3)
      masters[0]?.leases?.keep([leaseOf(claim)])
    }
    assert.equal((await worker.settle(claim, OK, 1)).kind, 'ok')
    for (const master of masters) master.close()
  })

  it('gives a lease that has expired to the next holder for certain only once its last holder knows, and one that was released at once', async () => {
    const { connect, key } = openSpool()
    const [one, two] = [new RedisUpkeep(connect()), new RedisUpkeep(connect())]
    const said: string[] = []
    const listener = (who: string) => ({
      givenUp: new AbortController().signal,
      lost: () => said.push(`${who} lost`),
      renewed: () => said.push(`${who} renewed`),
    })
    assert.equal((await one.takeLease('any', listener('one')))?.isTakenOver, false)
    await redis.client.del(key('spoold:lease:any')) // as when the clock of Redis is set forward
    const taken = await two.takeLease('any', listener('two'))
    assert.equal(taken?.isTakenOver, true)
    await until('both know', () => said.length === 2)
    assert.deepEqual(said, ['one lost', 'two renewed'])
    await taken.release()
    const next = await one.takeLease('any', listener('one'))
    assert.equal(next?.isTakenOver, false)
    await next.release()
  })

  it('passes what a master says of a run that was cut short on to the next claim at once', async () => {
    const { enqueuer, claims, feed } = openSpool()
    const master = feed()
    await master.open(() => {})
    for (const [lastRun, attempt] of [
      [{ kind: 'blameless' }, 1],
      [{ kind: 'crash', cause: 'it was killed' }, 2],
    ] as const) {
      await enqueuer.store(requestFrom({}))
      const claim = await beginOf(claims(), 'ticket')
      master.lose({ cutShort: [{ ref: 'ticket', lastRun, lease: leaseOf(claim) }] })
      const again = claims()
      const next = await claimOnceDue(again, 'ticket')
      assert.deepEqual([next.name, next.attempt], [claim.name, attempt])
      assert.equal(await again.begin(next, 'alone'), undefined)
      assert.equal((await again.settle(next, OK, 1)).kind, 'ok')
    }
    master.close()
  })

  it('takes back at once the tasks that a dead worker had pulled without announcing them, and no others', async () => {
    const { enqueuer, claims, feed, key } = openSpool(60_000)
    for (let n = 0; n < 6; n++) await enqueuer.store(requestFrom({ n }))
    const [dead, living] = [claims({ identity: 'dead' }), claims({ identity: 'dead2' })]
    const master = feed()
    const refs = await Promise.all(['1', '2', '3'].map(ticket => claimOf(dead, ticket)))
    const [announced, , handed] = refs
    assert.ok(announced !== undefined && handed !== undefined)
    await claimOf(living, '4')
    assert.equal((await dead.release(handed, 'alone')).kind, 'parked')
    master.lose({ worker: { identity: 'dead', leases: [leaseOf(announced)] } })
    master.lose({ refs: ['3'] })
    const lockOf = async (id: string) => (await redis.client.get(`${key(id)}:lock`))?.replace(/\.\d+$/, '')
    const left = async () => {
      const ids = await redis.client.lrange(key('active'), 0, -1)
      return (await Promise.all(ids.map(lockOf))).toSorted()
    }
    await until('the tasks are back', async () => (await left()).length === 2)
    assert.deepEqual(await left(), ['dead', 'dead2'], 'the tasks of announced deaths are left alone')
    master.close()
  })

  it('cuts a run short again if Redis has lost the last second of its data', async () => {
    const { enqueuer, claims, feed, key } = openSpool(60_000)
    await enqueuer.store(requestFrom({}))
    const claim = await beginOf(claims({ identity: 'dead' }), 'ticket')
    const before = await redis.client.keys(key('*'))
    const stored = await Promise.all(before.map(each => redis.client.dumpBuffer(each)))
    const master = feed()
    master.lose({ worker: { identity: 'dead', leases: [leaseOf(claim)] } })
    master.lose({
      cutShort: [
        { ref: 'ticket', lastRun: { kind: 'crash', cause: 'it was killed' }, lease: leaseOf(claim) },
      ],
    })
    const isFree = async () => (await redis.client.llen(key('active'))) === 0
    await until('the task waits again', isFree)
    await redis.client.del(await redis.client.keys(key('*')))
    for (const [i, each] of before.entries())
      await redis.client.restore(each, 0, stored[i] ?? assert.fail(each))
    assert.ok(!(await isFree()))
    await until('the task waits once more', isFree)
    assert.equal((await claimOf(claims(), 'ticket')).attempt, 2)
    master.close()
  })

  it('takes back a task that was pulled by a claim whose reply was lost', async () => {
    const { enqueuer, claims, key } = openSpool(60_000)
    const { path } = await enqueuer.store(requestFrom({ n: 1 }))
    const id = path.split('/').at(-1) ?? ''
    const worker = claims()
    const connection = opened.at(-1)
    assert.ok(connection !== undefined)
    await connection.nowMs() // it is connected
    redis.signal('SIGSTOP')
    const refusal = refusalOf(worker, 'ticket')
    await sleep(50) // it is sent
    ;(connection.redis as unknown as { disconnect(reconnect: boolean): void }).disconnect(true)
    await refusal
    redis.signal('SIGCONT')
    await until('the task was pulled', async () => (await redis.client.hget(key(id), 'ats')) === '1')
    await until('the task waits again', async () => (await redis.client.llen(key('active'))) === 0)
    assert.equal((await claimOf(claims(), 'ticket')).attempt, 1)
  })

  it('buries a cancelled task at its next claim, and no other task in its place', async () => {
    const { enqueuer, claims, feed, key } = openSpool()
    const master = feed()
    await enqueuer.store(requestFrom({ n: 1 }))
    const claim = await beginOf(claims(), 'ticket')
    await enqueuer.store(requestFrom({ n: 2 }))
    const cancelled = { kind: 'cancelled', detail: 'people did it' } as const
    assert.equal(((await claims().claim('ticket', cancelled)) as { kind?: string }).kind, 'locked')
    master.lose({ cutShort: [{ ref: 'ticket', lastRun: cancelled, lease: leaseOf(claim) }] })
    await until('the task is back', async () => (await redis.client.llen(key('active'))) === 0)
    assert.equal((await refusalOf(claims(), 'ticket')).kind, 'set-aside')
    assert.deepEqual(await redis.client.zrange(key('failed'), 0, -1), [claim.name])
    assert.equal((await claimOf(claims(), 'ticket')).attempt, 1)
  })

  it('offers a task at growing intervals while nobody knows its name', async () => {
    const { enqueuer, claims, key } = openSpool()
    await enqueuer.store(requestFrom({ task: 'mail', args: '[]' }))
    const worker = claims({ termsOf: () => 'unknown-name', frequencyMs: 20 })
    const delays: string[] = []
    for (let i = 0; i < 3; i++)
      await until('the task is offered', async () => {
        const { kind, name = '' } = await refusalOf(worker, 'ticket')
        if (kind === 'parked') delays.push((await redis.client.hget(key(name), 'delay')) ?? '')
        return kind === 'parked'
      })
    assert.deepEqual(delays, ['20', '40', '80'])
  })

  it('loses no delayed task behind a key that is no job, whether a task is pulled or fetched', async () => {
    const { enqueuer, claims, key } = openSpool()
    const worker = claims()
    const plant = async (id: string) => {
      await redis.client.set(key(id), 'x')
      await redis.client.zadd(key('delayed'), 4096, id)
    }
    const retry = async () => {
      const report = await worker.settle(await beginOf(worker, 'ticket'), { kind: 'retry', delayMs: 1 }, 1)
      assert.equal(report.kind, 'retry')
    }
    for (let n = 0; n < 3; n++) await enqueuer.store(requestFrom({ n: String(n) }))
    await retry()
    await plant('pulled')
    await claimOnceDue(worker, 'ticket').then(claim => worker.release(claim))
    await retry()
    const claim = await beginOf(worker, 'ticket')
    await plant('fetched')
    await worker.settle(claim, OK, 1, 'ticket 2')
    for (const ref of ['ticket 2', 'ticket 3']) await claimOnceDue(worker, ref)
    assert.deepEqual((await redis.client.zrange(key('failed'), 0, -1)).toSorted(), ['fetched', 'pulled'])
  })

  it('settles a task in every way although the count of attempts that BullMQ keeps is no number', async () => {
    const { enqueuer, claims, key } = openSpool()
    const worker = claims()
    const run = async (outcome: Outcome) => {
      const { path } = await enqueuer.store(requestFrom({}))
      const job = key(path.split('/').at(-1) ?? '')
      const claim = await beginOf(worker, 'ticket')
      await redis.client.hset(job, 'atm', 'x')
      const { kind } = await worker.settle(claim, outcome, 1)
      return [kind, await redis.client.hget(job, 'atm')]
    }
    assert.deepEqual(await run(OK), ['ok', null])
    assert.deepEqual(await run({ kind: 'bury', detail: 'no' }), ['buried', '1'])
    assert.deepEqual(await run({ kind: 'error', detail: 'no' }), ['error', '1'])
    const left = await Promise.all(
      ['active', 'failed', 'delayed'].map(type => redis.client.exists(key(type))),
    )
    assert.deepEqual(left, [0, 1, 1])
  })

  it('sets aside a job that was not stored as a task, and goes on', async () => {
    const { enqueuer, claims, key } = openSpool()
    assert.ok(libraries !== undefined)
    const [, queue = ''] = key('').split(':')
    const foreign = new libraries.Queue(queue, { connection: { host: '127.0.0.1', port: redis.port } })
    await foreign.add('mail', { to: 'joe' })
    await foreign.close()
    await enqueuer.store(requestFrom({ n: 1 }))
    const worker = claims()
    const { kind, detail } = await refusalOf(worker, 'ticket')
    assert.deepEqual([kind, detail?.includes('it was not stored as a task')], ['set-aside', true])
    assert.equal((await claimOf(worker, 'ticket')).attempt, 1)
  })

  it('counts a dead letter as unknown if its reason is none that spoold writes, as `constructor` is', async () => {
    const { connect, key } = openSpool()
    for (const reason of ['constructor', '__proto__', 'asked']) {
      await redis.client.hset(key(reason), 'progress', JSON.stringify({ reason }))
      await redis.client.zadd(key('failed'), 1, reason)
    }
    const { dead } = await new RedisUpkeep(connect()).stats()
    assert.deepEqual(dead.byReason, { unknown: 2, asked: 1 })
  })

  it('counts all of 2,500 dead letters exactly, and calls the reasons of those unknown that it does not read', async () => {
    const { connect, key } = openSpool()
    await redis.client.hset(key('0'), 'progress', JSON.stringify({ reason: 'asked' }))
    await redis.client.zadd(key('failed'), ...Array.from({ length: 2500 }, (_, i) => [i, `${i}`]).flat())
    const { dead } = await new RedisUpkeep(connect()).stats()
    assert.deepEqual([dead.count, dead.isWhole, dead.byReason], [2500, true, { asked: 1, unknown: 2499 }])
  })

  it('purges dead letters, and reports how many stay because their id is no text', async () => {
    const { key, connect } = openSpool()
    for (const [score, id] of [Buffer.from('a\xff', 'latin1'), 'b', 'c'].entries())
      await redis.client.zadd(key('failed'), score, id)
    const upkeep = new RedisUpkeep(connect())
    const passed: number[] = []
    const { removed, fault } = await upkeep.purge({ maxAgeMs: null, maxCount: 0 }, () => passed.push(1))
    assert.deepEqual([removed, fault], [2, 'BullMQ removed none of 1 failed job'])
    assert.equal(passed.length, 3)
    assert.equal(await redis.client.zcard(key('failed')), 1)
  })

  it('keeps tasks without a priority in their order of arrival, however many there are', async () => {
    const { enqueuer, claims } = openSpool()
    const names: string[] = []
    for (let n = 0; n < 50; n++) {
      const { path } = await enqueuer.store(requestFrom({ n }))
      names.push(path.slice(path.lastIndexOf('/') + 1))
    }
    const worker = claims()
    const claimed = []
    for (const name of names) claimed.push((await claimOf(worker, `for-${name}`)).name)
    assert.deepEqual(claimed, names)
  })

  it('gives one ticket for each task, even while a worker has not claimed its task yet', async () => {
    const { enqueuer, claims, feed } = openSpool()
    for (let n = 0; n < 3; n++) await enqueuer.store(requestFrom({ n }))
    const master = feed()
    await master.open(() => {})
    const [ref = '', ...others] = master.take(9)
    assert.equal(others.length, 2)
    const claim = await claimOf(claims(), ref)
    master.report({ claimed: [ref] })
    await enqueuer.store(requestFrom({ n: 3 }))
    await until('the new task is known', () => master.state.ready > 0)
    assert.deepEqual([master.take(9).length, master.take(9).length], [1, 0])
    assert.ok(claim.name !== '')
    master.close()
  })
})

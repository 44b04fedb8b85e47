import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OK } from '#src/base/task/outcome.js'
import { requestFrom } from '../../helpers/request.js'
import { until } from '../../helpers/until.js'
import { beginOf, claimOf, ENGINES, refsOf, type TestSpool } from './engines.js'

const HOUR_MS = 3_600_000
const LISTENER = { lost() {}, renewed() {} }

async function bury(spool: TestSpool, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await spool.enqueuer.store(requestFrom({ n }))
  const claims = await spool.claims()
  for (const ref of await refsOf(spool)) {
    const report = await claims.settle(await beginOf(claims, ref), { kind: 'bury', detail: 'no use' }, 1)
    assert.equal(report.kind, 'buried')
  }
}

for (const [engine, open] of Object.entries(ENGINES))
  describe(`the upkeep of the ${engine} engine`, () => {
    it('prepares a spool as often as it is asked, and touches no task', async () => {
      const spool = open()
      await spool.enqueuer.store(requestFrom({ n: 1 }))
      for (let i = 0; i < 2; i++) spool.upkeep().prepare('ofd')
      assert.equal((await refsOf(spool)).length, 1)
    })

    it('forgets ids that are old enough, and no others', async () => {
      const spool = open()
      const store = () => spool.enqueuer.store(requestFrom({}, { id: 'one' }))
      await store()
      const claims = await spool.claims()
      const [ref = ''] = await refsOf(spool)
      await claims.settle(await beginOf(claims, ref), OK, 1)
      const upkeep = spool.upkeep()
      assert.equal((await upkeep.sweep({ graceMs: 0, idTtlMs: HOUR_MS })).forgotten, 0)
      assert.equal((await upkeep.sweep({ graceMs: 0, idTtlMs: 0 })).forgotten, 0, '0: never')
      assert.equal((await store()).isDuplicate, true)
      await until('the id is old enough', async () => {
        const { forgotten } = await upkeep.sweep({ graceMs: 0, idTtlMs: 1 })
        return forgotten === 1
      })
      assert.equal((await store()).isDuplicate, false)
    })

    it('counts dead letters by reason, and tasks that failed', async () => {
      const spool = open()
      await bury(spool, 2)
      await spool.enqueuer.store(requestFrom({ n: 9 }))
      const claims = await spool.claims()
      for (const ref of await refsOf(spool))
        await claims.settle(await beginOf(claims, ref), { kind: 'error', detail: 'no' }, 1)
      const { dead, records } = await spool.upkeep().stats()
      assert.deepEqual([dead.count, dead.isWhole, dead.byReason], [2, true, { asked: 2 }])
      assert.ok((dead.oldestMs ?? 0) > 0 && (dead.oldestMs ?? 0) <= (dead.newestMs ?? 0))
      assert.deepEqual(records, { count: 1, isWhole: true })
    })

    it('sweeps no task', async () => {
      const spool = open()
      for (let n = 0; n < 3; n++) await spool.enqueuer.store(requestFrom({ n }, { id: String(n) }))
      await until('the ids are old', async () => {
        await spool.upkeep().sweep({ graceMs: 1, idTtlMs: 1 })
        return !(await spool.enqueuer.store(requestFrom({}, { id: '0' }))).isDuplicate
      })
      assert.equal((await refsOf(spool)).length, 4)
    })

    it('removes dead letters beyond the maximum number, and those that are too old', async () => {
      const spool = open()
      await bury(spool, 3)
      const upkeep = spool.upkeep()
      const purge = async (maxAgeMs: number | null, maxCount: number | null) => {
        const { removed, fault } = await upkeep.purge({ maxAgeMs, maxCount })
        assert.equal(fault, undefined)
        return removed
      }
      assert.equal(await purge(null, null), 0)
      assert.equal(await purge(HOUR_MS, 3), 0)
      assert.equal(await purge(null, 2), 1)
      assert.equal(await purge(null, 2), 0)
      let removed = 0
      await until('the dead letters are old enough', async () => {
        removed += await purge(1, null)
        return removed === 2
      })
    })

    it('forgets no failed runs of tasks that are still there', async () => {
      const spool = open()
      await spool.enqueuer.store(requestFrom({}))
      const claims = await spool.claims()
      const [ref = ''] = await refsOf(spool)
      await claims.settle(await beginOf(claims, ref), { kind: 'retry', delayMs: 0 }, 1)
      assert.equal(await spool.upkeep().forget(0), 0)
      assert.equal((await claimOf(claims, ref)).attempt, 2)
    })

    it('gives the lease of a name to one holder at a time', async () => {
      const spool = open()
      const [one, two] = [spool.upkeep(), spool.upkeep()]
      const lease = await one.takeLease('schedules', LISTENER)
      assert.ok(lease !== undefined && lease.validUntilMs > Date.now())
      assert.equal(lease.isTakenOver, false)
      assert.equal(await two.takeLease('schedules', LISTENER), undefined)
      const other = await two.takeLease('others', LISTENER)
      assert.ok(other !== undefined)
      await lease.release()
      const next = await two.takeLease('schedules', LISTENER)
      assert.ok(next !== undefined)
      await Promise.all([next.release(), other.release()])
    })

    it('remembers periodic tasks, and lets only one of several callers replace the same version of an entry', async () => {
      const { periodic } = open().upkeep()
      const entry = { name: 'naïve / 1', when: { everyMs: 1000 }, sinceMs: 1, nextMs: 1001 }
      const now = async () => (await periodic.read()).get(periodic.keyOf(entry.name))
      assert.equal(await now(), undefined)
      const first = await Promise.all([0, 0, 0, 0].map(from => periodic.advance(entry, from, true)))
      assert.equal(first.filter(Boolean).length, 1)
      assert.deepEqual(await now(), { version: 1, entry })
      const machine = { boot: 'b', nextMs: 5 }
      const second = {
        ...entry,
        when: { expression: '@daily', zone: null },
        nextMs: 2002,
        machine,
        task: 'a',
      }
      assert.equal(await periodic.advance(second, 0, true), false)
      assert.equal(await periodic.advance(second, 1, false), true)
      assert.deepEqual(await now(), { version: 2, entry: second })
      await periodic.forget(periodic.keyOf(entry.name), 1)
      assert.deepEqual(await now(), { version: 2, entry: second })
      await periodic.forget(periodic.keyOf(entry.name), 2)
      assert.equal(await now(), undefined)
    })

    it('knows whether a task waits, has begun or is gone', async () => {
      const spool = open()
      const { periodic } = spool.upkeep()
      const { path } = await spool.enqueuer.store(requestFrom({ n: 1 }))
      const name = path.slice(path.lastIndexOf('/') + 1)
      const claims = await spool.claims()
      const [ref = ''] = await refsOf(spool)
      assert.equal(await periodic.fateOf(name), 'waiting')
      const claim = await beginOf(claims, ref)
      assert.equal(await periodic.fateOf(name), 'begun')
      await claims.settle(claim, OK, 1)
      assert.equal(await periodic.fateOf(name), 'gone')
    })

    it('remembers which schedules are paused and since when, for all who ask', async () => {
      const spool = open()
      const pauses = spool.upkeep().schedulePauses
      const [one, two] = ['1', '2'].map(digit => digit.repeat(64)) as [string, string]
      const before = Date.now() - 1000
      await pauses.pause(one)
      const since = (await spool.upkeep().schedulePauses.read()).get(one) ?? 0
      assert.ok(since > before && since <= Date.now() + 1000)
      await pauses.pause(one)
      await pauses.pause(two)
      assert.equal((await pauses.read()).get(one), since)
      assert.equal((await pauses.read()).size, 2)
      assert.equal(await spool.upkeep().schedulePauses.resume(one), true)
      assert.equal(await pauses.resume(one), false)
      assert.deepEqual([...(await pauses.read()).keys()], [two])
      assert.equal(
        (await pauses.read()).size + (await spool.upkeep().periodic.read()).size,
        1,
        'pauses are not entries of periodic tasks',
      )
    })
  })

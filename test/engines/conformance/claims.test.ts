import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IGNORE, OK, RELEASE } from '#src/base/task/outcome.js'
import type { Request } from '#src/base/task/request.js'
import { TASK_STATES } from '#src/engines/spool/admin/task-view.js'
import { toDictionary } from '#src/formats/protocol/vars.js'
import { CLAIMS_DEFAULTS } from '../../helpers/engine.js'
import { requestFrom } from '../../helpers/request.js'
import { until } from '../../helpers/until.js'
import { beginOf, claimOf, claimOnceDue, ENGINES, refsOf, refusalOf } from './engines.js'

for (const [engine, open] of Object.entries(ENGINES)) {
  /** Stores one task, for two workers. */
  async function withTask(request: Request = requestFrom({ to: 'joe' })) {
    const spool = open()
    await spool.enqueuer.store(request)
    const [ref = ''] = await refsOf(spool)
    return { spool, ref, one: await spool.claims(), two: await spool.claims() }
  }

  describe(`claims of the ${engine} engine`, () => {
    it('bring the packet, the body and the number of the run', async () => {
      const { ref, one } = await withTask(requestFrom({ to: 'joe' }, { body: 'hello' }))
      const claim = await claimOf(one, ref)
      assert.deepEqual({ ...toDictionary(claim.vars) }, { to: 'joe' })
      assert.deepEqual(
        [claim.bodyBytes, claim.attempt, claim.mustBeAlone, claim.isOnce],
        [5, 1, false, false],
      )
      assert.equal(claim.priority, null)
      assert.ok(claim.name !== '' && claim.path.endsWith(claim.name), claim.path)
      assert.ok(claim.dueAtMs <= Date.now())
      assert.equal((await claim.readBody())?.toString(), 'hello')
      await one.release(claim)
    })

    it('know since when the task is due more exactly than to the second', async () => {
      await until(
        'the clock is in the middle of a second, because uWSGI knows whole seconds only',
        () => Date.now() % 1000 > 300,
      )
      const beganAt = Date.now()
      const { ref, one } = await withTask()
      const claim = await claimOf(one, ref)
      assert.ok(claim.dueAtMs > beganAt - 100 && claim.dueAtMs <= Date.now(), `${claim.dueAtMs - beganAt} ms`)
      await one.release(claim)
    })

    it('exclude other workers until they are settled, even after their run has begun', async () => {
      const { ref, one, two } = await withTask()
      const claim = await claimOf(one, ref)
      assert.equal((await refusalOf(two, ref)).kind, 'locked')
      assert.equal(await one.begin(claim, 'beside'), undefined)
      assert.equal((await refusalOf(two, ref)).kind, 'locked')
      assert.equal((await one.settle(claim, OK, 1)).kind, 'ok')
      assert.equal((await refusalOf(two, ref)).kind, 'gone')
    })

    it('are settled with the farthest possible time if the delay asked for is longer, with one failure counted', async () => {
      for (const outcome of [
        { kind: 'retry', delayMs: 2 ** 64 * 1000 },
        { kind: 'retry', delayMs: Number.MAX_VALUE },
        { kind: 'retry', policy: { backoff: 'fixed', delayMs: 2 ** 80 } },
        { kind: 'error', detail: 'x', delayMs: Number.POSITIVE_INFINITY },
      ] as const) {
        const { spool, ref, one } = await withTask()
        const { kind, atMs = 0 } = await one.settle(await beginOf(one, ref), outcome, 1)
        assert.equal(kind, outcome.kind)
        assert.ok(atMs > Date.now() + 86_400_000 * 365 * 6000, String(atMs))
        assert.ok(Number.isFinite(new Date(atMs).getTime()))
        assert.equal((await refusalOf(one, ref)).kind, 'later')
        assert.deepEqual((await spool.upkeep().stats()).records, { count: 1, isWhole: true })
        if (spool.store === undefined) continue
        for await (const { record } of (await spool.store()).views({
          states: TASK_STATES,
          mayHave: () => true,
        }))
          assert.equal(record?.attempts, 1)
      }
    })

    it('count for nothing when they are released', async () => {
      const { ref, one, two } = await withTask()
      assert.equal((await one.release(await claimOf(one, ref))).kind, 'untouched')
      assert.equal((await claimOf(two, ref)).attempt, 1)
    })

    it('report the reason for which they are released to be parked, and count for nothing', async () => {
      const { spool, one, two } = await withTask()
      const feed = spool.feed()
      await feed.open(() => {})
      const [ref = ''] = feed.take(1)
      const report = await one.release(await claimOf(one, ref), 'alone')
      assert.deepEqual([report.kind, report.reason], ['parked', 'alone'])
      feed.report({ returned: [report] })
      const [again = ''] = feed.take(1, 'alone')
      assert.equal((await claimOf(two, again)).attempt, 1)
      feed.close()
    })

    for (const outcome of [IGNORE, RELEASE])
      it(`keep the task as it was after ${outcome.kind}`, async () => {
        const { spool, ref, two } = await withTask()
        const one = await spool.claims({ frequencyMs: 1 })
        await one.settle(await beginOf(one, ref), outcome, 1)
        const again = await claimOnceDue(two, ref)
        assert.deepEqual([again.attempt, again.mustBeAlone], [1, false])
      })

    it('count a run that failed, and are refused before the next run is due', async () => {
      const { ref, one, two } = await withTask()
      const now = Date.now()
      const retry = await one.settle(await beginOf(one, ref), { kind: 'retry', delayMs: 0 }, 1)
      assert.equal(retry.kind, 'retry')
      const second = await beginOf(two, ref)
      assert.equal(second.attempt, 2)
      const error = await two.settle(second, { kind: 'error', detail: 'boom' }, 1)
      assert.deepEqual([error.kind, error.detail], ['error', 'boom'])
      const refusal = await refusalOf(one, ref)
      assert.equal(refusal.kind, 'later')
      assert.ok((refusal.atMs ?? 0) >= now + 25_000, `${refusal.atMs}`)
    })

    it('bury a task that is not to run again', async () => {
      const { ref, one, two } = await withTask()
      const report = await one.settle(await beginOf(one, ref), { kind: 'bury', detail: 'bad' }, 1)
      assert.equal(report.kind, 'buried')
      assert.equal((await refusalOf(two, ref)).kind, 'gone')
    })

    it('count a run that began alone and whose worker died, as a crash', async () => {
      const { spool, ref, one, two } = await withTask()
      await beginOf(one, ref, 'alone')
      const lastRun = await spool.died(one, ref, { kind: 'crash', cause: 'it was killed' })
      const claim = await claimOf(two, ref, lastRun)
      assert.deepEqual([claim.attempt, claim.mustBeAlone, claim.hasCrashed], [2, true, true])
      await two.release(claim, 'crashed')
    })

    it('set aside a task that has killed its worker as often as it may', async () => {
      const { spool, ref } = await withTask()
      for (let crashes = 0; crashes < CLAIMS_DEFAULTS.policy.maxCrashes; crashes++) {
        const claims = await spool.claims()
        await until('the task is due', async () => {
          const claim = await claims.claim(ref)
          return !('kind' in claim) && (await claims.begin(claim, 'alone')) === undefined
        })
        await spool.died(claims, ref)
      }
      assert.equal((await refusalOf(await spool.claims(), ref)).kind, 'set-aside')
      assert.equal((await refusalOf(await spool.claims(), ref)).kind, 'gone')
    })

    it('must run alone after a run that began beside others and whose worker died', async () => {
      const { spool, ref, one, two } = await withTask()
      await beginOf(one, ref, 'beside')
      await spool.died(one, ref)
      const claim = await claimOf(two, ref)
      assert.deepEqual([claim.attempt, claim.mustBeAlone, claim.hasCrashed], [1, true, false])
      await two.release(claim)
      assert.equal((await claimOf(two, ref)).mustBeAlone, true, 'still')
    })

    for (const company of ['alone', 'beside'] as const)
      it(`count no attempt for a run that ended blameless (begun ${company})`, async () => {
        const { spool, ref, one, two } = await withTask()
        await beginOf(one, ref, company)
        const lastRun = await spool.died(one, ref, { kind: 'blameless' })
        const claim = await claimOf(two, ref, lastRun)
        assert.deepEqual([claim.attempt, claim.mustBeAlone], [1, false])
      })

    it('set aside a task that is delivered at most once when its worker died during the run', async () => {
      const { spool, ref, one, two } = await withTask(requestFrom({ spooler_delivery: 'at-most-once' }))
      await beginOf(one, ref)
      await spool.died(one, ref)
      assert.equal((await refusalOf(two, ref)).kind, 'set-aside')
      assert.equal((await refusalOf(two, ref)).kind, 'gone')
    })

    it('set aside a task whose run began as at most once, though it is delivered at least once now', async () => {
      const { spool, ref, two } = await withTask()
      const one = await spool.claims({ delivery: 'at-most-once' })
      await beginOf(one, ref)
      await spool.died(one, ref)
      assert.equal((await refusalOf(two, ref)).kind, 'set-aside')
      assert.equal((await refusalOf(two, ref)).kind, 'gone')
    })

    it('run a task again whose run began as at least once, though it is delivered at most once now', async () => {
      const { spool, ref, one } = await withTask()
      const [two, three] = [
        await spool.claims({ delivery: 'at-most-once' }),
        await spool.claims({ delivery: 'at-most-once' }),
      ]
      await beginOf(one, ref, 'beside')
      await spool.died(one, ref)
      assert.equal((await beginOf(two, ref)).isOnce, true)
      await spool.died(two, ref)
      assert.equal((await refusalOf(three, ref)).kind, 'set-aside')
    })

    it('count the crash of a run that began as at least once, though the task is delivered at most once now', async () => {
      const { spool, ref, one } = await withTask()
      const two = await spool.claims({ delivery: 'at-most-once' })
      await beginOf(one, ref)
      const lastRun = await spool.died(one, ref, { kind: 'crash', cause: 'its process was killed' })
      const claim = await claimOf(two, ref, lastRun)
      assert.deepEqual([claim.attempt, claim.hasCrashed, claim.isOnce], [2, true, true])
    })

    it('count for nothing if the worker died before the run began', async () => {
      const { spool, ref, one, two } = await withTask()
      await claimOf(one, ref)
      await spool.died(one, ref)
      const claim = await claimOf(two, ref)
      assert.deepEqual([claim.attempt, claim.mustBeAlone], [1, false])
    })

    it('give back a task that is delivered at most once only before its run has begun', async () => {
      const { ref, one, two } = await withTask(requestFrom({ spooler_delivery: 'at-most-once' }))
      const claim = await claimOf(one, ref)
      assert.equal(claim.isOnce, true)
      await one.release(claim)
      assert.equal((await two.settle(await beginOf(two, ref), RELEASE, 1)).kind, 'buried')
      assert.equal((await refusalOf(one, ref)).kind, 'gone')
    })
  })
}

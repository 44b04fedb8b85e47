import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IGNORE } from '#src/base/task/outcome.js'
import type { RetryPolicy, TermsOrPark } from '#src/base/task/terms.js'
import { lastValue, type Vars } from '#src/formats/protocol/vars.js'
import { type EngineSettings, POLICY } from '../../helpers/engine.js'
import { requestFrom } from '../../helpers/request.js'
import { beginOf, claimOf, claimOnceDue, ENGINES, refsOf, refusalOf } from './engines.js'

const terms = (
  policy: Partial<RetryPolicy>,
  delivery: 'at-least-once' | 'at-most-once' = 'at-least-once',
) => ({
  name: 'mail',
  delivery,
  policy: { attemptsLimit: 'maxRetries of mail', ...policy },
})

for (const [engine, open] of Object.entries(ENGINES)) {
  async function withTask(
    termsOf: ((vars: Vars) => TermsOrPark) | undefined,
    packet: Record<string, string> = { task: 'mail', args: '[]' },
    settings: EngineSettings = {},
  ) {
    const spool = open()
    await spool.enqueuer.store(requestFrom(packet))
    const [ref = ''] = await refsOf(spool)
    return {
      spool,
      ref,
      worker: await spool.claims({
        ...{ termsOf, frequencyMs: 30_000 },
        policy: { ...POLICY, maxAttempts: 7, delayMs: 0 },
        ...settings,
      }),
    }
  }

  describe(`named tasks in the ${engine} engine`, () => {
    it('are claimed with the terms that the handlers give for their packet', async () => {
      const { ref, worker } = await withTask(vars =>
        lastValue(vars, 'task') === 'mail' ? terms({ maxAttempts: 3 }) : undefined,
      )
      const claim = await claimOf(worker, ref)
      assert.equal(claim.terms?.name, 'mail')
      assert.equal(claim.isOnce, false)
      await worker.release(claim)
    })

    it('are buried after their own maxAttempts, not that of the options', async () => {
      const { ref, worker } = await withTask(() => terms({ maxAttempts: 2 }))
      const first = await worker.settle(await beginOf(worker, ref), { kind: 'error', detail: 'one' }, 1)
      assert.equal(first.kind, 'error')
      const last = await worker.settle(await beginOf(worker, ref), { kind: 'error', detail: 'two' }, 1)
      assert.equal(last.kind, 'buried')
      assert.match(last.detail ?? '', /it failed 2 times, as often as it may \(maxRetries of mail\)/)
    })

    it('run more often than the options allow if their terms have no limit', async () => {
      const { ref, worker } = await withTask(() => terms({ maxAttempts: 0 }))
      for (let i = 0; i < 9; i++)
        assert.equal((await worker.settle(await beginOf(worker, ref), { kind: 'retry' }, 1)).kind, 'retry')
    })

    it('wait as long as their terms say, unless a run asks for another delay', async () => {
      const { ref, worker } = await withTask(() =>
        terms({ maxAttempts: 0, backoff: 'fixed', delayMs: 3_600_000 }),
      )
      const now = Date.now()
      const asked = await worker.settle(await beginOf(worker, ref), { kind: 'retry', delayMs: 0 }, 1)
      assert.ok((asked.atMs ?? 0) < now + 60_000)
      const retry = await worker.settle(await beginOf(worker, ref), { kind: 'retry' }, 1)
      assert.ok((retry.atMs ?? 0) >= now + 3_600_000, `${retry.atMs}`)
    })

    it('are delivered at most once if their terms say so, unless their packet says otherwise', async () => {
      const once = () => terms({ maxAttempts: 1 }, 'at-most-once')
      const { ref, worker } = await withTask(once)
      const claim = await beginOf(worker, ref)
      assert.equal(claim.isOnce, true)
      assert.equal((await worker.settle(claim, { kind: 'crash', detail: 'gone' }, 1)).kind, 'buried')
      const other = await withTask(once, { task: 'mail', spooler_delivery: 'at-least-once' })
      assert.equal((await claimOf(other.worker, other.ref)).isOnce, false)
    })

    it('are parked untouched where their name is unknown, and run where it is known', async () => {
      const { spool, ref, worker } = await withTask(() => 'unknown-name', undefined, { frequencyMs: 1 })
      const { kind, reason, detail } = await refusalOf(worker, ref)
      assert.deepEqual([kind, reason, detail], ['parked', 'unknown-name', 'mail'])
      const other = await spool.claims({ termsOf: () => terms({}) })
      assert.equal((await claimOnceDue(other, ref)).attempt, 1)
    })

    it('are parked if every handler ignores them, while a dictionary is offered again', async () => {
      for (const [packet, kind] of [
        [{ task: 'mail', args: '[]' }, 'parked'],
        [{ task: 'mail', kwargs: '{}' }, 'parked'],
        [{ task: 'mail' }, 'ignore'],
        [{ args: '[]' }, 'ignore'],
      ] as const) {
        const { ref, worker } = await withTask(undefined, packet, { frequencyMs: 1 })
        const report = await worker.settle(await beginOf(worker, ref), IGNORE, 1)
        assert.equal(report.kind, kind, JSON.stringify(packet))
        assert.equal((await claimOnceDue(worker, ref)).attempt, 1)
      }
    })
  })
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { OK } from '#src/base/task/outcome.js'
import type { Claim } from '#src/engines/claims.js'
import { requestFrom } from '../../helpers/request.js'
import { until } from '../../helpers/until.js'
import { beginOf, claimOf, ENGINES, refsOf, refusalOf } from './engines.js'

/** Long enough for a busy machine to renew in time. */
const LEASE_MS = 500

for (const [engine, open] of Object.entries(ENGINES)) {
  async function withTask() {
    const spool = open({ leaseMs: LEASE_MS })
    await spool.enqueuer.store(requestFrom({ to: 'joe' }))
    const [ref = ''] = await refsOf(spool)
    return { spool, ref, feed: spool.feed(), one: await spool.claims(), two: await spool.claims() }
  }
  const leaseOf = ({ notice }: Claim) => notice?.lease ?? ''

  describe(`leases of the ${engine} engine`, () => {
    it('are announced with the claim if the feed can renew them, and only then', async () => {
      const { spool, ref, feed, one } = await withTask()
      const claim = await claimOf(one, ref)
      assert.equal(claim.notice?.lease !== undefined, spool.isLeasing)
      assert.equal(feed.leases !== undefined, spool.isLeasing)
      if (feed.leases !== undefined) assert.ok(feed.leases.everyMs < LEASE_MS / 2, `${feed.leases.everyMs}`)
      if (claim.notice !== undefined) assert.ok(claim.path.endsWith(claim.notice.name), claim.path)
      await one.release(claim)
    })

    it('lose the claim, if they are not renewed, to another worker, which alone settles it', async () => {
      const { spool, ref, feed, one, two } = await withTask()
      await feed.open(() => {})
      const claim = await beginOf(one, ref)
      assert.equal((await refusalOf(two, ref)).kind, 'locked')
      if (!spool.isLeasing) {
        await sleep(1.2 * LEASE_MS)
        assert.equal((await refusalOf(two, ref)).kind, 'locked', 'it needs no renewal')
        assert.equal((await one.settle(claim, OK, 1)).kind, 'ok')
        feed.close()
        return
      }
      let other: Claim | undefined
      await until('another worker has it', async () => {
        const found = await two.claim(ref)
        if (!('kind' in found)) other = found
        return other !== undefined
      })
      assert.ok(other !== undefined)
      assert.equal((await one.settle(claim, OK, 1)).kind, 'unsettled')
      assert.equal(await two.begin(other, 'alone'), undefined)
      assert.equal((await two.settle(other, OK, 1)).kind, 'ok')
      feed.close()
    })

    it('keep the claim as long as they are renewed, even if the feed is closed', async () => {
      const { spool, ref, feed, one, two } = await withTask()
      const lease = leaseOf(await beginOf(one, ref))
      await feed.open(() => {})
      feed.close()
      const endsAt = performance.now() + 1.5 * LEASE_MS
      while (performance.now() < endsAt) {
        feed.leases?.keep([lease, 'of somebody else'])
        await sleep(LEASE_MS / 20)
        assert.equal((await refusalOf(two, ref)).kind, 'locked')
      }
      if (!spool.isLeasing) return void (await spool.died(one, ref))
      const other = spool.feed() // of a master that is alive
      await other.open(() => {})
      await until('the lease has expired', async () => !('kind' in (await two.claim(ref))))
      other.close()
    })

    it('end with their claim: a late renewal does not take it back', async () => {
      const { ref, feed, one, two } = await withTask()
      const claim = await claimOf(one, ref)
      await one.release(claim)
      feed.leases?.keep([leaseOf(claim)])
      await two.release(await claimOf(two, ref))
    })
  })
}

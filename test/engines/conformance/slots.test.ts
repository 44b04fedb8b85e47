import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { OK, UNBEGUN } from '#src/base/task/outcome.js'
import type { Ref } from '#src/base/task/ref.js'
import type { Report } from '#src/base/task/report.js'
import type { TermsOrPark } from '#src/base/task/terms.js'
import type { WorkerClaims } from '#src/engines/claims.js'
import type { Source } from '#src/engines/feed.js'
import { lastValue, type Vars } from '#src/formats/protocol/vars.js'
import { requestFrom } from '../../helpers/request.js'
import { until } from '../../helpers/until.js'
import { beginOf, claimOf, ENGINES, type TestSpool } from './engines.js'

/** Returns the terms of tasks: `count` slots for each name, and no limit for `free`. */
const termsOf =
  (count: number) =>
  (vars: Vars): TermsOrPark => {
    const name = lastValue(vars, 'task') ?? ''
    const limited = name === 'free' ? {} : { slots: { name, count } }
    return { name, delivery: 'at-least-once', policy: { maxAttempts: 0, delayMs: 0 }, ...limited }
  }

for (const [engine, open] of Object.entries(ENGINES)) {
  const feeds: Source[] = []
  after(() => {
    for (const feed of feeds) feed.close()
  })

  /** Stores tasks of these names, and takes them all, in order. */
  async function withTasks(names: readonly string[], count = 1) {
    const spool = open()
    for (const [n, name] of names.entries())
      await spool.enqueuer.store(requestFrom({ task: name, n: String(n), args: '[]' }))
    const feed = spool.feed()
    feeds.push(feed)
    await feed.open(() => {})
    return { spool, feed, refs: feed.take(1000), claims: await claimsOf(spool, count) }
  }
  const claimsOf = (spool: TestSpool, count: number) => spool.claims({ termsOf: termsOf(count) })

  /** Returns the report of a task that has no free slot: an engine refuses its claim, or its begin. */
  async function refusedBegin(claims: WorkerClaims, ref: Ref): Promise<Report> {
    const claim = await claims.claim(ref)
    const report = 'kind' in claim ? claim : await claims.begin(claim, 'alone')
    return report ?? assert.fail('it has begun')
  }

  const taken = (feed: Source) =>
    until('a task is ready', () => {
      const refs = feed.take(9)
      return refs.length === 0 ? undefined : refs
    })
  const parked = (feed: Source, count: number) =>
    until('that many tasks wait for a slot', () => feed.state.parked.slot === count)

  describe(`slots in the ${engine} engine`, () => {
    it('are taken when a run begins and given back when it ends, across all workers', async () => {
      const { spool, refs, claims } = await withTasks(['few', 'few', 'few', 'others', 'free'], 2)
      const [one = '', two = '', three = '', other = '', free = ''] = refs
      const another = await claimsOf(spool, 2)
      const first = await beginOf(claims, one)
      await beginOf(another, two)
      const again = spool.slotTicket?.('few') ?? three
      for (const [worker, ref] of [
        [claims, three],
        [another, again],
      ] as const) {
        worker.slots?.refresh(undefined)
        const { kind, reason, slots } = await refusedBegin(worker, ref)
        assert.deepEqual([kind, reason, slots], ['parked', 'slot', { name: 'few', count: 2 }])
      }
      await beginOf(claims, other)
      await beginOf(claims, free)
      const { kind, slots } = await claims.settle(first, OK, 1)
      assert.deepEqual([kind, slots], ['ok', { name: 'few', count: 2 }])
      another.slots?.refresh(undefined)
      assert.equal((await beginOf(another, again)).attempt, 1, 'what was parked was counted')
    })

    it('stay with a worker that says that another task follows, and are free once it drops them', async t => {
      const { spool, refs, claims } = await withTasks(['few', 'few', 'few'])
      if (claims.slots === undefined) return t.skip('only where a slot costs a lock')
      const another = await claimsOf(spool, 1)
      const [one = '', two = '', three = ''] = refs
      const slots = { name: 'few', count: 1 }
      const { slots: told } = await claims.settle(await beginOf(claims, one), OK, 1, undefined, true)
      assert.deepEqual([told, claims.slots?.heldOf('few')], [slots, 1])
      assert.equal((await refusedBegin(another, three)).reason, 'slot')
      await claims.settle(await beginOf(claims, two), OK, 1, undefined, true)
      assert.deepEqual(
        [claims.slots.dropKept(slots), claims.slots.dropKept(slots), claims.slots?.heldOf('few')],
        [true, false, 0],
      )
      another.slots?.refresh(undefined)
      await beginOf(another, three)
    })

    it('are given back whatever the outcome, even if the run was handed back before its handler was called', async () => {
      const { spool, refs, claims } = await withTasks(['few', 'few'])
      const [one = '', two = ''] = refs
      await claims.settle(await beginOf(claims, one), UNBEGUN, 1)
      const again = spool.slotTicket?.('few') ?? one
      for (const outcome of [
        { kind: 'retry', delayMs: 0 },
        { kind: 'error', detail: 'x' },
        UNBEGUN,
        { kind: 'bury', detail: 'x' },
      ] as const) {
        const { slots } = await claims.settle(await beginOf(claims, again), outcome, 1)
        assert.deepEqual(slots, { name: 'few', count: 1 }, outcome.kind)
      }
      await beginOf(claims, two)
    })

    it('are as many as each worker knows: two versions of a module together never have more than the larger number', async () => {
      const { spool, refs, claims } = await withTasks(['few', 'few', 'few', 'few'], 1)
      const [one = '', two = '', three = '', four = ''] = refs
      const newer = await claimsOf(spool, 3)
      await beginOf(claims, one)
      await beginOf(newer, two)
      await beginOf(newer, three)
      assert.equal((await refusedBegin(newer, four)).slots?.count, 3)
      assert.equal((await refusedBegin(claims, spool.slotTicket?.('few') ?? four)).slots?.count, 1)
    })

    it('make one waiting task ready for each slot that is given back, in order', async () => {
      const { feed, refs, claims } = await withTasks(['few', 'few', 'few', 'few'])
      const running = await beginOf(claims, refs[0] ?? '')
      for (const ref of [3, 1, 2].map(i => refs[i] ?? ''))
        feed.report({ returned: [await refusedBegin(claims, ref)] })
      await parked(feed, 3)
      assert.deepEqual([feed.state.waiting, feed.state.isDrained], [3, false])
      assert.deepEqual(feed.stats().slotQueues, [{ name: 'few', count: 1, parked: 3 }])
      assert.deepEqual([feed.stats().parked, feed.take(9)], [{ slot: 3 }, []])
      let ending = running
      for (const n of ['1', '2', '3']) {
        feed.report({ returned: [await claims.settle(ending, OK, 1)] })
        const [next = '', ...others] = await taken(feed)
        assert.deepEqual(others, [])
        ending = await beginOf(claims, next)
        assert.equal(lastValue(ending.vars, 'n'), n)
      }
      await parked(feed, 0)
      feed.report({ returned: [await claims.settle(ending, OK, 1)] })
      await until('the feed is drained', () => feed.state.isDrained)
    })

    it('are seen when workers of another master give them back', async () => {
      const { spool, feed, refs, claims } = await withTasks(['few', 'few', 'few'], 2)
      const others = await claimsOf(spool, 2)
      const running = [await beginOf(others, refs[0] ?? ''), await beginOf(others, refs[1] ?? '')]
      feed.report({ returned: [await refusedBegin(claims, refs[2] ?? '')] })
      assert.deepEqual(feed.take(9), [])
      for (const claim of running) await others.settle(claim, OK, 1)
      await until('the task is ready', () => feed.take(9).length === 1)
    })

    it('go to the next waiting task if the first one turns out to be paused', async () => {
      const { feed, refs, claims } = await withTasks(['few', 'few', 'few'])
      const running = await beginOf(claims, refs[0] ?? '')
      for (const ref of refs.slice(1)) feed.report({ returned: [await refusedBegin(claims, ref)] })
      feed.report({ returned: [await claims.settle(running, OK, 1)] })
      const [next = ''] = await taken(feed)
      feed.report({ returned: [await claims.release(await claimOf(claims, next), 'paused')] })
      const [following = '', ...others] = await taken(feed)
      assert.deepEqual(others, [])
      await beginOf(claims, following)
      assert.equal(feed.state.parked.paused, 1)
      await parked(feed, 0)
    })
  })
}

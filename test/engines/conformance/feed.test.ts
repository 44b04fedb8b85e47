import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { actOnTask } from '#src/admin/operate/act.js'
import { ACTIONS } from '#src/admin/operate/actions.js'
import { OK } from '#src/base/task/outcome.js'
import type { FeedReason } from '#src/base/task/parked.js'
import type { Ref } from '#src/base/task/ref.js'
import type { TaskOptions } from '#src/engines/client/request-from.js'
import type { Counts, Source } from '#src/engines/feed.js'
import type { TaskState } from '#src/engines/spool/admin/task-view.js'
import { toDictionary } from '#src/formats/protocol/vars.js'
import { requestFrom } from '../../helpers/request.js'
import { until } from '../../helpers/until.js'
import { claimOf, ENGINES, refusalOf } from './engines.js'

for (const [engine, open] of Object.entries(ENGINES)) {
  const opened: Source[] = []
  async function withTasks(...tasks: readonly TaskOptions[]) {
    const spool = open()
    const store = (n: number, options: TaskOptions = {}) => spool.enqueuer.store(requestFrom({ n }, options))
    for (const [n, options] of tasks.entries()) await store(n, options)
    const feed = spool.feed()
    opened.push(feed)
    return { feed, claims: await spool.claims(), store, people: await spool.store?.() }
  }

  describe(`the feed of the ${engine} engine`, () => {
    afterEach(() => {
      for (const feed of opened.splice(0)) feed.close() // an open one keeps the process alive
    })

    it('knows its tasks when it is open, and gives each of them once', async () => {
      const { feed } = await withTasks({}, {}, {})
      let calls = 0
      await feed.open(() => calls++)
      assert.ok(calls > 0)
      const first = feed.take(2)
      assert.equal(first.length, 2)
      assert.equal(feed.state.busy, 2)
      assert.equal(feed.take(10).length, 1)
      assert.deepEqual(feed.take(10), [])
    })

    it('gives the most urgent tasks first, and equally urgent ones in their order of arrival', async () => {
      const { feed, claims } = await withTasks({}, { priority: 9 }, { priority: 3 }, {}, { priority: 9 })
      await feed.open(() => {})
      const order: unknown[] = []
      for (const ref of feed.take(10)) order.push(toDictionary((await claimOf(claims, ref)).vars).n)
      assert.deepEqual(order, ['2', '1', '4', '0', '3'])
    })

    it('lists what it gave and will give, if tasks have refs before they are taken', async () => {
      const { feed } = await withTasks({}, { priority: 9 }, { priority: 3 }, {})
      await feed.open(() => {})
      const [first = assert.fail()] = feed.take(1)
      const next = await feed.next?.(10)
      if (next === undefined) return assert.notEqual(engine, 'directory')
      assert.equal(next.length, 4)
      assert.deepEqual(await feed.next?.(2), next.slice(0, 2))
      for (const from of [1, 2, 4, Number.MAX_SAFE_INTEGER])
        assert.deepEqual(await feed.next?.(2, from), next.slice(from, from + 2))
      assert.deepEqual(next, [first, ...feed.take(10)])
    })

    it('gives a task that this process has stored, and calls its listener', async () => {
      const { feed, store } = await withTasks()
      let calls = 0
      await feed.open(() => calls++)
      const before = calls
      feed.look({ stored: (await store(1)).path })
      await until('the feed calls its listener', () => calls > before)
      assert.equal(feed.take(10).length, 1)
    })

    it('looks when it is asked to, and ignores the paths of other spools', async () => {
      const { feed, store } = await withTasks()
      await feed.open(() => {})
      feed.look({ stored: `/of/somebody/else/${'x'.repeat(250)}` })
      assert.equal(feed.state.ready, 0)
      await store(1)
      feed.look()
      await until('the task is known', () => feed.state.ready === 1)
    })

    it('gives a ref again that a worker has lost', async () => {
      const { feed, claims } = await withTasks({}, {})
      await feed.open(() => {})
      feed.lose({ refs: feed.take(1) })
      assert.equal(feed.state.busy, 0)
      const [ref = '', ...others] = feed.take(10)
      assert.equal(toDictionary((await claimOf(claims, ref)).vars).n, '0')
      assert.equal(others.length, 1)
    })

    it('lets a task wait that came back as not yet due', async () => {
      const { feed, claims } = await withTasks({ at: Date.now() / 1000 + 1000 })
      await feed.open(() => {})
      for (const ref of feed.take(10)) feed.report({ returned: [await refusalOf(claims, ref)] })
      assert.deepEqual(feed.take(10), [])
      assert.deepEqual(countsOf(feed), { ready: 0, busy: 0, waiting: 1 })
    })

    it('counts tasks that people hold among those for later, and says when the next other one is due', async () => {
      const atMs = (Math.floor(Date.now() / 1000) + 1000) * 1000
      const { feed, claims, people } = await withTasks({}, { at: new Date(atMs) })
      if (people === undefined)
        return assert.equal(feed.stats().held, 0, 'nobody can hold a task of this engine')
      const hold = async (state: TaskState) => {
        for await (const task of people.views({ states: [state], mayHave: () => true, failed() {} }))
          if (task.state === state) assert.equal((await actOnTask(people, task, ACTIONS.hold)).kind, 'done')
      }
      await hold('due')
      await feed.open(() => {})
      const look = async () => {
        for (const ref of feed.take(10)) feed.report({ returned: [await refusalOf(claims, ref)] })
        const { later, held, nextDueMs } = feed.stats()
        return { later, held, nextDueMs }
      }
      await until('the held task is counted', async () => (await look()).held === 1)
      assert.deepEqual(await look(), { later: 2, held: 1, nextDueMs: atMs })
      await hold('waiting')
      feed.look()
      await until('both are counted', async () => (await look()).held === 2)
      assert.deepEqual(await look(), { later: 2, held: 2, nextDueMs: null })
    })

    it('gives no task before its time, to the millisecond', async () => {
      const atMs = Math.floor(Date.now() / 1000) * 1000 + 1900
      const { feed, claims } = await withTasks({ at: new Date(atMs) })
      await feed.open(() => {})
      await until('the task is claimed', async () => {
        const [ref] = feed.take(1)
        if (ref === undefined) return false
        const claim = await claims.claim(ref)
        if ('kind' in claim) feed.report({ returned: [claim] })
        return !('kind' in claim)
      })
      assert.ok(Date.now() >= atMs, `${atMs - Date.now()} ms early`)
    })

    it('parks a task that may not run now until its reason ends', async () => {
      const { feed, claims } = await withTasks({}, {})
      await feed.open(() => {})
      const [one = '', two = ''] = feed.take(2)
      const release = async (ref: string, reason: FeedReason) =>
        claims.release(await claimOf(claims, ref), reason)
      feed.report({ returned: [await release(one, 'paused'), await release(two, 'unknown-name')] })
      assert.deepEqual(countsOf(feed), { ready: 0, busy: 0, waiting: 2 })
      assert.deepEqual([feed.state.parked.paused, feed.state.parked.alone], [1, 0])
      assert.deepEqual([...feed.take(9), ...feed.take(9, 'alone')], [])
      feed.changed('paused')
      await until('the task is ready', () => feed.state.ready === 1)
      assert.equal(feed.take(9).length, 1)
      assert.deepEqual(countsOf(feed), { ready: 0, busy: 1, waiting: 1 })
    })

    it('gives a parked task once to those who ask for its reason, and to anybody once it is lost', async () => {
      const { feed, claims } = await withTasks({}, {})
      await feed.open(() => {})
      const refs = feed.take(1)
      const [ref = ''] = refs
      feed.report({ returned: [await claims.release(await claimOf(claims, ref), 'alone')] })
      const parked = feed.take(9, 'alone')
      assert.equal(parked.length, 1)
      assert.deepEqual(feed.take(9, 'alone'), [])
      assert.equal(feed.state.busy, 1)
      feed.lose({ refs: parked })
      const again: Ref[] = []
      await until('both are given again', () => again.push(...feed.take(9)) >= 2) // a feed of counts may look once more
      assert.equal(again.length, 2)
    })

    it('brings back all parked tasks, however many there are', async () => {
      const COUNT = 1100
      const { feed, claims } = await withTasks(...Array.from({ length: COUNT }, () => ({})))
      await feed.open(() => {})
      const park = async (refs: readonly Ref[]) => {
        for (const ref of refs)
          feed.report({ returned: [await claims.release(await claimOf(claims, ref), 'alone')] })
      }
      await park(feed.take(COUNT))
      assert.equal(feed.state.parked.alone, COUNT)
      let taken = 0
      await until('all were given', async () => {
        taken += feed.take(COUNT, 'alone').length
        await park(feed.take(COUNT))
        return taken >= COUNT
      })
      const { ready, busy } = countsOf(feed) // on a busy machine the first locks in Redis may have run out, and wait
      assert.deepEqual({ ready, busy }, { ready: 0, busy: COUNT })
    })

    it('is not drained while a task waits to run alone, but is while tasks wait for people', async () => {
      for (const [reason, isDrained] of [
        ['alone', false],
        ['paused', true],
        ['unknown-name', true],
      ] as const) {
        const { feed, claims } = await withTasks({})
        await feed.open(() => {})
        const [ref = ''] = feed.take(1)
        feed.report({ returned: [await claims.release(await claimOf(claims, ref), reason)] })
        if (isDrained) await until('the feed is drained', () => feed.state.isDrained)
        assert.equal(feed.state.isDrained, isDrained, reason)
      }
    })

    it('is not drained while a task is to run again at once', async () => {
      const { feed, claims } = await withTasks({})
      await feed.open(() => {})
      const [ref = ''] = feed.take(1)
      const claim = await claimOf(claims, ref)
      await claims.begin(claim, 'alone')
      feed.report({ returned: [await claims.settle(claim, { kind: 'retry', delayMs: 0 }, 1)] })
      assert.equal(feed.state.isDrained, false)
      await until('the task is given again', () => feed.take(1).length === 1)
    })

    it('is drained when nothing is due and nothing is with a worker', async () => {
      const { feed, claims } = await withTasks({}, {})
      assert.equal(feed.state.isDrained, false)
      await feed.open(() => {})
      assert.equal(feed.state.isDrained, false)
      const refs = feed.take(10)
      assert.equal(feed.state.isDrained, false)
      for (const ref of refs) {
        const claim = await claimOf(claims, ref)
        await claims.begin(claim, 'alone')
        await claims.settle(claim, OK, 1)
      }
      assert.equal(feed.state.isDrained, false)
      feed.report({ done: refs })
      await until('the feed is drained', () => feed.state.isDrained)
    })

    it('reports how many tasks of which priority are due, the oldest, the parked ones, and when the next one is due', async () => {
      const before = Date.now()
      const { feed, claims, store } = await withTasks(
        {},
        { priority: 9 },
        { priority: 3 },
        {},
        { priority: 9 },
      )
      await feed.open(() => {})
      const { priorities, oldestDueMs, ...counted } = feed.stats()
      assert.deepEqual(priorities, [
        { priority: '3', due: 1 },
        { priority: '9', due: 2 },
        { priority: null, due: 2 },
      ])
      assert.ok(Math.abs((oldestDueMs ?? 0) - before) < 60_000, `${oldestDueMs}`)
      const { ready, busy, waiting, isWhole, tasks, parked } = counted
      assert.deepEqual([ready, busy, waiting, isWhole, tasks, parked], [5, 0, 0, true, 5, {}])

      const atMs = Math.ceil(Date.now() / 1000) * 1000 + 60_000
      const later = await store(9, { at: new Date(atMs) })
      feed.look({ stored: later.path })
      await until('the task is known', () => feed.state.ready === 6 || feed.stats().nextDueMs === atMs)
      const given = feed.take(10)
      for (const [i, ref] of given.entries()) {
        const claim = await claims.claim(ref)
        if ('kind' in claim) feed.report({ returned: [claim] })
        else feed.report({ returned: [await claims.release(claim, i === 0 ? 'alone' : 'paused')] })
      }
      const after = feed.stats()
      assert.deepEqual([after.ready, after.busy, after.waiting], [0, 0, 6])
      assert.deepEqual([after.parked, after.nextDueMs], [{ alone: 1, paused: 4 }, atMs])
    })

    it('calls no listener once it is closed', async () => {
      const { feed, store } = await withTasks()
      let calls = 0
      await feed.open(() => calls++)
      feed.close()
      const before = calls
      feed.look({ stored: (await store(1)).path })
      feed.look()
      feed.look({ everyMs: 1 })
      await new Promise(setImmediate)
      assert.equal(calls, before)
    })
  })
}

function countsOf({ state: { ready, busy, waiting } }: Source): Counts {
  return { ready, busy, waiting }
}

import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { OK } from '#src/base/task/outcome.js'
import { TASK_STATES } from '#src/engines/spool/admin/task-view.js'
import { lastValue } from '#src/formats/protocol/vars.js'
import { requestFrom } from '../../helpers/request.js'
import { until } from '../../helpers/until.js'
import { ENGINES, FOREIGN, refsOf, type TestSpool } from './engines.js'

/** Runs tasks as a master and its worker do, until two have run. @returns what else was reported */
async function runTwo(spool: TestSpool): Promise<string[]> {
  const events = new Emitter()
  const told: string[] = []
  events.on('spool-unreachable', ({ error }) => told.push(`unreachable: ${error}`))
  const feed = spool.feed(events)
  after(() => feed.close()) // an open one keeps the process alive
  await feed.open(() => {})
  const claims = await spool.claims()
  const ran: unknown[] = []
  await until('both have run', async () => {
    const refs = feed.take(8)
    for (const [i, ref] of refs.entries()) {
      const claim = await claims.claim(ref)
      if ('kind' in claim) {
        if (claim.kind === 'unreadable') told.push(`${claim.kind}: ${claim.detail}`)
        feed.report({ returned: [claim] })
        continue
      }
      assert.equal(await claims.begin(claim, 'alone'), undefined)
      ran.push(lastValue(claim.vars, 'n'))
      await claims.settle(claim, OK, 1, refs[i + 1])
      feed.report({ done: [ref] })
    }
    feed.look()
    return ran.length === 2
  })
  assert.deepEqual(ran, ['1', '2'])
  return told
}

async function listed(store: Awaited<ReturnType<NonNullable<TestSpool['store']>>>) {
  const found = []
  for await (const task of store.views({ states: TASK_STATES, mayHave: () => true })) found.push(task)
  return found
}

for (const [engine, open] of Object.entries(ENGINES))
  describe(`a foreign entry in a spool of the ${engine} engine`, { concurrency: 4 }, () => {
    for (const what of FOREIGN[engine] ?? [])
      it(`stops nothing and can be removed: ${what}`, async () => {
        const spool = open({ leaseMs: 1500 })
        const { foreign: planted = {}, store: openStore = () => assert.fail() } = spool
        await spool.enqueuer.store(requestFrom({ n: 1 }, { priority: 1 })) // the next one, fetched when this one ends, is foreign
        await spool.enqueuer.store(requestFrom({ n: 2 }, { priority: 9 }))
        await planted[what]?.()
        for (const task of await listed(await openStore())) assert.ok(TASK_STATES.includes(task.state))
        await spool.upkeep().stats()
        assert.deepEqual(await runTwo(spool), [], 'nobody is told that the spool cannot be read')
        await spool.upkeep().stats()
        const store = await openStore()
        await store.pauses()
        await store.readAudit(9)
        const left = await until('nothing counts as running', async () => {
          const found = await listed(store)
          return found.some(({ state }) => state === 'running') ? undefined : found
        })
        assert.ok(left.length <= 1, 'the entry counts as at most one task')
        for (const task of left) {
          assert.equal(task.file.vars, undefined)
          await store.list(
            {
              ...{ states: undefined, sort: 'age', isReversed: true, limit: 9, mayHave: () => true },
              ...{ has: () => true, failed: (_, error) => assert.fail(String(error)) },
            },
            () => true,
          )
        }
        await spool.upkeep().purge({ maxAgeMs: null, maxCount: 0 })
        for (const task of await listed(store)) await store.change(task, { kind: 'remove' })
        assert.deepEqual(await listed(store), [])
        assert.deepEqual(await refsOf(spool), [])
      })
  })

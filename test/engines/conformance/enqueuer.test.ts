import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Stored } from '#src/base/task/request.js'
import type { Claim } from '#src/engines/claims.js'
import { requestFrom } from '../../helpers/request.js'
import { claimOf, ENGINES, refsOf, type TestSpool } from './engines.js'

const failing = async function* () {
  yield Buffer.from('half')
  throw new Error('no more')
}

async function bodiesIn(spool: TestSpool): Promise<string[]> {
  const claims = await spool.claims()
  const held: Claim[] = []
  for (const ref of await refsOf(spool)) held.push(await claimOf(claims, ref))
  const bodies = held.map(claim => String(claim.readBody() ?? ''))
  for (const claim of held.reverse()) await claims.release(claim)
  return bodies
}

for (const [engine, open] of Object.entries(ENGINES))
  describe(`the enqueuer of the ${engine} engine`, () => {
    it('stores bodies that are bytes or streams', async () => {
      const spool = open()
      await spool.enqueuer.store(requestFrom({}, { body: 'bytes' }))
      const stream = (async function* () {
        yield Buffer.from('a ')
        yield Buffer.from('stream')
      })()
      await spool.enqueuer.store(requestFrom({}, { body: stream }))
      assert.deepEqual(await bodiesIn(spool), ['bytes', 'a stream'])
    })

    it('stores an id once, and reports the second one as a duplicate', async () => {
      const spool = open()
      const first = await spool.enqueuer.store(requestFrom({}, { id: 'one', body: 'first' }))
      const second = await spool.enqueuer.store(requestFrom({}, { id: 'one', body: 'second' }))
      assert.deepEqual([first.isDuplicate, second.isDuplicate], [false, true])
      assert.equal(second.path, first.path)
      assert.deepEqual(await bodiesIn(spool), ['first'])
    })

    it('leaves nothing of a task that cannot be stored', async () => {
      const spool = open()
      await assert.rejects(spool.enqueuer.store(requestFrom({}, { body: failing() })), /no more/)
      assert.deepEqual(await bodiesIn(spool), [])
    })

    it('stores many tasks in their order, each with its own result', async () => {
      const spool = open()
      const requests = ['a', failing(), 'b'].map(body => requestFrom({}, { body }))
      const results = await spool.enqueuer.storeAll(requests)
      assert.deepEqual(
        results.map(result => 'stored' in result),
        [true, false, true],
      )
      assert.deepEqual(await bodiesIn(spool), ['a', 'b'])
    })

    it('stores none of many tasks if one fails and all or nothing is asked for', async () => {
      const spool = open()
      const requests = ['a', failing(), 'b'].map(body => requestFrom({}, { body }))
      const results = await spool.enqueuer.storeAll(requests, true)
      assert.deepEqual(
        results.map(result => 'stored' in result),
        [false, false, false],
      )
      assert.deepEqual(await bodiesIn(spool), [])
    })

    it('stores the same by storeSync() and storeAtOnce(), where it has them', async () => {
      const spool = open()
      const stored: Array<Stored | undefined> = [
        spool.enqueuer.storeSync?.(requestFrom({}, { body: 'now' })),
        spool.enqueuer.storeAtOnce?.(requestFrom({}, { body: 'now' })),
      ]
      const bodies = await bodiesIn(spool)
      assert.equal(bodies.length, stored.filter(each => each !== undefined).length)
      assert.ok(bodies.every(body => body === 'now'))
    })
  })

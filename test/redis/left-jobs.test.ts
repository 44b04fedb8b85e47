import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { LastRun } from '#src/base/task/last-run.js'
import type { Connection } from '#src/engines/redis/connection.js'
import { LeftJobs } from '#src/engines/redis/left-jobs.js'
import { Tickets } from '#src/engines/redis/tickets.js'
import { NOTHING_SEEN } from '#src/engines/redis/view.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')

/** A connection to a Redis that has no job. */
const CONNECTION = {
  lockMs: 20,
  reach: async () => {},
  address: { prefix: 'bull', queue: 'q' },
  key: (type: string) => `bull:q:${type}`,
  run: async (name: string) => (name === 'heldBy' ? [] : 0),
} as unknown as Connection

describe('the memory of a master on Redis', () => {
  it('keeps the last run of a lost job only until its lock is over, even while one worker after another dies', async t => {
    let now = 1e6
    t.mock.method(performance, 'now', () => now)
    const left = new LeftJobs(CONNECTION)
    const cutShort = async () => {
      const lastRun: LastRun = { kind: 'crash', cause: 'it exited' }
      await left.cutShort({ id: '1', token: 'w.1', task: undefined }, lastRun)
      return new WeakRef(lastRun)
    }
    left.add(['w'])
    const lastRun = await cutShort()
    for (let other = 1; other < 5; other++) {
      now += 15
      left.add([`w${other}`])
      await turn()
    }
    gc()
    assert.equal(lastRun.deref(), undefined)
    left.close()
  })

  it('keeps no ticket for a queue that is gone', () => {
    const tickets = new Tickets('t')
    const [own] = NOTHING_SEEN.queues
    const limited = { ...(own ?? assert.fail()), task: 'few', limit: 1, due: 1 }
    tickets.see({ ...NOTHING_SEEN, queues: [limited] })
    const [ref = assert.fail()] = tickets.take(1)
    assert.ok(tickets.isUnclaimed(ref))
    tickets.see({ ...NOTHING_SEEN, queues: [] })
    tickets.takeBack(ref, false)
    assert.ok(!tickets.isUnclaimed(ref))
  })
})

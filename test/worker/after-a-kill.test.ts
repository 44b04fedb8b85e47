import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ReportKind } from '#src/base/task/report.js'
import { SETTLE_PAST, type WorkerOptions } from '#src/runtime/ipc/messages.js'
import { answerAside } from '#src/runtime/worker/after-a-kill.js'
import { openEngine } from '../helpers/engine.js'
import { drop, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

const CANCELLED = { kind: 'cancelled', detail: 'it was cancelled' } as const

/** Returns what is found of a task whose first `tries` claims end with `kind`. */
async function foundAfter(tries: number, kind: ReportKind) {
  const spool = spoolDirectory()
  drop(spool, 'task', packet({ n: '1' }))
  const claims = await openEngine(spool)
  const claim = claims.claim.bind(claims)
  claims.claim = (ref, lastRun) => (tries-- > 0 ? { ref, kind, ranMs: 0 } : claim(ref, lastRun))
  const options = { spool, chain: [], hide: [] } as unknown as WorkerOptions
  const tasks = [{ ref: 'task', lastRun: CANCELLED }]
  const engine = { claims: async () => claims }
  const args = [options, tasks]
  const answer = await answerAside({ type: 'do-aside', id: 7, name: SETTLE_PAST, spool, args }, () => engine)
  return 'value' in answer ? answer.value : answer
}

describe('a task after a kill', () => {
  for (const kind of ['locked', 'untouched', 'unreadable'] as const)
    it(`that is ${kind} is claimed again for a while, and reported as ${kind} if it stays so`, async () => {
      assert.deepEqual(await foundAfter(3, kind), [null])
      assert.deepEqual(await foundAfter(Number.POSITIVE_INFINITY, kind), [{ ref: 'task', kind, ranMs: 0 }])
    })

  it('that is gone is reported as such at once', async () => {
    assert.deepEqual(await foundAfter(1, 'gone'), [{ ref: 'task', kind: 'gone', ranMs: 0 }])
  })
})

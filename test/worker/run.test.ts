import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Run } from '#src/runtime/worker/run.js'
import { claimOf, ENGINES, refsOf } from '../engines/conformance/engines.js'
import { requestFrom } from '../helpers/request.js'
import { until } from '../helpers/until.js'

it('the signal of a run fires before the mercy of a reload ends, also if a stop with a longer mercy follows', async () => {
  const spool = ENGINES.directory?.() ?? assert.fail()
  await spool.enqueuer.store(requestFrom({}))
  const [ref = ''] = await refsOf(spool)
  const run = new Run(await claimOf(await spool.claims(), ref), 1, { harakiriMs: 0, isKilled: true })
  run.setMercy(100)
  run.setMercy(3_600_000)
  const { signal } = run
  await until('the signal fires', () => signal.aborted)
  assert.match(String(signal.reason), /the mercy of a stop ends/)
  run.end()
})

import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { planSpools } from '#src/doors/daemon/spool-plan.js'
import { workspace } from '../helpers/workspace.js'
import { checkGiven } from '../ini/reading.js'

it('the plan for the handlers of each of 20 spools names no spool, so that 2,000 plans do not hold 2,000 names each', async () => {
  const known = Array.from({ length: 20 }, (_, i) => join(workspace(), `spool-${i}`))
  for (const spool of known) mkdirSync(spool)
  const lines = ['[uwsgi]', 'import = os', ...known.map(spool => `spooler = ${spool}`)]
  const config = checkGiven({ files: { 'app.ini': `${lines.join('\n')}\n` } })
  const spools = config.spools.map(each => ({ ...each, spool: each.directory }))
  const questions = { answer: () => assert.fail('nobody asks') }
  const context = { events: new Emitter(), questions, targets: [], known, log: { fd: 2 }, spare: undefined }
  const plans = await planSpools(spools, config, context)
  assert.deepEqual(
    plans.map(({ pool }) => known.filter(spool => JSON.stringify(pool.worker.chain).includes(`${spool}"`))),
    known.map(() => []),
  )
})

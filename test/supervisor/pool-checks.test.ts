import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Emitter } from '#src/events/emitter.js'
import { PoolChecks } from '#src/supervisor/pool-checks.js'
import type { SizeOptions } from '#src/supervisor/pool-options.js'
import { loadAlgorithm } from '#src/supervisor/scaling/algorithms.js'
import { closePools, type PoolSettings, poolOf } from '../helpers/pool.js'
import { OPTIONS } from '../helpers/scaling.js'
import { spoolDirectory } from '../helpers/workspace.js'

afterEach(closePools)

const NO_LIMIT = { everyMs: 60_000, softRssBytes: 0, hardRssBytes: 0 }
const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length

/** How many timers the checks have for a pool like this. */
function timersFor(settings: PoolSettings, options = NO_LIMIT): number {
  const { pool } = poolOf(spoolDirectory(), '', settings)
  const checks = new PoolChecks(new Emitter(), () => [pool])
  const before = timers()
  checks.serve(options)
  const more = timers() - before
  checks.stop()
  assert.equal(timers(), before)
  return more
}

async function adaptive(): Promise<Partial<SizeOptions>> {
  const algorithm = await loadAlgorithm('manual')
  return { scaling: { algorithm, options: OPTIONS, initial: 1, wantsTimes: false } }
}

describe('the checks of pools', () => {
  it('tick only where an option needs it', async () => {
    assert.equal(timersFor({}), 0)
    assert.equal(timersFor({ size: { startsCheap: true, idleMs: 500 } }), 0)
    assert.equal(timersFor({ size: await adaptive() }), 1)
    assert.equal(timersFor({ limits: { lifetimeMs: 1000 } }), 1)
    assert.equal(timersFor({ limits: { evilRssBytes: 1 } }), 1)
    assert.equal(timersFor({ limits: { evilVszBytes: 1 } }), 1)
    assert.equal(timersFor({}, { ...NO_LIMIT, softRssBytes: 1 }), 1)
  })
})

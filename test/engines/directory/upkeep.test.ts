import assert from 'node:assert/strict'
import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { RETRY } from '#src/base/task/outcome.js'
import { DirectoryUpkeep } from '#src/engines/directory/upkeep.js'
import { beginOf, openEngine } from '../../helpers/engine.js'
import { drop, packet } from '../../helpers/files.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

describe('the upkeep of a directory', () => {
  it('forgets the failed runs of a file that somebody removed, once its record is old enough', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ n: '1' }))
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, 'a'), RETRY, 1)
    unlinkSync(join(spool, 'a'))
    const upkeep = new DirectoryUpkeep(spool)
    assert.equal(await upkeep.forget(60_000), 0)
    await until('the record is old enough', async () => (await upkeep.forget(1)) === 1)
  })
})

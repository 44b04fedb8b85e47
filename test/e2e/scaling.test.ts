import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/control/client.js'
import {
  assertWhole,
  checks,
  present,
  processesOf,
  put,
  scaledTo,
  startScaled as start,
  stop,
} from '../helpers/adaptive.js'
import { controlOf, spoolSnapshotOf } from '../helpers/control.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('adaptive processes', () => {
  it('grow by the step to the maximum under a spike, and go to the minimum when it is over', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { cheaper: 1, workers: 4, 'cheaper-step': 2, 'cheaper-overload': 2 })
    assert.equal(await present(spool), 1)
    const names = put(spool, 150, { ms: '20' })
    await until('there are four', async () => (await present(spool)) === 4)
    const { size } = await processesOf(spool)
    assert.deepEqual([size.algorithm, size.minimum, size.maximum, size.isByHand], ['spare', 1, 4, false])
    await until('all have run', () => leftIn(spool).length === 0)
    await until('there is one', async () => daemon.children().length === 1)
    const changes = scaledTo(daemon)
    assert.ok(changes.every(([from = 0, to = 0]) => to <= 4 && to >= 1 && to - from <= 2 && to - from >= -1))
    assert.deepEqual(changes.at(-1), [2, 1])
    assertWhole(daemon, names)
    await daemon.waitFor(/\] 3 processes, not 1: all 1 busy for 3 ticks \(spare\)/)
    await daemon.waitFor(/cheaped after \d+(\.\d+)? s idle/)
    assert.doesNotMatch(daemon.output, /OOOPS/)
    await stop(daemon)
  })

  it('do not grow for a paused spool, or for tasks that are not due', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, {
      cheaper: 1,
      workers: 4,
      'cheaper-overload': 3,
      'cheaper-algo': 'cheaper',
    })
    await daemon.waitFor(/unable to find requested cheaper algorithm, falling back to spare/)
    put(spool, 2000, {}, Date.now() / 1000 + 3600)
    await until('they are known', async () => (await spoolSnapshotOf(spool)).tasks.waiting === 2000)
    await askDaemon(controlOf(spool), 'quiet', {})
    put(spool, 20, { ms: '1' })
    await until('they are known', async () => (await spoolSnapshotOf(spool)).tasks.due === 20)
    await until('many checks have passed', checks(20))
    assert.deepEqual(scaledTo(daemon), [])
    await askDaemon(controlOf(spool), 'unquiet', {})
    await until('those run', () => leftIn(spool).length === 2000)
    await stop(daemon)
  })

  it('of all algorithms and options, start as cheaper-initial says', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, {
      cheaper: 1,
      workers: 5,
      'cheaper-initial': 3,
      'cheaper-algo': 'manual',
    })
    await until('three are present', async () => (await present(spool)) === 3)
    await until('many checks have passed', checks(10))
    assert.deepEqual(scaledTo(daemon), [])
    await stop(daemon)
  })
})

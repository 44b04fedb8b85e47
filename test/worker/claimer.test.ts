import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { UNBEGUN } from '#src/base/task/outcome.js'
import type { Report } from '#src/base/task/report.js'
import { ClaimedTask } from '#src/engines/spool/claims/claimed-task.js'
import { BESIDE, ONCE, STARTED } from '#src/engines/spool/state-byte.js'
import { Claimer } from '#src/runtime/worker/claimer.js'
import { beginOf, claimOf, crash, openEngine } from '../helpers/engine.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const ANY = Number.POSITIVE_INFINITY

/** A queue of these tasks; `once` is delivered at most once, and `suspect` must be alone. */
async function queueOf(...names: readonly string[]) {
  const spool = spoolDirectory()
  for (const name of names)
    drop(spool, name, packet(name.startsWith('once') ? { spooler_delivery: 'at-most-once' } : { n: name }))
  for (const name of names.filter(each => each.startsWith('suspect'))) {
    beginOf(await openEngine(spool), name, 'beside')
    crash(spool, name)
  }
  const engine = await openEngine(spool)
  const reports: Array<Pick<Report, 'ref' | 'kind'>> = []
  const ahead = new Claimer({
    claims: engine,
    isConcurrent: false,
    harakiriMs: 0,
    isKilled: true,
    announce: () => assert.fail('a claim of a directory has no notice'),
    refused: (_number, { ref, kind }) => reports.push({ ref, kind }),
    released() {},
  })
  const last = names.length - 1
  ahead.push(
    names.map((ref, number) => ({
      number,
      ref,
      lastRun: undefined,
      isLast: number === last,
      isItsTurn: false,
    })),
  )
  const stateOf = (name: string) => readFileSync(join(spool, name))[3]
  /** At once, or after the messages of a busy machine. */
  const next = async (isIdle: boolean) =>
    (await ahead.next(ANY, isIdle, performance.now())).map(({ claim }) => claim)
  return { spool, engine, ahead, reports, stateOf, next }
}

describe('what is claimed for several runs at a time', () => {
  it('begins beside others when it is sent with others, or behind others', async () => {
    await until('two were claimed in time for one message', async () => {
      const { next, stateOf, ahead } = await queueOf('a', 'b')
      if ((await next(true)).length === 1) return false // on a busy machine
      assert.deepEqual([stateOf('a'), stateOf('b')], [STARTED | BESIDE, STARTED | BESIDE])
      assert.equal(ahead.isAlone, false)
      return true
    })
    const behind = await queueOf('c')
    assert.equal((await behind.next(false)).length, 1)
    assert.equal(behind.stateOf('c'), STARTED | BESIDE)
  })

  it('begins alone when it is the only one, and then nothing is to be sent behind it', async () => {
    const { next, stateOf, ahead } = await queueOf('a')
    assert.equal((await next(true)).length, 1)
    assert.equal(stateOf('a'), STARTED)
    assert.equal(ahead.isAlone, true)
  })

  for (const [name, before, state] of [
    ['once', 0, STARTED | ONCE],
    ['suspect', STARTED | BESIDE, STARTED],
  ] as const) {
    it(`waits without a mark behind others, and is sent alone (${name})`, async () => {
      const { next, stateOf, ahead, engine } = await queueOf('a', name, 'b')
      const first = await next(true)
      assert.deepEqual(
        first.map(({ ref }) => ref),
        ['a'],
      )
      assert.equal(stateOf(name), before, 'it has not begun')
      assert.equal(ahead.isAlone, true, 'nothing is sent behind what runs')
      for (const claim of first) {
        assert.ok(claim instanceof ClaimedTask)
        engine.settle(claim, UNBEGUN, 0)
      }
      assert.deepEqual(
        (await next(true)).map(({ ref }) => ref),
        [name],
      )
      assert.equal(stateOf(name), state)
      assert.equal(stateOf('b'), 0)
    })

    it(`is handed back as it was, and others may have it at once (${name})`, async () => {
      const { spool, next, stateOf, ahead, reports } = await queueOf('a', name, 'b')
      await next(true)
      ahead.drop()
      assert.deepEqual(reports, [
        { ref: name, kind: 'untouched' },
        { ref: 'b', kind: 'untouched' },
      ])
      assert.equal(stateOf(name), before)
      assert.equal(claimOf(await openEngine(spool), name).attempt, 1)
    })
  }
})

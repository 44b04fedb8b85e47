import assert from 'node:assert/strict'
import { readFileSync, statSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { OK, RETRY, UNBEGUN } from '#src/base/task/outcome.js'
import { BESIDE, ONCE, RECORDED, STARTED } from '#src/engines/spool/state-byte.js'
import { beginOf, claimOf, crash, openEngine, refusalOf } from '../../helpers/engine.js'
import { drop, leftIn, packet } from '../../helpers/files.js'
import { CHANGING_CALLS, errnoError, hookFs } from '../../helpers/fs-hooks.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const LONG_AGO = 1_000_000_000
const HARMLESS: readonly string[] = ['openSync', 'readSync']

const stateOf = (spool: string) => readFileSync(join(spool, NAME))[3] ?? 0

describe('a claim that does not begin', () => {
  for (const [what, prepare] of [
    ['of a task that never ran', () => {}],
    ['of a task that failed before', RETRY],
  ] as const)
    it(`${what}, writes nothing when it is made or released`, async () => {
      const spool = spoolDirectory()
      const path = drop(spool, NAME, packet({ a: 'b' }), LONG_AGO)
      const engine = await openEngine(spool)
      if (typeof prepare !== 'function') {
        engine.settle(beginOf(engine, NAME), prepare, 0)
        utimesSync(path, LONG_AGO, LONG_AGO)
      }
      const [before, bytes] = [statSync(path), readFileSync(path, 'hex')]
      const calls: string[] = []
      const restore = hookFs(CHANGING_CALLS, (name, _, proceed) => {
        calls.push(name)
        return proceed()
      })
      const claim = claimOf(engine, NAME)
      assert.deepEqual(engine.release(claim), { ref: NAME, ranMs: 0, kind: 'untouched' })
      restore()
      assert.deepEqual(
        calls.filter(call => !HARMLESS.includes(call)),
        [],
      )
      const { mtimeMs, ctimeMs } = statSync(path)
      assert.deepEqual([mtimeMs, ctimeMs], [before.mtimeMs, before.ctimeMs])
      assert.equal(readFileSync(path, 'hex'), bytes)
      engine.settle(beginOf(engine, NAME), OK, 0)
      assert.deepEqual(leftIn(spool), [])
    })

  it('counts for nothing when its process dies, even for a task that is delivered at most once', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ spooler_delivery: 'at-most-once' }), LONG_AGO)
    assert.equal(claimOf(await openEngine(spool), NAME).isOnce, true)
    crash(spool, NAME)
    assert.equal(claimOf(await openEngine(spool), NAME).attempt, 1)
  })

  it('counts for nothing, unlike a crash, even if others read the file all the time', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ a: 'b' }), LONG_AGO)
    for (let n = 1; n <= 5; n++) {
      readFileSync(path) // a backup
      const engine = await openEngine(spool)
      const claim = claimOf(engine, NAME)
      assert.deepEqual([claim.attempt, claim.mustBeAlone], [1, false])
      engine.release(claim)
    }
    beginOf(await openEngine(spool), NAME)
    crash(spool, NAME)
    assert.equal(claimOf(await openEngine(spool), NAME).record?.crashes, 1)
  })
})

describe('a look at a task that is not due', () => {
  it('is no start: a later crash counts once, however new the file is', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ at: String(Date.now() / 1000 + 0.3) }))
    assert.equal(refusalOf(await openEngine(spool), NAME).kind, 'later')
    await new Promise(due => setTimeout(due, 320))
    beginOf(await openEngine(spool), NAME)
    crash(spool, NAME)
    assert.equal(claimOf(await openEngine(spool), NAME).record?.crashes, 1)
  })
})

describe('a run that began beside others', () => {
  it('counts for no task when its process dies; the next run is alone, and counts', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    beginOf(await openEngine(spool), NAME, 'beside')
    assert.equal(stateOf(spool), STARTED | BESIDE)
    crash(spool, NAME)
    const engine = await openEngine(spool)
    const suspect = claimOf(engine, NAME)
    assert.deepEqual([suspect.mustBeAlone, suspect.attempt], [true, 1])
    engine.release(suspect)
    assert.equal(stateOf(spool), STARTED | BESIDE, 'it still has to be alone')
    beginOf(engine, NAME, 'alone')
    assert.equal(stateOf(spool), STARTED)
    crash(spool, NAME)
    const claim = claimOf(await openEngine(spool), NAME)
    assert.deepEqual(
      [claim.mustBeAlone, claim.record?.crashes, claim.attempt],
      [true, 1, 2],
      'the task does not run beside others again',
    )
  })

  it('leaves no mark if it was withdrawn before the handler was called', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ a: 'b' }), LONG_AGO)
    const engine = await openEngine(spool)
    assert.equal(engine.settle(beginOf(engine, NAME, 'beside'), UNBEGUN, 0).kind, 'untouched')
    assert.equal(stateOf(spool), 0)
    assert.equal(claimOf(engine, NAME).mustBeAlone, false)
  })

  it('is marked as at most once, not as beside others, if its task is delivered at most once', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ spooler_delivery: 'at-most-once' }))
    beginOf(await openEngine(spool), NAME, 'beside')
    assert.equal(stateOf(spool), STARTED | ONCE)
  })
})

describe('a run whose mark cannot be written', () => {
  it('does not begin, is reported, and leaves the task as it was', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ a: 'b' }), LONG_AGO)
    const engine = await openEngine(spool)
    const claim = claimOf(engine, NAME)
    const restore = hookFs(['writeSync'], (call, [fd]) => {
      throw errnoError('ENOSPC', call, fd)
    })
    const report = engine.begin(claim, 'alone')
    restore()
    assert.equal(report?.kind, 'unreadable')
    assert.match(report.detail ?? '', /was not started, because its run cannot be marked in its file: ENOSPC/)
    assert.equal(statSync(path).mtimeMs, LONG_AGO * 1000)
    assert.equal(claimOf(engine, NAME).attempt, 1, 'it was released')
  })
})

describe('a failed run that cannot be counted', () => {
  it('keeps its mark, and its task runs again only once the run has been counted', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine, NAME)
    const inTheWay = join(spool, '.spoold')
    writeFileSync(inTheWay, 'in the way')
    const report = engine.settle(claim, RETRY, 0)
    assert.match(report.detail ?? '', /cannot be counted, and it does not run before that is done/)
    assert.equal(stateOf(spool), STARTED)
    assert.ok(statSync(path).mtimeMs > Date.now() + 25_000)
    utimesSync(path, LONG_AGO, LONG_AGO)
    assert.equal(refusalOf(engine, NAME).kind, 'unreadable')
    unlinkSync(inTheWay)
    utimesSync(path, LONG_AGO, LONG_AGO)
    const next = claimOf(engine, NAME)
    assert.equal(next.attempt, 2)
    engine.release(next)
    assert.equal(stateOf(spool), RECORDED)
  })
})

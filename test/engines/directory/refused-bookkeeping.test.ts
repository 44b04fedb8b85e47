import assert from 'node:assert/strict'
import { existsSync, readFileSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { toOutcome } from '#src/base/task/answer.js'
import { OK, type Outcome, RETRY } from '#src/base/task/outcome.js'
import { openTaskStore } from '#src/engines/open-engine.js'
import { DeadLetters } from '#src/engines/spool/dead-letters.js'
import { beginOf, openEngine, POLICY } from '../../helpers/engine.js'
import { drop, leftIn, packet } from '../../helpers/files.js'
import { CHANGING_CALLS, errnoError, hookFs } from '../../helpers/fs-hooks.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const LONG_AGO = 1_000_000_000
const BURY = toOutcome({ bury: 'no such customer' })

const stateOf = (spool: string) => readFileSync(join(spool, NAME))[3] ?? 0

let unhook = () => {}
afterEach(() => unhook())

/** Simulates a disk on which nothing can be made, renamed or removed, and files can be changed in place unless `alsoInPlace`. */
function refuse(alsoInPlace = false): void {
  unhook = hookFs(CHANGING_CALLS, (name, [path, bytes], proceed) => {
    const isByte = name === 'writeSync' && Buffer.isBuffer(bytes) && bytes.length === 1
    const isHarmless = name === 'readSync' || name === 'fsyncSync' || name === 'fdatasyncSync'
    const isInPlace = isByte || name === 'futimesSync'
    const isRead = name === 'openSync' && String(path).endsWith(NAME)
    if (isHarmless || isRead || (isInPlace && !alsoInPlace)) return proceed()
    throw errnoError('ENOSPC', name, path)
  })
}

/** Makes the task due, however often it was put off. */
const touch = (spool: string) => utimesSync(join(spool, NAME), LONG_AGO, LONG_AGO)

describe('on a disk that takes no bookkeeping', () => {
  for (const [delivery, done, buried] of [
    ['at-least-once', 0x82, 0xc0],
    ['at-most-once', 0x92, 0xd0],
  ] as const) {
    const vars = { spooler_delivery: delivery }

    it(`a task that ended with SPOOL_OK does not run again (${delivery})`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME, packet(vars))
      const engine = await openEngine(spool)
      const claim = beginOf(engine, NAME)
      refuse()
      const report = engine.settle(claim, OK, 0)
      assert.equal(report.kind, 'unsettled')
      assert.match(
        report.detail ?? '',
        /^has finished, but its file cannot be removed, it will not run again: ENOSPC/,
      )
      unhook()
      assert.equal(stateOf(spool), done)
      assert.ok(!existsSync(join(spool, '.spoold/records')), 'a finished task needs no record')
      refuse()
      for (let n = 1; n <= 3; n++) {
        unhook()
        touch(spool)
        refuse()
        const refusal = (await openEngine(spool)).claim(NAME)
        assert.ok('kind' in refusal, 'the task is refused, so it does not run again')
        assert.equal(refusal.kind, 'unreadable')
      }
      unhook()
      const last = (await openEngine(spool)).claim(NAME)
      assert.equal('kind' in last && last.kind, 'gone')
      assert.deepEqual(leftIn(spool), [])
    })

    it(`a task that is to be buried does not run again (${delivery})`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME, packet(vars))
      const engine = await openEngine(spool)
      const claim = beginOf(engine, NAME)
      refuse()
      assert.equal(engine.settle(claim, BURY, 0).kind, 'unsettled')
      unhook()
      assert.equal(stateOf(spool), buried)
      for (let n = 1; n <= 3; n++) {
        touch(spool)
        refuse()
        const refusal = (await openEngine(spool)).claim(NAME)
        unhook()
        assert.equal('kind' in refusal && refusal.kind, 'later')
      }
      touch(spool)
      const last = (await openEngine(spool)).claim(NAME)
      assert.equal('kind' in last && last.kind, 'set-aside')
      assert.equal(new DeadLetters(spool).read(NAME)?.reason, 'unknown')
    })
  }

  it('a buried task is reported as buried, even if its mark cannot be taken off', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine, NAME)
    unhook = hookFs(['writeSync'], (name, [fd, bytes], proceed) => {
      if (Buffer.isBuffer(bytes) && bytes.length === 1) throw errnoError('EIO', name, fd)
      return proceed()
    })
    assert.equal(engine.settle(claim, BURY, 0).kind, 'buried')
    unhook()
    assert.deepEqual(leftIn(spool), [])
    assert.equal(new DeadLetters(spool).read(NAME)?.detail, 'no such customer')
  })

  it('the report says that a task may run again if not even its state byte can be written', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine, NAME)
    refuse(true)
    const report = engine.settle(claim, OK, 0)
    unhook()
    assert.match(
      report.detail ?? '',
      /^has finished, but its file cannot be removed, it may run again, because .*ENOSPC/,
    )
  })

  for (const [what, outcome] of [
    ['a retry', RETRY],
    ['an error', { kind: 'error', detail: 'boom' }],
  ] as const satisfies ReadonlyArray<readonly [string, Outcome]>)
    it(`${what} of an at-most-once task buries it, because the run cannot be counted`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME, packet({ spooler_delivery: 'at-most-once' }))
      const engine = await openEngine(spool)
      const claim = beginOf(engine, NAME)
      refuse()
      const report = engine.settle(claim, outcome, 0)
      assert.match(
        report.detail ?? '',
        /cannot be counted, and it is delivered at most once, so it will be buried/,
      )
      unhook()
      assert.equal(stateOf(spool), 0x90)
      touch(spool)
      const next = (await openEngine(spool)).claim(NAME)
      assert.equal('kind' in next && next.kind, 'set-aside')
      assert.equal(new DeadLetters(spool).read(NAME)?.reason, 'outcome-unknown')
    })

  for (const [maxAttempts, then] of [
    [0, 'has failed, but that run cannot be counted, and it does not run before that is done'],
    [1, 'is to be buried, but cannot be'],
  ] as const)
    it(`the report has the error of a failed task, because nothing else keeps it (spooler-max-attempts = ${maxAttempts})`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME)
      const engine = await openEngine(spool, { policy: { ...POLICY, maxAttempts } })
      const claim = beginOf(engine, NAME)
      refuse()
      const { detail = '' } = engine.settle(claim, { kind: 'error', detail: 'Error: boom\n    at here' }, 0)
      assert.ok(detail.startsWith(`${then}: ENOSPC`), detail)
      assert.ok(detail.endsWith('; the last error: Error: boom\n    at here'), detail)
    })

  for (const company of ['alone', 'beside'] as const)
    it(`a failed run (${company}) is counted at last as a failure, not as a crash`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME)
      const engine = await openEngine(spool, { frequencyMs: 200 })
      const claim = beginOf(engine, NAME, company)
      refuse()
      engine.settle(claim, RETRY, 0)
      unhook()
      const recordPath = join(spool, '.spoold/records', `${NAME}.json`)
      const deadline = Date.now() + 10_000
      for (;;) {
        const next = engine.claim(NAME)
        if (!('kind' in next)) break
        assert.ok(Date.now() < deadline, next.kind)
        // until the run is counted, its future mtime is all that tells it from a crash
        if (next.kind === 'later' && existsSync(recordPath)) touch(spool)
      }
      const record = JSON.parse(readFileSync(recordPath, 'utf8'))
      assert.deepEqual([record.attempts, record.crashes], [1, 0])
    })

  it('a moved or requeued task is reported as done, even if what it leaves behind cannot be removed', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    drop(spool, NAME)
    drop(spool, 'dead')
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, NAME), RETRY, 0)
    engine.settle(beginOf(engine, 'dead'), BURY, 0)
    const [store, target] = [await openTaskStore(spool), await openTaskStore(other)]
    const [task, dead] = await Promise.all([store.view(NAME), store.view('.spoold/dead/dead')])
    assert.ok(task !== undefined && dead !== undefined)
    unhook = hookFs(['unlinkSync'], (name, [path]) => {
      throw errnoError('EIO', name, path)
    })
    assert.equal((await store.change(task, { kind: 'move', to: target })).kind, 'done')
    assert.equal((await store.change(dead, { kind: 'requeue', keepAttempts: true })).kind, 'done')
    unhook()
    assert.deepEqual([leftIn(spool), leftIn(other)], [['dead'], [NAME]])
  })
})

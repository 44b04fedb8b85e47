import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { lastRunAt } from '#src/base/task/last-run.js'
import { LastRuns, lastRunOf } from '#src/runtime/supervisor/cut-short.js'

describe('a run that its worker’s end cut short', () => {
  const begun = { beganAt: 1000, givenAtMs: 5, lease: 'a lease' }
  const exit = { code: null, signal: 'SIGKILL', why: 'failed', isExplained: false } as const

  it('is a crash when the worker died by itself', () => {
    assert.deepEqual(lastRunOf(begun, undefined, exit), {
      kind: 'crash',
      cause: 'its process was killed by SIGKILL',
    })
    assert.deepEqual(lastRunOf(begun, undefined, { ...exit, code: 3, signal: null }), {
      kind: 'crash',
      cause: 'its process exited with code 3',
    })
  })

  it('is a crash of the task that overran, and of none beside it', () => {
    const killed = { kind: 'harakiri', at: 6000, harakiriMs: 5000, concurrency: 2 } as const
    const overran = lastRunOf(begun, killed, exit)
    assert.ok(overran.kind === 'crash')
    assert.equal(overran.cause, 'it overran spooler-harakiri (5 s)')
    assert.deepEqual(lastRunOf({ ...begun, beganAt: 1001 }, killed, exit), { kind: 'blameless' })
  })

  it('is blameless if the worker was stopped, and a crash if the task overran its own deadline', () => {
    assert.deepEqual(lastRunOf(begun, { kind: 'mercy' }, exit), { kind: 'blameless' })
    assert.equal(lastRunOf(begun, { kind: 'own-deadline' }, exit).kind, 'crash')
  })

  it('counts for a file only if the file was marked while the worker had it', () => {
    const now = Date.now()
    const file = { beganAt: 1000, givenAtMs: now - 60_000, lease: undefined }
    const crash = lastRunOf(file, undefined, exit)
    for (const [markedAtMs, isOwn] of [
      [now - 70_000, false],
      [now - 59_000, true],
      [now, true],
      [now + 10_000, false],
    ] as const)
      assert.equal(lastRunAt(crash, markedAtMs), isOwn ? crash : undefined, String(markedAtMs - now))
  })

  it('beside others is a crash only of tasks whose files were marked early enough to overrun', () => {
    const now = Date.now()
    const file = { beganAt: performance.now(), givenAtMs: now - 60_000, lease: undefined }
    const killed = { kind: 'harakiri', at: performance.now(), harakiriMs: 5000, concurrency: 2 } as const
    const crash = lastRunOf(file, killed, exit)
    assert.equal(lastRunAt(crash, now - 5100), crash)
    assert.deepEqual(lastRunAt(crash, now - 4000), { kind: 'blameless' })
    const alone = lastRunOf(file, { ...killed, concurrency: 1 }, exit)
    assert.equal(lastRunAt(alone, now - 4000), alone, 'the worker ran nothing else')
  })

  it('is kept for the process that got the file last', () => {
    const lastRuns = new LastRuns()
    lastRuns.add('a', { kind: 'crash', cause: 'it died', from: 2, to: 3 })
    lastRuns.add('a', { kind: 'blameless', from: 5, to: 6 })
    assert.equal(lastRuns.of('a')?.kind, 'blameless')
  })

  it('is kept until a worker has dealt with the task that the run left', () => {
    const lastRuns = new LastRuns()
    const crash = { kind: 'crash', cause: 'it died' } as const
    for (const ref of ['a', 'b']) lastRuns.add(ref, crash)
    lastRuns.reported([{ ref: 'a', kind: 'untouched' }])
    assert.deepEqual(lastRuns.among(['c', 'a', 'b']), [
      [1, crash],
      [2, crash],
    ])
    lastRuns.reported([{ ref: 'a', kind: 'retry' }])
    lastRuns.done(['b'])
    assert.deepEqual(lastRuns.among(['a', 'b']), [])
  })
})

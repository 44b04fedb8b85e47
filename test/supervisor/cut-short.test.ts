import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { lastRunOf } from '#src/runtime/supervisor/cut-short.js'

describe('a run that its worker’s end cut short', () => {
  const begun = { ref: 'a', startedAt: 1000 }
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

  it('is a crash of the one that overran, and of none of its neighbours', () => {
    const killed = { kind: 'harakiri', at: 6000, harakiriMs: 5000 } as const
    assert.deepEqual(lastRunOf(begun, killed, exit), {
      kind: 'crash',
      cause: 'it overran spooler-harakiri (5 s)',
    })
    assert.deepEqual(lastRunOf({ ...begun, startedAt: 1001 }, killed, exit), { kind: 'blameless' })
  })

  it('is no task’s fault when the worker was stopped, and is when it overran its own deadline', () => {
    assert.deepEqual(lastRunOf(begun, { kind: 'mercy' }, exit), { kind: 'blameless' })
    assert.equal(lastRunOf(begun, { kind: 'own-deadline' }, exit).kind, 'crash')
  })
})

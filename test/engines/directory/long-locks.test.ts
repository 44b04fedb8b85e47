import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { LongLocks } from '#src/engines/directory/long-locks.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

/** More refs than `LongLocks` remembers. */
const MANY = 50_000

describe('long locks', () => {
  let now = 0
  beforeEach(() => {
    now = 100_000
    mock.method(performance, 'now', () => now)
  })
  afterEach(() => mock.restoreAll())

  it('are reported even if more tasks than are remembered were found locked once, and ran elsewhere', async () => {
    const events = new Emitter()
    const told: string[] = []
    events.on('spool-task-locked', ({ name, forMs }) => told.push(`${name} ${forMs}`))
    const locks = new LongLocks(spoolDirectory(), events)
    for (let i = 0; i < MANY; i++) locks.reported({ ref: `elsewhere-${i}`, kind: 'locked', ranMs: 0 })
    for (let second = 0; second < 25; second++, now += 1000)
      locks.reported({ ref: 'stuck', kind: 'locked', ranMs: 0 })
    mock.restoreAll() // so that time passes again
    await until('the lock is reported', () => told.length > 0, 1000)
    assert.deepEqual(told, ['stuck 10000'])
  })

  it('are reported once, and not if the task has run in between', async () => {
    const events = new Emitter()
    const told: string[] = []
    events.on('spool-task-locked', ({ name }) => told.push(name))
    const locks = new LongLocks(spoolDirectory(), events)
    for (let second = 0; second < 60; second++, now += 1000) {
      locks.reported({ ref: 'stuck', kind: 'locked', ranMs: 0 })
      locks.reported({ ref: 'ran', kind: second % 9 === 8 ? 'retry' : 'locked', ranMs: 0 })
    }
    mock.restoreAll() // so that time passes again
    await until('the lock is reported', () => told.length > 0, 1000)
    assert.deepEqual(told, ['stuck'])
  })
})

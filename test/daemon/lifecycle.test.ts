import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Lifecycle } from '#src/doors/daemon/lifecycle.js'

describe('the life of a daemon', () => {
  it('goes from its start over reloads to its end', async () => {
    const life = new Lifecycle()
    for (const state of ['running', 'reloading', 'running', 'stopping', 'stopped'] as const) {
      assert.ok(life.become(state), state)
      assert.equal(life.state, state)
    }
    await life.whenStopped
  })

  it('is not changed by what ends after a stop was asked for', () => {
    for (const before of [[], ['running'], ['running', 'reloading']] as const) {
      const life = new Lifecycle()
      for (const state of before) life.become(state)
      assert.ok(life.become('stopping'))
      assert.ok(life.isStopping)
      for (const late of ['running', 'reloading', 'stopping'] as const) assert.ok(!life.become(late), late)
      assert.equal(life.state, 'stopping')
    }
  })

  it('allows no reload before it runs, and one at a time', () => {
    const life = new Lifecycle()
    assert.ok(!life.become('reloading'))
    life.become('running')
    assert.ok(life.become('reloading'))
    assert.ok(!life.become('reloading'))
  })
})

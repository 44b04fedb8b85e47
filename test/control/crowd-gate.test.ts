import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { CrowdGate } from '#src/doors/control/server.js'
import { askDaemon } from '#src/engines/control/client.js'
import type { DaemonSnapshot } from '#src/runtime/stats/snapshot.js'
import { controlOf, sendRaw } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TURNED_AWAY = 100

describe('a crowd at a control socket', () => {
  it('is let in up to 64 in half a second, and then turned away until that is over', test => {
    test.mock.timers.enable({ apis: ['setTimeout'] })
    const server = { maxConnections: Number.POSITIVE_INFINITY }
    let now = 1000
    const gate = new CrowdGate(() => now)
    const isOpenAfter = (count: number) => {
      for (let i = 0; i < count; i++) gate.passed(server)
      return server.maxConnections === Number.POSITIVE_INFINITY
    }
    assert.equal(isOpenAfter(63), true)
    now += 100
    assert.equal(isOpenAfter(1), false)
    test.mock.timers.tick(399)
    assert.equal(isOpenAfter(0), false)
    now += 399.5 // Node's timers know only whole milliseconds
    test.mock.timers.tick(1)
    assert.equal(isOpenAfter(63), true)
    assert.equal(isOpenAfter(1), false, 'a connection within that half second counts')
    now += 500
    test.mock.timers.tick(500)
    assert.equal(isOpenAfter(63), true)
    now += 500
    assert.equal(isOpenAfter(63), true, '63 in each half second are no crowd')
  })

  it('is closed unread, and a client that tries again is answered', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    let closed = 0
    const crowd = new Set<Socket>()
    const come = () => {
      const socket = connect(controlOf(spool)).on('error', () => {})
      crowd.add(socket)
      socket.on('close', () => {
        crowd.delete(socket)
        if (++closed < TURNED_AWAY) come() // as a crowd does; a slow daemon lets in so few at a time that all 200 would fit
      })
    }
    for (let i = 0; i < 200; i++) come()
    try {
      await until('some are turned away', () => closed >= TURNED_AWAY)
      const ask = () => askDaemon(controlOf(spool), 'snapshot', {}, { timeoutMs: 60_000 })
      for (const answer of await Promise.all([ask(), ask(), ask()]))
        assert.equal((answer as DaemonSnapshot).daemon.pid, daemon.pid)
      const [reply] = await until('anybody is let in', () =>
        sendRaw(controlOf(spool), '{"v":1,"id":7,"verb":"nothing"}\n').catch(() => undefined),
      )
      assert.equal((reply as { id: number }).id, 7)
    } finally {
      for (const socket of crowd) socket.destroy()
    }
  })
})

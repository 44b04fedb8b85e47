import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import { CrowdGate } from '#src/control/crowd-gate.js'
import { controlOf, sendRaw, snapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('a crowd at a control socket', () => {
  it('is let in up to 64 in half a second, and then turned away until that is over', async () => {
    const server = { maxConnections: Number.POSITIVE_INFINITY }
    const gate = new CrowdGate()
    const since = performance.now()
    for (let i = 0; i < 63; i++) gate.passed(server)
    assert.equal(server.maxConnections, Number.POSITIVE_INFINITY)
    gate.passed(server)
    assert.equal(server.maxConnections, 1)
    await until('it is let in again', () => server.maxConnections === Number.POSITIVE_INFINITY)
    assert.ok(performance.now() - since >= 490, `${performance.now() - since} ms`)
    for (let i = 0; i < 64; i++) gate.passed(server)
    assert.equal(server.maxConnections, 1)
  })

  it('is closed unread, and a client that tries again is answered', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    let closed = 0
    const crowd = Array.from({ length: 200 }, () =>
      connect(controlOf(spool))
        .on('error', () => {})
        .on('close', () => closed++),
    )
    try {
      await until('some are turned away', () => closed >= 100)
      const asked = Promise.all(Array.from({ length: 3 }, () => snapshotOf(spool)))
      for (const { daemon: facts } of await asked) assert.equal(facts.pid, daemon.pid)
      const [reply] = await until('anybody is let in', () =>
        sendRaw(controlOf(spool), '{"v":1,"id":7,"verb":"nothing"}\n').catch(() => undefined),
      )
      assert.equal((reply as { id: number }).id, 7)
    } finally {
      for (const socket of crowd) socket.destroy()
    }
  })
})

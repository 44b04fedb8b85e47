import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { describe, it } from 'node:test'
import { SpareWorker } from '#src/runtime/supervisor/forked-port.js'
import { childrenOf, isAlive } from '../helpers/process.js'
import { until } from '../helpers/until.js'

const OPTIONS = { logFd: 2, areas: [] }

describe('a worker that is forked ahead', () => {
  it('can be taken once', () => {
    const spare = new SpareWorker(OPTIONS)
    const port = spare.take()
    assert.ok(port !== undefined && isAlive(port.pid))
    assert.equal(spare.take(), undefined)
    port.kill()
  })

  it('cannot be taken once it has died', async () => {
    const before = childrenOf(process.pid)
    const spare = new SpareWorker(OPTIONS)
    const [pid = 0] = childrenOf(process.pid).filter(each => !before.includes(each))
    process.kill(pid, 'SIGKILL')
    await until('its end is known', () => !existsSync(`/proc/${pid}`))
    assert.equal(spare.take(), undefined)
  })

  it('is ended if it was not taken', async () => {
    const before = childrenOf(process.pid)
    const spare = new SpareWorker(OPTIONS)
    const [pid = 0] = childrenOf(process.pid).filter(each => !before.includes(each))
    assert.ok(isAlive(pid))
    spare.end()
    await until('the process is gone', () => !isAlive(pid))
  })
})

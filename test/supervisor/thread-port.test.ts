import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { ThreadPort } from '#src/runtime/supervisor/in-process-port.js'

describe('a worker in a thread', () => {
  it('can be killed at any time of its start, and the process lives on', async () => {
    for (let ms = 0; ms < 60; ms += 3) {
      const port = new ThreadPort()
      port.listen({ heard: () => assert.fail('it has been told nothing'), garbled() {} })
      await setTimeout(ms)
      port.kill()
      assert.deepEqual(await port.whenExited, { code: null, signal: 'SIGKILL' })
    }
  })
})

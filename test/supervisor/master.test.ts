import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import type { Upkeep } from '#src/engines/contracts/upkeep.js'
import { Master } from '#src/runtime/supervisor/master.js'
import { SignalRouter } from '#src/runtime/supervisor/signal-router.js'
import { closePools, poolOf } from '../helpers/pool.js'
import { spoolDirectory } from '../helpers/workspace.js'

afterEach(closePools)

describe('a spool that is opened only after a stop', () => {
  it('is not made known to other machines', async () => {
    const spool = spoolDirectory()
    const { pool, feed } = poolOf(spool, '')
    const told: string[] = []
    const upkeep = {
      followPauses: () => ({ start: async () => {}, close() {} }),
      join: () => {
        told.push('joined')
        return async () => void told.push('left')
      },
    }
    let open = () => {}
    const whenOpen = new Promise<void>(resolve => {
      open = resolve
    })
    const events = new Emitter()
    const master = new Master(events, new SignalRouter(events, { declared() {}, added() {} }))
    const starting = master.start([
      {
        ...{ spool, engineKey: spool, pool: pool.options, about: { isDaemon: true, controls: null } },
        open: async () => {
          await whenOpen
          return { feed, upkeep: upkeep as unknown as Upkeep }
        },
      },
    ])
    await master.stop()
    open()
    await starting
    assert.deepEqual(told, [])
  })
})

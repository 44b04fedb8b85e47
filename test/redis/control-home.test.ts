import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

describe('the directory of a control socket', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  async function start(parent: string, ini = {}) {
    const env = { ...process.env, XDG_RUNTIME_DIR: parent }
    const daemon = await daemonOn(redis.address('home'), { env, ini })
    await daemon.waitFor('spawned')
    return daemon
  }
  const ownIn = (parent: string) => join(parent, `spoold-${process.getuid?.()}`)
  const homesIn = (parent: string) => (existsSync(ownIn(parent)) ? readdirSync(ownIn(parent)) : [])
  const socketsIn = (parent: string) =>
    homesIn(parent).flatMap(home =>
      readdirSync(join(ownIn(parent), home, '.spoold')).filter(name => /^control(\.\d+)?$/.test(name)),
    )

  it('is there while a daemon of the spool is, and goes with the last one', async () => {
    const parent = workspace()
    const [first, second] = [await start(parent), await start(parent)]
    await until('both have a socket', () => socketsIn(parent).length === 2)
    first.child.kill('SIGTERM')
    assert.equal(await first.code(), 0)
    assert.equal(socketsIn(parent).length, 1)
    second.child.kill('SIGTERM')
    assert.equal(await second.code(), 0)
    assert.deepEqual(homesIn(parent), [])
  })

  it('is not made where there is no socket', async () => {
    const parent = workspace()
    const daemon = await start(parent, { 'spooler-control': 'off' })
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(homesIn(parent), [])
  })

  it('is left to a daemon that starts in this moment', async () => {
    const { makeControlHome, removeControlHome } = await import('#src/engines/control/home.js')
    const { listenInSpool } = await import('#src/doors/control/spool-socket.js')
    const before = process.env.XDG_RUNTIME_DIR
    process.env.XDG_RUNTIME_DIR = workspace()
    try {
      const starting = []
      for (let n = 0; n < 100; n++) {
        const home = makeControlHome('redis://x/0/race')
        const [listening] = await Promise.allSettled([listenInSpool(home, () => {}), removeControlHome(home)])
        if (listening.status === 'rejected') continue // it says so, and tries again
        starting.push(listening.value.isReachable())
        await removeControlHome(home)
        assert.equal(listening.value.isReachable(), true, 'it has a socket, which is found')
        listening.value.close()
        await removeControlHome(home)
        assert.equal(existsSync(home), false)
      }
      assert.ok(starting.length > 0)
      assert.ok(starting.every(Boolean))
    } finally {
      if (before === undefined) delete process.env.XDG_RUNTIME_DIR
      else process.env.XDG_RUNTIME_DIR = before
    }
  })
})

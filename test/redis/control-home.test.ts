import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
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

  it('is there while a daemon of the spool runs, and is removed with the last one', async () => {
    const parent = workspace()
    const [first, second] = [await start(parent), await start(parent)]
    await until('both daemons have a socket', () => socketsIn(parent).length === 2)
    first.child.kill('SIGTERM')
    assert.equal(await first.code(), 0)
    assert.equal(socketsIn(parent).length, 1)
    second.child.kill('SIGTERM')
    assert.equal(await second.code(), 0)
    assert.deepEqual(homesIn(parent), [])
  })

  it('is not made when spooler-control is off', async () => {
    const parent = workspace()
    const daemon = await start(parent, { 'spooler-control': 'off' })
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(homesIn(parent), [])
  })

  it('is not asked if a stranger has made up its member, and a member that is not JSON is ignored', async () => {
    const spool = redis.address('made-up')
    const parent = workspace()
    const daemon = await daemonOn(spool, { env: { ...process.env, XDG_RUNTIME_DIR: parent } })
    await daemon.waitFor('spawned')
    await until('the daemon has a socket', () => socketsIn(parent).length === 1)
    const [home = ''] = homesIn(parent)
    const members = 'bull:made-up:spoold:members'
    const [[, mine] = []] = Object.entries(
      await until('the daemon is a member', async () => {
        const all = await redis.client.hgetall(members)
        return Object.keys(all).length > 0 ? all : undefined
      }),
    )
    const fields: Record<string, unknown> = JSON.parse(mine ?? '')
    /** Directories of this user, closed to others, with the right names, but in another place or of another spool. */
    const elsewhere = [join(workspace(), home), join(workspace(), `spoold-${process.getuid?.()}`, 'other')]
    let asked = 0
    const servers = elsewhere.map(() => createServer(() => asked++))
    for (const [i, path] of elsewhere.entries()) {
      mkdirSync(join(path, '.spoold'), { recursive: true, mode: 0o700 })
      chmodSync(dirname(path), 0o700)
      await once(servers[i]?.listen(join(path, '.spoold/control')) ?? assert.fail(), 'listening')
      await redis.client.hset(
        members,
        `evil${i}`,
        JSON.stringify({ ...fields, controls: path, atMs: Number(fields.atMs) + 3_600_000 }),
      )
    }
    await redis.client.hset(members, 'broken', '{')
    try {
      const { code, stdout } = await inProcess(['status', spool])
      assert.equal(code, 0, stdout)
      assert.match(stdout, /^SPOOLD OK/)
      assert.equal((await inProcess(['quiet', spool])).code, 0)
      assert.equal(asked, 0)
    } finally {
      for (const server of servers) server.close()
    }
  })

  it('is not removed under a daemon that starts at the same moment', async () => {
    const { makeControlHome, removeControlHome } = await import('#src/engines/control/home.js')
    const { listenInSpool } = await import('#src/doors/control/spool-socket.js')
    const before = process.env.XDG_RUNTIME_DIR
    process.env.XDG_RUNTIME_DIR = workspace()
    try {
      const starting = []
      for (let n = 0; n < 100; n++) {
        const home = makeControlHome('redis://x/0/race')
        const [listening] = await Promise.allSettled([listenInSpool(home, () => {}), removeControlHome(home)])
        if (listening.status === 'rejected') continue // a daemon would say so, and try again
        starting.push(await listening.value.isReachable())
        await removeControlHome(home)
        assert.equal(await listening.value.isReachable(), true, 'the control socket is found')
        await listening.value.close()
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

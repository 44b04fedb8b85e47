import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { REPLY_TIMEOUT_MS } from '#src/engines/redis/client.js'
import { Connection } from '#src/engines/redis/connection.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import { startRedis } from '../../helpers/redis.js'
import { skipUnless } from '../../helpers/requires.js'
import { until } from '../../helpers/until.js'

const PATIENCE_MS = 20_000
const REFUSED_MS = 500

const missing = skipUnless('redis-server')

describe('a connection to Redis', { skip: missing }, () => {
  const redis = missing === false ? startRedis() : assert.fail()
  before(() => redis.ready())

  it('is closed and replaced when Redis does not reply, because its machine may be gone', async () => {
    const connection = await Connection.open(redis.address('silent'))
    const leave = connection.stay()
    const client = connection.redis as Redis
    const idOf = () => connection.use(() => client.client('ID'))
    const id = await idOf()
    redis.signal('SIGSTOP')
    await assert.rejects(idOf())
    await until('the connection is closed', () => !connection.isReady)
    redis.signal('SIGCONT')
    assert.notEqual(await idOf(), id)
    leave()
    connection.close()
  })

  it('adds no listeners for callers that come and go after it has ended', async () => {
    const connection = await Connection.open(redis.address('ended'))
    await connection.nowMs()
    const { stream } = connection.redis as Redis
    const listeners = stream.listenerCount('connect')
    stream.destroy()
    for (let i = 0; i < 20; i++) await connection.use(async () => {})
    assert.equal(stream.listenerCount('connect'), listeners)
    connection.close()
  })

  it('fails waiting callers at once when it is closed, and does not reopen, so that its process can end', {
    timeout: 10_000,
  }, async () => {
    const connection = await Connection.open('redis://127.0.0.1:1/0/nobody')
    const waiting = assert.rejects(
      connection.use(async () => {}, PATIENCE_MS),
      { code: 'REDIS_UNREACHABLE' },
    )
    connection.close()
    await waiting
    await assert.rejects(
      connection.use(async () => {}, PATIENCE_MS),
      { code: 'REDIS_UNREACHABLE' },
    )
  })

  it('keeps the reason for a refusal by Redis while it is tried again', async () => {
    const [host] = redis.address('refused').split('/0/')
    const connection = await Connection.open(`${host}/77/refused`)
    const leave = connection.stay()
    const client = connection.redis as Redis
    const faults: string[] = []
    client.on('connect', () => faults.push(connection.fault))
    await assert.rejects(
      connection.use(async () => {}, REFUSED_MS),
      /ERR DB index is out of range$/,
    )
    await until('the connection was tried again', () => faults.length > 2)
    leave()
    connection.close()
    for (const fault of faults.slice(1)) assert.match(fault, /ERR DB index is out of range$/)
  })

  it('reports a wrong password, even if its address selects a database', async () => {
    const address = redis.address('wrong').replace('//', '//somebody:wrong@').replace('/0/', '/3/')
    const connection = await Connection.open(address)
    await redis.client.config('SET', 'requirepass', 'right')
    try {
      await assert.rejects(
        connection.use(async () => {}, REFUSED_MS),
        /WRONGPASS/,
      )
    } finally {
      connection.close()
      await redis.client.config('SET', 'requirepass', '')
    }
  })

  it('is no longer asked for pauses once followPauses() is closed, even if that happens during the first look', async t => {
    const connection = await Connection.open('redis://127.0.0.1:1/0/nobody')
    const pauses = new RedisUpkeep(connection).followPauses(() => {})
    const looks = t.mock.method(connection, 'reach')
    const timers = t.mock.method(globalThis, 'setInterval')
    const started = pauses.start()
    pauses.close()
    connection.close()
    await started
    assert.deepEqual([looks.mock.callCount(), timers.mock.callCount()], [1, 0])
  })

  // Each of the following tests kills and restarts Redis.

  it('is not closed by the reply timeout of the lost connection that it replaces', async () => {
    const connection = await Connection.open(redis.address('lasting'))
    const leave = connection.stay()
    await connection.nowMs()
    redis.signal('SIGSTOP')
    const unanswered = assert.rejects(connection.use(() => connection.redis.get('nothing')))
    const since = performance.now()
    await redis.kill()
    await unanswered
    await redis.restart()
    const client = connection.redis as Redis
    const idOf = () => connection.use(() => client.client('ID'))
    const id = await idOf()
    await sleep(Math.max(0, REPLY_TIMEOUT_MS + 500 - (performance.now() - since)))
    assert.equal(await idOf(), id, 'it is the same connection')
    leave()
    connection.close()
  })

  it('fails calls about periodic tasks with a message of ours, not the client’s, when it ends before Redis answers', async () => {
    await redis.restart()
    const connection = await Connection.open(redis.address('killed'))
    const leave = connection.stay()
    const { periodic, schedulePauses } = new RedisUpkeep(connection)
    await periodic.read()
    redis.signal('SIGSTOP')
    const asked = [
      periodic.read(),
      periodic.fateOf('a task'),
      periodic.forget('a task', 1),
      schedulePauses.read(),
    ]
    const refused = asked.map(each =>
      assert.rejects(Promise.resolve(each), {
        code: 'REDIS_UNREACHABLE',
        message: /^the connection to Redis ended before/,
      }),
    )
    await redis.kill()
    await Promise.all(refused)
    leave()
    connection.close()
  })
})

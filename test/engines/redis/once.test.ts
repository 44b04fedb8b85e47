import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Connection } from '#src/engines/redis/connection.js'
import { RedisEnqueuer } from '#src/engines/redis/enqueuer.js'
import { type Libraries, loadLibraries } from '#src/engines/redis/libraries.js'
import { SpoolQueue } from '#src/engines/redis/queues.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import { parseRedisAddress } from '#src/formats/protocol/redis-address.js'
import { freePort, startRedis } from '../../helpers/redis.js'
import { requestFrom } from '../../helpers/request.js'
import { skipUnless } from '../../helpers/requires.js'
import { until } from '../../helpers/until.js'

const missing = skipUnless('redis-server')

/** Matches only requests that store a task: a transaction, or the script that adds a job. */
const STORING = /\r\nexec\r\n|:prioritized\r\n/i

/** Passes bytes on, and closes the connection in place of the reply to each of the next `losses` requests that store a task. */
class LossyProxy {
  readonly port = freePort()
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  losses = 0

  constructor(redisPort: number) {
    this.#server = createServer(client => {
      const redis = connectTo(redisPort, '127.0.0.1')
      let isDeaf = false
      client.on('data', chunk => {
        if (this.losses > 0 && STORING.test(chunk.toString('latin1'))) {
          this.losses--
          isDeaf = true
        }
        redis.write(chunk)
      })
      redis.on('data', chunk => (isDeaf ? client.destroy() : client.write(chunk)))
      for (const socket of [client, redis]) {
        this.#sockets.add(socket)
        socket.on('error', () => {}).on('close', () => [client, redis].map(each => each.destroy()))
      }
    })
  }

  async listen(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(this.port, '127.0.0.1', resolve))
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }
}

describe('an enqueuer on Redis', { skip: missing }, () => {
  const redis = missing === false ? startRedis() : assert.fail()
  const proxy = new LossyProxy(redis.port)
  let libraries: Libraries | undefined
  let spools = 0
  const opened: Connection[] = []
  before(async () => {
    await redis.ready()
    await proxy.listen()
    libraries = await loadLibraries()
  })
  after(() => {
    for (const connection of opened) connection.close()
    proxy.close()
  })

  function openSpool() {
    const name = `once${spools++}`
    const connect = (port: number, query = '') => {
      assert.ok(libraries !== undefined)
      const address = `redis://127.0.0.1:${port}/0/${name}${query}`
      const connection = new Connection(parseRedisAddress(address), libraries)
      opened.push(connection)
      return connection
    }
    const key = (type: string) => `bull:${name}:${type}`
    const tasks = () => redis.client.zcard(key('prioritized'))
    const tombstones = async () => (await redis.client.keys(key('de:*'))).length
    return { connect, key, tasks, tombstones }
  }

  it('asks again after a lost reply without storing a second task', async () => {
    const { connect, tasks, tombstones } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(proxy.port))
    await enqueuer.store(requestFrom({ n: 0 }))
    proxy.losses = 1
    const { isDuplicate } = await enqueuer.store(requestFrom({ n: 1 }))
    assert.deepEqual([proxy.losses, isDuplicate, await tasks()], [0, false, 2])
    proxy.losses = 1
    const own = await enqueuer.store(requestFrom({ n: 2 }, { id: 'mine' }))
    assert.deepEqual([proxy.losses, own.isDuplicate, await tasks()], [0, false, 3])
    await until('no identity is left', async () => (await tombstones()) === 0)
  })

  it('fails with REDIS_UNANSWERED after two lost replies, and a repetition with the same mark stores no second task', async () => {
    const { connect, tasks, tombstones } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(proxy.port))
    proxy.losses = 2
    const mark = `add-${randomUUID()}`
    await assert.rejects(enqueuer.store({ ...requestFrom({ n: 1 }), mark }), { code: 'REDIS_UNANSWERED' })
    assert.deepEqual([await tasks(), await tombstones()], [1, 1])
    const again = await new RedisEnqueuer(connect(redis.port)).store({ ...requestFrom({ n: 1 }), mark })
    assert.deepEqual([again.isDuplicate, await tasks()], [false, 1])
  })

  it('adds nothing when the storing of a task that has already run is repeated', async () => {
    const { connect, key, tasks, tombstones } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(redis.port), { remembers: true })
    const mark = `add-${randomUUID()}`
    const request = { ...requestFrom({ n: 1 }), mark }
    await enqueuer.store(request)
    const [id = ''] = await redis.client.zrange(key('prioritized'), 0, -1)
    await redis.client.multi().zrem(key('prioritized'), id).del(key(id)).exec() // as if it had run
    await enqueuer.store(request)
    assert.equal(await tasks(), 0)
    const ttl = await redis.client.pttl(key(`de:${id}`))
    assert.ok(ttl > 6 * 86_400_000, `it is known for ${ttl} ms`)
    enqueuer.forget([mark])
    await until('the identity is forgotten', async () => (await tombstones()) === 0)
  })

  it('adds nothing when the storing of a task that somebody has removed is repeated', async () => {
    const { connect, tasks } = openSpool()
    const connection = connect(redis.port)
    const enqueuer = new RedisEnqueuer(connection, { remembers: true })
    const request = { ...requestFrom({ n: 1 }), mark: `add-${randomUUID()}` }
    const { path } = await enqueuer.store(request)
    const removed = await new SpoolQueue(connection).remove(path.split('/').at(-1) ?? '')
    assert.deepEqual([removed, await tasks()], [1, 0])
    await enqueuer.store(request)
    assert.equal(await tasks(), 0)
  })

  it('forgets the first identity at once, and later ones several at a time', async () => {
    const { connect, tombstones } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(redis.port))
    await enqueuer.store(requestFrom({ n: 0 }))
    await until('the first identity is forgotten', async () => (await tombstones()) === 0)
    await redis.client.config('RESETSTAT')
    await Promise.all(Array.from({ length: 300 }, (_, n) => enqueuer.store(requestFrom({ n }))))
    await until('all identities are forgotten', async () => (await tombstones()) === 0)
    const calls = Number(/cmdstat_unlink:calls=(\d+)/.exec(await redis.client.info('commandstats'))?.[1])
    assert.ok(calls > 0 && calls < 100, `UNLINK was called ${calls} times`)
  })

  it('stores many simultaneous requests in their order, and each id once', async () => {
    const { connect, key, tasks } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(redis.port))
    const requests = Array.from({ length: 300 }, (_, n) =>
      requestFrom({ n }, n % 3 === 0 ? { id: `id ${n % 30}` } : {}),
    )
    const stored = await Promise.all(requests.map(request => enqueuer.store(request)))
    assert.equal(await tasks(), 200 + 10)
    assert.equal(stored.filter(({ isDuplicate }) => isDuplicate).length, 90)
    const jobs = await redis.client.zrange(key('prioritized'), 0, -1)
    const expected = stored
      .filter(({ isDuplicate }) => !isDuplicate)
      .map(({ path }) => path.split('/').at(-1))
    assert.deepEqual(jobs, expected)
    const later = new RedisUpkeep(connect(redis.port))
    await later.sweep({ graceMs: 0, idTtlMs: 1 })
  })

  it('fails with the reason that Redis gives when it takes no tasks', async () => {
    const { connect, tasks } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(redis.port))
    await enqueuer.store(requestFrom({ n: 1 }))
    await redis.client.config('SET', 'maxmemory', '1')
    try {
      await assert.rejects(enqueuer.store(requestFrom({ n: 2 })), {
        code: 'REDIS_REFUSED',
        message: /takes no tasks now: .*OOM/,
      })
    } finally {
      await redis.client.config('SET', 'maxmemory', '0')
    }
    assert.equal(await tasks(), 1)
  })

  it('waits for replicas if its address says so, and reports how many confirmed the task', async () => {
    const { connect, tasks } = openSpool()
    const enqueuer = new RedisEnqueuer(connect(redis.port, '?wait=1'))
    await assert.rejects(enqueuer.store(requestFrom({ n: 1 })), {
      code: 'REDIS_UNREPLICATED',
      message: /is stored, but after 2 s only 0 of 1 replica confirmed it/,
    })
    assert.equal(await tasks(), 1)
  })
})

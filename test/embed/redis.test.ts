import { before, it } from 'node:test'
import { startRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { embedded } from './homes.js'
import { conforms } from './suite.js'

const missing = skipUnless('redis-server')
it('a Redis is there for applications', { skip: missing }, () => {})
if (missing === false) suite(startRedis())

function suite(redis: ReturnType<typeof startRedis>): void {
  const { client } = redis
  let names = 0
  before(() => redis.ready())

  /** A spool on Redis, and what is in its queues. */
  function onRedis() {
    const name = `home${names++}x` // none begins with another
    const dead = async () => {
      const keys = await client.keys(`bull:${name}*:failed`)
      const counts = await Promise.all(keys.map(key => client.zcard(key)))
      return counts.reduce((a, b) => a + b, 0)
    }
    return {
      spooler: redis.address(name),
      /** A job keeps its hash, wherever it is listed. */
      async left() {
        const jobs = await client.keys(`bull:${name}*:*-*-*-*-*`)
        return jobs.filter(key => !key.endsWith(':lock')).length - (await dead())
      },
      dead,
    }
  }

  for (const mode of ['in-process', 'threads', 'processes'] as const)
    conforms(`${mode} on Redis`, text => embedded(text, mode, onRedis()))
}

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { freePort, startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

describe('doctor, of a spool on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  async function examined(spooler: string): Promise<{ readonly code: number | null; readonly text: string }> {
    const directory = workspace()
    const handler = join(directory, 'handler.mjs')
    const ini = join(directory, 'app.ini')
    writeFileSync(handler, 'export default (env, task) => task.SPOOL_OK\n')
    writeIni(ini, { spooler, 'spooler-import': handler, 'spooler-fallback': join(directory, 'later') })
    const { code, stdout, stderr } = await inProcess(['doctor', ini])
    return { code, text: stdout + stderr }
  }

  it('says what is lost, evicted, forbidden, missing or slow, and what to do', async () => {
    const spooler = redis.address('mail')
    const bad = await examined(`${spooler}?wait=1`)
    assert.equal(bad.code, 1)
    for (const line of [
      /^ok +spool: redis:\S+: Redis \d+\.\d+\.\d+ answers$/m,
      /^ok +spool: redis:\S+: its user may do all that is needed$/m,
      /^warning +spool: .* appendonly is off: .*\n +to fix it: CONFIG SET appendonly yes/m,
      /^error +spool: .*\?wait=1, and it has 0 replicas.*\n +to fix it: start a replica/m,
      /^ok +clock: .* agree$/m,
      /^note +spool: \S+later: it does not exist yet/m,
    ])
      assert.match(bad.text, line)
    await redis.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
    assert.match(
      (await examined(spooler)).text,
      /^error +room: .*allkeys-lru: when its memory is full, Redis removes/m,
    )
    await redis.client.config('SET', 'maxmemory-policy', 'noeviction')
    await redis.client.config('SET', 'appendonly', 'yes')
    assert.match((await examined(spooler)).text, /^note +spool: .*appendfsync is everysec: .* lost/m)
    await redis.client.config('SET', 'appendfsync', 'always')
    const good = await examined(spooler)
    assert.equal(good.code, 0, good.text)
    assert.match(good.text, /^ok +spool: .*each acknowledged task is on its disk$/m)
    assert.deepEqual(await redis.client.keys('*doctor*'), [])
  })

  it('does not blame rights when Redis is full, or a replica', async () => {
    const spooler = redis.address('mail')
    await redis.client.config('SET', 'maxmemory', '1')
    const full = await examined(spooler)
    await redis.client.config('SET', 'maxmemory', '0')
    assert.match(full.text, /^error +room: .*its memory is full: .*OOM.*\n +to fix it: raise maxmemory/m)
    await redis.client.replicaof('127.0.0.1', 1)
    const replica = await examined(spooler)
    await redis.client.replicaof('NO', 'ONE')
    assert.match(replica.text, /^error +spool: .*it is a slave, .*\n +to fix it: name the master/m)
    assert.doesNotMatch(full.text + replica.text, /ACL|its user may/)
  })

  it('says what an ACL forbids', async () => {
    await redis.client.call(
      'ACL',
      'SETUSER',
      'joe',
      'on',
      '>secret',
      '~bull:mail:*',
      '&*',
      '+@all',
      '-xadd',
      '-config',
    )
    const { code, text } = await examined(redis.address('mail').replace('//', '//joe:secret@'))
    assert.equal(code, 1)
    assert.match(text, /^error +spool: .*its user may not do all that is needed: XADD: /m)
    assert.match(text, /^note +spool: .*it does not tell this user what it writes to disk/m)
    assert.doesNotMatch(text, /secret/)
  })

  for (const command of ['evalsha', 'script', 'watch', 'xread', 'zcount'])
    it(`says that an ACL forbids ${command}, which is called outside of scripts`, async () => {
      await redis.client.call(
        'ACL',
        'SETUSER',
        'jim',
        'reset',
        'on',
        '>pw',
        '~*',
        '&*',
        '+@all',
        `-${command}`,
      )
      const { code, text } = await examined(redis.address('mail').replace('//', '//jim:pw@'))
      assert.equal(code, 1)
      assert.match(text, new RegExp(`^error +spool: .*may not do all that is needed: .*'${command}`, 'm'))
    })

  it('says that no Redis answers', async () => {
    const { code, text } = await examined(`redis://127.0.0.1:${freePort()}/0/mail`)
    assert.equal(code, 1)
    assert.match(text, /^error +spool: redis:\S+: no connection to redis:.*\n +to fix it: try redis-cli/m)
  })
})

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Batch } from '#src/engines/client/batch.js'
import { enqueue, spool } from '#src/engines/client/spool.js'
import { encodePacket } from '#src/formats/protocol/packet.js'
import { spoold } from '../helpers/cli.js'
import { childrenOf } from '../helpers/process.js'
import { freePort, startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const TELLING = `
import { createHash } from 'node:crypto'
export default (env, task) => {
  const hash = createHash('sha256').update(task.body ?? '').digest('hex')
  JOURNAL(JSON.stringify([env.n, task.priority, task.body?.length ?? 0, hash, Date.now()]))
  return task.SPOOL_OK
}`
const packetOf = (n: string) => encodePacket([[Buffer.from('n'), Buffer.from(n)]])
const tasksIn = (directory: string) =>
  readdirSync(directory, { recursive: true })
    .map(String)
    .filter(name => /(^|\/)uwsgi_spoolfile_on_/.test(name) && !name.startsWith('.spoold'))

describe('a spool on Redis with a fallback directory', {
  skip: skipUnless('redis-server'),
}, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis({ durability: 'always' })
  before(() => redis.ready())
  const ranIn = (lines: readonly string[]) =>
    lines.map(line => JSON.parse(line) as [string, number | null, number, string, number])
  const place = (name: string) => {
    const fallback = spoolDirectory()
    return { fallback, spooler: redis.address(name), both: `${redis.address(name)}?fallback=${fallback}` }
  }

  it('forwards files of uWSGI in the directory while Redis is up, and buries one that is too large for Redis', async () => {
    const { fallback, spooler } = place('written')
    const daemon = await daemonOn(spooler, { handler: TELLING, ini: { 'spooler-fallback': fallback } })
    const write = (n: number, packet: Buffer) =>
      writeFileSync(join(fallback, `uwsgi_spoolfile_on_host_77_${n}_123456_1700000000_${n}`), packet)
    write(1, packetOf('one'))
    write(2, Buffer.concat([packetOf('large'), Buffer.alloc(17 * 1024 * 1024)]))
    write(3, packetOf('three'))
    await until('two tasks have run', () => daemon.journal().length === 2)
    await until('no task is left in the directory', () => tasksIn(fallback).length === 0)
    const dead = readdirSync(join(fallback, '.spoold/dead')).filter(name => !name.endsWith('.json'))
    assert.deepEqual(dead, ['uwsgi_spoolfile_on_host_77_2_123456_1700000000_2'])
    const { stdout } = await spoold(['show', join(fallback, '.spoold/dead', dead[0] ?? '')])
    assert.match(
      stdout,
      /cannot be forwarded: its body has 17825792 bytes, and a spool on Redis takes at most 16777216/,
    )
  })

  it('stores every task in the directory while its Redis is a read-only replica', async () => {
    const { fallback, both } = place('replica')
    await redis.client.replicaof('127.0.0.1', 1)
    const count = 20
    try {
      const stored = Array.from({ length: count }, async (_, n) => {
        await setTimeout(n) // some just as the connection ends
        return spool({ n: String(n) }, { spooler: both })
      })
      await Promise.all(stored)
    } finally {
      await redis.client.replicaof('NO', 'ONE')
    }
    assert.equal(tasksIn(fallback).length, count)
  })

  it('loses no task and runs none twice, even if its forwarder is killed again and again', async () => {
    const { fallback, spooler, both } = place('killed')
    const away = both.replace(/:\d+\//, `:${freePort()}/`)
    const count = 200
    for (let n = 0; n < count; n++) await spool({ n: String(n) }, { spooler: away })
    assert.equal(tasksIn(fallback).length, count)
    const daemon = await daemonOn(spooler, {
      handler: TELLING,
      ini: { 'spooler-fallback': fallback, 'spooler-delivery': 'at-most-once' },
    })
    for (let kills = 0; kills < 4; kills++) {
      const left = tasksIn(fallback).length
      await until('some tasks were forwarded', () => tasksIn(fallback).length < left || left === 0)
      for (const pid of childrenOf(daemon.pid)) {
        const holds = readdirSync(`/proc/${pid}/fd`).length > 0
        if (holds) process.kill(pid, 'SIGKILL')
      }
    }
    await until('all tasks were forwarded', () => tasksIn(fallback).length === 0)
    await until('all tasks have run or are dead', async () => {
      const dead = await redis.client.zcard('bull:killed:failed')
      return new Set(daemon.journal().map(line => JSON.parse(line)[0])).size + dead >= count
    })
    const ran = ranIn(daemon.journal()).map(([n]) => n)
    assert.equal(new Set(ran).size, ran.length, 'none ran twice')
  })

  // A Redis that a test restarts ends with that test, so these tests are the last ones.

  it('stores tasks in the directory with time, priority, id and body, and forwards them when Redis is back', async () => {
    const { fallback, spooler, both } = place('kept')
    const body = randomBytes(200_000)
    const stored = await enqueue({ n: 'known' }, { spooler: both, id: 'known' })
    assert.match(stored.path, /^redis:/)
    await redis.kill()
    const first = await spool({ n: 'first' }, { spooler: both })
    assert.ok(first.startsWith(fallback), first)
    const since = performance.now()
    await spool({ n: 'second' }, { spooler: both })
    assert.ok(performance.now() - since < 900, 'the second does not wait for Redis')
    await spool({ n: 'urgent' }, { spooler: both, priority: 3, body })
    const at = Math.floor(Date.now() / 1000) + 3600
    await spool({ n: 'later' }, { spooler: both, at })
    await enqueue({ n: 'known' }, { spooler: both, id: 'known' })
    await enqueue({ n: 'new' }, { spooler: both, id: 'new' })
    assert.equal((await enqueue({ n: 'new' }, { spooler: both, id: 'new' })).isDuplicate, true)
    const batch = new Batch({ spooler: both, allOrNothing: true })
    for (const n of ['b1', 'b2']) batch.add({ n })
    await batch.spool()
    const typed = await spoold(['enqueue', '--spooler', both, 'n=typed'])
    assert.ok(typed.stdout.startsWith(fallback), typed.stderr)
    await assert.rejects(spool({ n: 'bad' }, { spooler: both, priority: 9_999_999 }), {
      code: 'REQUEST_INVALID',
    })
    assert.equal(tasksIn(fallback).length, 9)
    const daemon = await daemonOn(spooler, { handler: TELLING, ini: { 'spooler-fallback': fallback } })
    await daemon.waitFor('tasks wait here until they can be forwarded: no connection to redis://')
    await redis.restart()
    await until('all tasks are forwarded', () => tasksIn(fallback).length === 0)
    await until('all tasks but the one for later have run', () => daemon.journal().length === 8)
    const [, score] = await redis.client.zrange('bull:kept:delayed', 0, -1, 'WITHSCORES')
    assert.equal(Math.floor(Number(score) / 4096 / 1000), at, 'what is not due waits in Redis')
    const ran = ranIn(daemon.journal())
    const order = ran.map(([n]) => n).filter(n => ['first', 'second', 'new', 'b1', 'b2', 'typed'].includes(n))
    assert.deepEqual(order, ['first', 'second', 'new', 'b1', 'b2', 'typed'])
    assert.equal(ran.filter(([n]) => n === 'known').length, 1)
    const urgent = ran.find(([n]) => n === 'urgent')
    assert.deepEqual(urgent?.slice(1, 3), [3, body.length])
    assert.equal(daemon.output.split('tasks wait here').length, 2, 'it is said once')
    await until(
      'no deduplication key is left in Redis',
      async () => (await redis.client.keys('bull:kept:de:*')).length === 0,
    )
  })

  it('stores in Redis when the directory cannot be made, and says why both fail when Redis is away, too', async () => {
    await redis.restart()
    const parent = join(workspace(), 'mount')
    const spooler = `${redis.address('unusable')}?fallback=${join(parent, 'spool')}`
    assert.match(await spool({ n: 'stored' }, { spooler }), /^redis:/)
    const typed = await spoold(['enqueue', '--spooler', spooler, 'n=typed'])
    assert.match(typed.stdout, /^redis:/, typed.stderr)
    await redis.kill()
    for (const n of ['asked', 'left alone'])
      await assert.rejects(spool({ n }, { spooler }), {
        code: 'REDIS_UNREACHABLE',
        message:
          /no connection to redis:.*; and the directory for that cannot take it: .*mount does not exist/,
      })
    const refused = await spoold(['enqueue', '--spooler', spooler, 'n=typed'])
    assert.equal(refused.code, 75, refused.stderr)
    mkdirSync(parent)
    const stored = await spool({ n: 'kept' }, { spooler })
    assert.ok(stored.startsWith(parent), stored)
  })

  it('stores tasks of enqueue --socket in the directory of spooler-fallback while Redis is away', async () => {
    await redis.restart()
    const directory = workspace()
    const { fallback, spooler } = place('taken')
    const socket = join(directory, 'a.sock')
    const daemon = await daemonOn(spooler, {
      handler: TELLING,
      ini: { 'spooler-fallback': fallback, socket },
    })
    for (const to of [[], [`spooler=${spooler}`]]) {
      const sent = await spoold(['enqueue', '--socket', socket, 'n=sent', ...to])
      assert.equal(sent.code, 0, sent.stderr)
    }
    await until('both tasks have run', () => daemon.journal().length === 2)
    await redis.kill()
    const sent = await spoold(['enqueue', '--socket', socket, 'n=away'])
    assert.equal(sent.code, 0, sent.stderr)
    await until('the task is in the directory', () => tasksIn(fallback).length === 1)
    await redis.restart()
    await until('the task from the directory has run', () => daemon.journal().length === 3)
  })
})

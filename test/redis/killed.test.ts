import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { spool } from '#src/client/spool.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const TASKS = 200
/** A task that is to die waits for that; all say when they begin and end. */
const FRAGILE = (gate: string) => `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL('began ' + env.n + ' ' + process.pid)
  while (env.do === 'hang' && !existsSync(${JSON.stringify(gate)})) await setTimeout(20)
  JOURNAL('ended ' + env.n)
  return task.SPOOL_OK
}`

describe('a daemon on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis({ durability: 'always' })
  before(() => redis.ready())
  const began = (lines: readonly string[], n: string) => lines.filter(line => line.startsWith(`began ${n} `))
  const pidIn = (line = '') => Number(line.split(' ')[2])
  const failedOf = (name: string) => redis.client.zrange(`bull:${name}:failed`, 0, -1)

  it('whose worker is killed runs its task again within seconds, and at most once not at all', async () => {
    const spooler = redis.address('worker')
    const gate = join(workspace(), 'gate')
    const daemon = await daemonOn(spooler, { handler: FRAGILE(gate), ini: { 'spooler-processes': 2 } })
    await spool({ n: 'often', do: 'hang' }, { spooler })
    await spool({ n: 'once', do: 'hang', spooler_delivery: 'at-most-once' }, { spooler })
    const both = () => ['often', 'once'].every(n => began(daemon.journal(), n).length === 1)
    await until('both run', both)
    const killedAt = performance.now()
    for (const n of ['often', 'once']) process.kill(pidIn(began(daemon.journal(), n)[0]), 'SIGKILL')
    await until('one runs again', () => began(daemon.journal(), 'often').length === 2)
    const tookMs = performance.now() - killedAt
    writeFileSync(gate, '')
    await until('it has ended', () => daemon.journal().includes('ended often'))
    await until('the other is dead', async () => (await failedOf('worker')).length === 1)
    assert.equal(began(daemon.journal(), 'once').length, 1)
    assert.ok(tookMs < 12_000, `a lock takes 15 s to expire, and this took ${tookMs} ms`)
  })

  it('that is killed with its workers leaves its tasks to another one', async () => {
    const spooler = `${redis.address('daemon')}?lock=3&check=1`
    const gate = join(workspace(), 'gate')
    const handler = FRAGILE(gate)
    const first = await daemonOn(spooler, { handler, isGroup: true })
    await spool({ n: 'often', do: 'hang' }, { spooler })
    await until('it runs', () => began(first.journal(), 'often').length === 1)
    process.kill(-first.pid, 'SIGKILL')
    const killedAt = performance.now()
    writeFileSync(gate, '')
    const second = await daemonOn(spooler, { handler })
    await until('it has run', () => second.journal().includes('ended often'))
    const tookMs = performance.now() - killedAt
    assert.equal(began(second.journal(), 'often').length, 1)
    assert.ok(tookMs < 12_000, `a lock of 3 s is over soon, and this took ${tookMs} ms`)
  })

  it('keeps a task whose handler blocks its process for several times its lock', async () => {
    const spooler = `${redis.address('blocked')}?lock=1&check=1`
    const handler = `export default (env, task) => {
      JOURNAL('began ' + env.n + ' ' + process.pid)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6000)
      JOURNAL('ended ' + env.n)
      return task.SPOOL_OK
    }`
    const daemons = await Promise.all([1, 2].map(() => daemonOn(spooler, { handler })))
    const lines = () => daemons.flatMap(daemon => daemon.journal())
    await spool({ n: 'often' }, { spooler })
    await until('it has ended', () => lines().includes('ended often'))
    await until('it is settled', async () => (await redis.client.llen('bull:blocked:active')) === 0)
    assert.equal(began(lines(), 'often').length, 1)
    assert.deepEqual(
      [await failedOf('blocked'), await redis.client.zcard('bull:blocked:prioritized')],
      [[], 0],
    )
  })

  it('that is stopped leaves a task that outlives its mercy as it was', async () => {
    const spooler = redis.address('stopped')
    const gate = join(workspace(), 'gate')
    const handler = FRAGILE(gate)
    const first = await daemonOn(spooler, { handler, ini: { 'worker-reload-mercy': 1 } })
    await spool({ n: 'long', do: 'hang', spooler_delivery: 'at-least-once' }, { spooler })
    await until('it runs', () => began(first.journal(), 'long').length === 1)
    first.child.kill('SIGTERM')
    assert.equal(await first.code(), 0)
    const [id = ''] = await redis.client.zrange('bull:stopped:prioritized', 0, -1)
    const record = JSON.parse((await redis.client.hget(`bull:stopped:${id}`, 'progress')) ?? '{}')
    assert.deepEqual(record.lastRun, { kind: 'blameless' })
    writeFileSync(gate, '')
    const second = await daemonOn(spooler, { handler })
    await until('it has run', () => second.journal().includes('ended long'))
  })

  // What is restarted in a test ends with it, so these are the last ones.

  it('waits for a Redis that is killed under load: nothing that was acknowledged is lost, or run twice at most once', async () => {
    const spooler = redis.address('load')
    const daemon = await daemonOn(spooler, {
      handler: FRAGILE('/nowhere'),
      ini: { 'spooler-processes': 2, 'spooler-delivery': 'at-most-once' },
    })
    const stored: string[] = []
    const storing = (async () => {
      for (let n = 0; n < TASKS; n++)
        await spool({ n: String(n) }, { spooler }).then(
          () => stored.push(String(n)),
          () => {}, // not acknowledged
        )
    })()
    for (let kills = 1; kills <= 2; kills++) {
      await until('some have run', () => daemon.journal().length > 40 * kills || stored.length === TASKS)
      await redis.kill()
      await until('it is noticed', () => daemon.output.split('waiting for Redis').length === kills + 1)
      await redis.restart()
      await until('it is back', () => daemon.output.split('Redis answers again').length === kills + 1)
    }
    await storing
    await spool({ n: 'after' }, { spooler })
    const left = async () => {
      const counts = await Promise.all([
        redis.client.zcard('bull:load:prioritized'),
        redis.client.llen('bull:load:active'),
        redis.client.llen('bull:load:wait'),
        redis.client.zcard('bull:load:delayed'),
      ])
      return counts.reduce((sum, count) => sum + count, 0)
    }
    await until('all are done or dead', async () => (await left()) === 0)
    const lines = daemon.journal()
    const dead = (await failedOf('load')).length
    for (const n of stored) assert.ok(began(lines, n).length <= 1, `${n} began twice`)
    const lost = stored.filter(n => began(lines, n).length === 0)
    assert.ok(lost.length <= dead, `${lost.length} of ${stored.length} never began, and ${dead} are dead`)
    assert.ok(dead <= 8, `${dead} are dead`)
    assert.ok(stored.length > 0 && began(lines, 'after').length === 1)
    assert.ok(
      daemon.output.split('\n').filter(line => /died|respawn/.test(line)).length === 0,
      'a worker died',
    )
  })

  it('that starts without Redis says so once, and begins when it is there', async () => {
    const spooler = redis.address('absent')
    await redis.kill()
    const since = performance.now()
    await assert.rejects(spool({ n: '1' }, { spooler }), { code: 'REDIS_UNREACHABLE' })
    assert.ok(performance.now() - since < 20_000)
    const daemon = await daemonOn(spooler, { handler: FRAGILE('/nowhere') })
    await daemon.waitFor('waiting for Redis: no connection to redis://127.0.0.1:')
    await redis.restart()
    await spool({ n: '1' }, { spooler })
    await until('it has run', () => daemon.journal().includes('ended 1'))
    assert.equal(daemon.output.split('waiting for Redis').length, 2)
    assert.equal(existsSync(join(daemon.directory, 'redis:')), false)
  })
})

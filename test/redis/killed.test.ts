import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { spool } from '#src/engines/client/spool.js'
import { childrenOf, isAlive } from '../helpers/process.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const TASKS = 200
const KILLS = isLong ? 100 : 15
/** The query of a lock that lasts longer than any test waits. */
const LONG_LOCK = 'lock=3000&check=1000'
/** Journals when each run begins and ends. A task with do=hang waits for the file `gate`. */
const FRAGILE = (gate: string) => `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL('began ' + env.n + ' ' + process.pid)
  while (env.do === 'hang' && !existsSync(${JSON.stringify(gate)})) await setTimeout(20)
  JOURNAL('ended ' + env.n)
  return task.SPOOL_OK
}`

/** Journals when each run begins. */
const QUICK = `
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL(JSON.stringify([Number(env.n), process.pid, Date.now()]))
  await setTimeout(Math.random() * 20)
  return task.SPOOL_OK
}`

describe('a daemon on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis({ durability: 'always' })
  before(() => redis.ready())
  const began = (lines: readonly string[], n: string) => lines.filter(line => line.startsWith(`began ${n} `))
  const pidIn = (line = '') => Number(line.split(' ')[2])
  const failedOf = (name: string) => redis.client.zrange(`bull:${name}:failed`, 0, -1)

  it('runs the task of a killed worker again at once, and never again if it is at-most-once', async () => {
    const spooler = `${redis.address('worker')}?${LONG_LOCK}`
    const gate = join(workspace(), 'gate')
    const daemon = await daemonOn(spooler, { handler: FRAGILE(gate), ini: { 'spooler-processes': 2 } })
    await spool({ n: 'often', do: 'hang' }, { spooler })
    await spool({ n: 'once', do: 'hang', spooler_delivery: 'at-most-once' }, { spooler })
    const both = () => ['often', 'once'].every(n => began(daemon.journal(), n).length === 1)
    await until('both tasks run', both)
    for (const n of ['often', 'once']) process.kill(pidIn(began(daemon.journal(), n)[0]), 'SIGKILL')
    await until('the at-least-once task runs again', () => began(daemon.journal(), 'often').length === 2)
    writeFileSync(gate, '')
    await until('the second run has ended', () => daemon.journal().includes('ended often'))
    await until('the at-most-once task is dead', async () => (await failedOf('worker')).length === 1)
    assert.equal(began(daemon.journal(), 'once').length, 1)
  })

  it('names no task in the log when a worker is killed before it has claimed its batch, and runs the task', async () => {
    const spooler = redis.address('unclaimed')
    const daemon = await daemonOn(spooler, { ini: { 'spooler-processes': 1 } })
    const [worker = 0] = daemon.workers()
    process.kill(worker, 'SIGSTOP')
    await spool({ n: 'given' }, { spooler })
    await until('the worker was given the task', () => {
      daemon.child.kill('SIGTTIN')
      return /ready: runs nothing; 1 ahead|ready: runs \S+ for/.test(daemon.output)
    })
    process.kill(worker, 'SIGKILL')
    await daemon.waitFor(`pid: ${worker}] the process was killed by SIGKILL\n`)
    await until('the task has run', () => daemon.journal().length === 1)
  })

  it('runs the tasks of workers that are killed at any moment again before their locks end', async t => {
    const spooler = `${redis.address('moments')}?${LONG_LOCK}`
    const settings = { 'spooler-processes': 2, 'spooler-concurrency': 3, 'spooler-max-crashes': 0 }
    const daemon = await daemonOn(spooler, { handler: QUICK, ini: settings })
    let [stored, isOver] = [0, false]
    const storing = (async () => {
      for (; !isOver; stored++) await spool({ n: stored }, { spooler })
    })()
    const killed: [pid: number, at: number][] = []
    const runs = () => daemon.journal().map(line => JSON.parse(line) as [n: number, pid: number, at: number])
    while (killed.length < KILLS) {
      const before = runs().length
      await until('some tasks have run', () => runs().length > before + Math.random() * 40)
      const [pid] = childrenOf(daemon.pid).filter(
        each => isAlive(each) && runs().some(([, ran]) => ran === each),
      )
      if (pid === undefined) continue
      killed.push([pid, Date.now()])
      process.kill(pid, 'SIGKILL')
    }
    isOver = true
    await storing
    await until('all tasks have run', () => new Set(runs().map(([n]) => n)).size === stored)
    await until('no job is active', async () => (await redis.client.llen('bull:moments:active')) === 0)
    // from the kill to the next run, which needs a new worker and runs alone; a run that died alone delays it further
    const tookMs = killed.flatMap(([pid, at]) =>
      runs().flatMap(([n, ran], i, all) => {
        const next = ran === pid ? all.slice(i + 1).find(each => each[0] === n) : undefined
        return next === undefined ? [] : [next[2] - at]
      }),
    )
    t.diagnostic(`${stored} tasks; ${tookMs.length} ran again after at most ${Math.max(0, ...tookMs)} ms`)
  })

  it('counts nothing against the task that runs when code that an ended task has left behind ends the process', async () => {
    const spooler = `${redis.address('behind')}?${LONG_LOCK}`
    const [late, gate] = [join(workspace(), 'late'), join(workspace(), 'gate')]
    const daemon = await daemonOn(spooler, {
      ini: { 'spooler-processes': 1 },
      handler: `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const exitBehind = async () => {
  while (!existsSync(${JSON.stringify(late)})) await setTimeout(5)
  process.exit(1)
}
export default async (env, task) => {
  JOURNAL(env.n + ' ' + task.attempt)
  if (env.n === 'leaves') exitBehind()
  else while (!existsSync(${JSON.stringify(gate)})) await setTimeout(5)
  JOURNAL('ended ' + env.n)
  return task.SPOOL_OK
}`,
    })
    await spool({ n: 'leaves' }, { spooler })
    await until('the first task has ended', () => daemon.journal().includes('ended leaves'))
    await spool({ n: 'innocent' }, { spooler })
    await until('the innocent task runs', () => daemon.journal().includes('innocent 1'))
    writeFileSync(late, '')
    const begins = () => daemon.journal().filter(line => line.startsWith('innocent '))
    await until('it runs again', () => begins().length === 2)
    writeFileSync(gate, '')
    await until('it has ended', () => daemon.journal().includes('ended innocent'))
    assert.deepEqual(begins(), ['innocent 1', 'innocent 1'])
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('leaves its tasks to another daemon when it is killed together with its workers', async () => {
    const spooler = `${redis.address('daemon')}?lock=3&check=1`
    const gate = join(workspace(), 'gate')
    const handler = FRAGILE(gate)
    const first = await daemonOn(spooler, { handler, isGroup: true })
    await spool({ n: 'often', do: 'hang' }, { spooler })
    await until('the task runs', () => began(first.journal(), 'often').length === 1)
    const [id] = await redis.client.lrange('bull:daemon:active', 0, -1)
    assert.ok((await redis.client.pttl(`bull:daemon:${id}:lock`)) <= 3000)
    process.kill(-first.pid, 'SIGKILL')
    writeFileSync(gate, '')
    const second = await daemonOn(spooler, { handler })
    await until('the second daemon has run the task', () => second.journal().includes('ended often'))
    assert.equal(began(second.journal(), 'often').length, 1)
  })

  it('runs a task once even if its handler blocks its worker for several times the lock', async () => {
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
    await until('the run has ended', () => lines().includes('ended often'))
    await until('the task is settled', async () => (await redis.client.llen('bull:blocked:active')) === 0)
    assert.equal(began(lines(), 'often').length, 1)
    assert.deepEqual(
      [await failedOf('blocked'), await redis.client.zcard('bull:blocked:prioritized')],
      [[], 0],
    )
  })

  it('does not blame a task that outlives worker-reload-mercy when it stops', async () => {
    const spooler = redis.address('stopped')
    const gate = join(workspace(), 'gate')
    const handler = FRAGILE(gate)
    const first = await daemonOn(spooler, { handler, ini: { 'worker-reload-mercy': 1 } })
    await spool({ n: 'long', do: 'hang', spooler_delivery: 'at-least-once' }, { spooler })
    await until('the task runs', () => began(first.journal(), 'long').length === 1)
    first.child.kill('SIGTERM')
    await redis.client.call('CLIENT', 'PAUSE', 1800, 'WRITE') // mercy is over before Redis answers
    assert.equal(await first.code(), 0)
    const [id = ''] = await redis.client.zrange('bull:stopped:prioritized', 0, -1)
    const record = JSON.parse((await redis.client.hget(`bull:stopped:${id}`, 'progress')) ?? '{}')
    assert.deepEqual(record.lastRun, { kind: 'blameless' })
    writeFileSync(gate, '')
    const second = await daemonOn(spooler, { handler })
    await until('the second daemon has run the task', () => second.journal().includes('ended long'))
  })

  // A Redis that a test restarts ends with that test, so these tests are the last ones.

  it('loses no acknowledged task and begins no at-most-once task twice while Redis is killed under load', async () => {
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
      await until(
        'some tasks have run',
        () => daemon.journal().length > 40 * kills || stored.length === TASKS,
      )
      await redis.kill()
      await until(
        'the daemon says that it waits for Redis',
        () => daemon.output.split('waiting for Redis').length === kills + 1,
      )
      await redis.restart()
      await until(
        'the daemon says that Redis answers again',
        () => daemon.output.split('Redis answers again').length === kills + 1,
      )
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
    await until('all tasks are done or dead', async () => (await left()) === 0)
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

  it('says once that it starts without Redis, and runs tasks when Redis is there', async () => {
    const spooler = redis.address('absent')
    await redis.kill()
    const since = performance.now()
    await assert.rejects(spool({ n: '1' }, { spooler }), { code: 'REDIS_UNREACHABLE' })
    assert.ok(performance.now() - since < 20_000)
    const daemon = await daemonOn(spooler, { handler: FRAGILE('/nowhere') })
    await daemon.waitFor('waiting for Redis: no connection to redis://127.0.0.1:')
    await redis.restart()
    await spool({ n: '1' }, { spooler })
    await until('the task has run', () => daemon.journal().includes('ended 1'))
    assert.equal(daemon.output.split('waiting for Redis').length, 2)
    assert.equal(existsSync(join(daemon.directory, 'redis:')), false)
  })
})

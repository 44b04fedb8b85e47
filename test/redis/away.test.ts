import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { spool } from '#src/engines/client/spool.js'
import { ARGS_KEY, TASK_KEY } from '#src/formats/protocol/named.js'
import { movableClock } from '../helpers/clock.js'
import { PYTHON } from '../helpers/python.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { patience, stopwatch, until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

/** How long Redis is away. */
const AWAY_MS = process.env.SPOOLD_TEST_LONG === undefined ? 5000 : 60_000
/** A daemon runs tasks again within this time. */
const BACK_MS = 2000
const TELLING = `
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL(JSON.stringify([env.n, Date.now()]))
  if (env.do === 'hang') await setTimeout(600_000)
  return task.SPOOL_OK
}`
const ranIn = (lines: readonly string[]) => lines.map(line => JSON.parse(line) as [string, number])

describe('a daemon whose Redis goes away', { skip: skipUnless('redis-server') }, () => {
  const isThere = skipUnless('redis-server') === false
  let [redis, replica]: [TestRedis | undefined, TestRedis | undefined] = [undefined, undefined]
  if (isThere) [redis, replica] = [startRedis({ durability: 'always' }), startRedis({ durability: 'always' })]
  before(() => Promise.all([redis?.ready(), replica?.ready()]))
  const both = () => {
    assert.ok(redis !== undefined && replica !== undefined)
    return { redis, replica }
  }

  it('never runs a task before its time with a fast clock, and runs it late by as much as its clock is slow', async () => {
    const { redis } = both()
    for (const [name, seconds] of [
      ['fast', 3600],
      ['slow', -2],
    ] as const) {
      const clock = movableClock()
      clock.jump(seconds)
      const spooler = redis.address(name)
      const daemon = await daemonOn(spooler, { handler: TELLING, env: clock.env })
      const at = Math.ceil(Date.now() / 1000) + 3
      await spool({ n: name }, { spooler, at })
      await until('the task has run', () => daemon.journal().length === 1, 20_000)
      const lateMs = (ranIn(daemon.journal())[0]?.[1] ?? 0) - seconds * 1000 - at * 1000
      assert.ok(lateMs > -50, `it ran ${-lateMs} ms too early`)
      assert.ok(lateMs > -seconds * 1000 - 50, `BullMQ moved it ${lateMs} ms late, by the clock of Redis?`)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
    }
  })

  it('runs every task that was acknowledged under ?wait=1 on the replica that takes over', async () => {
    const { redis, replica } = both()
    await replica.client.replicaof('127.0.0.1', redis.port)
    const acknowledged: string[] = []
    const spooler = `${redis.address('over')}?wait=1`
    await until('the replica has acknowledged a task', () =>
      spool({ n: 'first' }, { spooler, id: 'first' }).catch(() => false),
    )
    let [begun, isKilled] = [0, false]
    const store = async () => {
      const stored: Promise<unknown>[] = []
      for (; !isKilled; begun++) {
        const n = String(begun)
        const noteIt = () => acknowledged.push(n)
        stored.push(spool({ n }, { spooler }).then(noteIt, () => {})) // a task that is refused is not acknowledged
        await setTimeout(5)
      }
      await Promise.all(stored)
    }
    const storing = store()
    await until('some tasks are stored', () => acknowledged.length > 40)
    await redis.kill()
    isKilled = true
    await replica.client.replicaof('NO', 'ONE')
    await storing
    assert.ok(acknowledged.length < begun, 'it was killed in the middle')
    const daemon = await daemonOn(replica.address('over'), { handler: TELLING })
    const left = () => {
      const ran = new Set(ranIn(daemon.journal()).map(([n]) => n))
      return acknowledged.filter(n => !ran.has(n))
    }
    await until('all acknowledged tasks have run', () => left().length === 0, 20_000)
  })

  it('is back soon after Redis, logs little, and replaces only the worker that spooler-harakiri killed', async () => {
    const { redis } = both()
    await redis.restart() // this Redis ends with this test
    const spooler = redis.address('away')
    const daemon = await daemonOn(spooler, {
      handler: TELLING,
      ini: { 'spooler-processes': 2, 'spooler-harakiri': 2, 'spooler-delivery': 'at-most-once' },
    })
    await spool({ n: 'hanging', do: 'hang' }, { spooler })
    await until('the hanging task runs', () => daemon.journal().length === 1)
    for (let n = 0; n < 50; n++) await spool({ n: String(n) }, { spooler })
    await until('the other tasks run', () => daemon.journal().length > 10)
    await redis.kill()
    await daemon.waitFor('waiting for Redis')
    const from = daemon.output.length
    await setTimeout(AWAY_MS) // the time that the test is about
    const said = daemon.output.slice(from).split('\n')
    assert.ok(said.length < 20, `it said ${said.length} lines:\n${said.join('\n')}`)
    const spawned = daemon.output.match(/spawned/g)?.length ?? 0
    await redis.restart()
    const since = performance.now()
    await daemon.waitFor('Redis answers again')
    await spool({ n: 'after' }, { spooler })
    await until('the task stored afterwards runs', () => ranIn(daemon.journal()).some(([n]) => n === 'after'))
    const tookMs = performance.now() - since
    assert.ok(tookMs < BACK_MS * patience(), `it took ${tookMs} ms`)
    await until('the killed task is dead', async () => {
      const failed = await redis.client.zrange('bull:away:failed', 0, -1)
      const data = await Promise.all(failed.map(id => redis.client.hget(`bull:away:${id}`, 'data')))
      return data.some(text =>
        Buffer.from(JSON.parse(text ?? '{}').packet ?? '', 'base64').includes('hanging'),
      )
    })
    const ran = ranIn(daemon.journal()).map(([n]) => n)
    assert.equal(ran.length, new Set(ran).size, 'none ran twice')
    assert.ok(
      (daemon.output.match(/spawned/g)?.length ?? 0) <= spawned + 1,
      'no process but the killed one was replaced',
    )
  })
})

it('a run that has ended is not killed by spooler-harakiri while its Redis is frozen, and does not run again', {
  skip: skipUnless('redis-server'),
}, async () => {
  const redis = startRedis({ durability: 'always' })
  await redis.ready()
  const spooler = redis.address('ended')
  const handler = `
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL('begun')
  await setTimeout(500)
  JOURNAL('ended')
  return task.SPOOL_OK
}`
  const daemon = await daemonOn(spooler, { handler, ini: { 'spooler-harakiri': 2 } })
  await spool({}, { spooler })
  await until('the task runs', () => daemon.journal().length === 1)
  redis.signal('SIGSTOP')
  await until('the run has ended', () => daemon.journal().length === 2)
  await setTimeout(4000) // the time that the test is about
  redis.signal('SIGCONT')
  await daemon.waitFor(/done with task/)
  assert.deepEqual(daemon.journal(), ['begun', 'ended'])
  assert.doesNotMatch(daemon.output, /HARAKIRI/)
})

it('a run that blocks its process is killed by spooler-harakiri while the outcome of another run is on its way to Redis', {
  skip: skipUnless('redis-server'),
}, async () => {
  const redis = startRedis()
  await redis.ready()
  const spooler = redis.address('blocked')
  const handler = `
export default (env, task) => {
  JOURNAL(env.do)
  while (env.do === 'block');
  return task.SPOOL_OK
}`
  await spool({ do: 'end' }, { spooler })
  await spool({ do: 'block' }, { spooler })
  const ini = { 'spooler-concurrency': 2, 'spooler-harakiri': 2, 'spooler-max-crashes': 1 }
  const daemon = await daemonOn(spooler, { handler, ini })
  await until('a task blocks', () => daemon.journal().includes('block'))
  await daemon.waitFor('HARAKIRI', 10_000)
})

it('set_user_harakiri ends with its run, even while another task runs in the worker and Redis is frozen', {
  skip: skipUnless('redis-server', 'python3'),
}, async () => {
  const redis = startRedis({ durability: 'always' })
  await redis.ready()
  const spooler = redis.address('own')
  const file = join(workspace(), 'tasks.py')
  writeFileSync(
    file,
    `import asyncio, uwsgi
from spoold import Tasks
tasks = Tasks()
@tasks.task(name='own')
async def own():
    uwsgi.set_user_harakiri(2)
    print('own begun')
    await asyncio.sleep(0.5)
    print('own ended')
@tasks.task(name='beside')
async def beside():
    print('beside begun')
    await asyncio.sleep(6)
    print('beside ended')`,
  )
  const ini = { 'spooler-import': file, python: PYTHON, 'spooler-concurrency': 2, 'spooler-processes': 1 }
  const daemon = await daemonOn(spooler, { isForeign: true, ini })
  for (const name of ['beside', 'own']) {
    await spool({ [TASK_KEY]: name, [ARGS_KEY]: '[]' }, { spooler })
    await daemon.waitFor(`${name} begun`)
  }
  redis.signal('SIGSTOP')
  await daemon.waitFor('own ended')
  await daemon.waitFor('beside ended') // this is after the deadline
  redis.signal('SIGCONT')
  await until('both tasks are done', () => daemon.output.match(/done with task/g)?.length === 2)
  assert.equal(daemon.output.match(/begun/g)?.length, 2, daemon.output)
})

it('a daemon that waits for Redis at its start, or for its periodic tasks and schedules, stops at once', async () => {
  const nobody = 'redis://127.0.0.1:1/0/x'
  for (const state of [/spawned the uWSGI spooler on dir/, /is running \(pid: \d+\)/]) {
    const daemon = await daemonOn(nobody, { isUnready: true, ini: { cron: '-1 -1 -1 -1 -1 true' } })
    await daemon.waitFor(state)
    const stoppedMs = stopwatch(daemon.pid)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.ok(stoppedMs() < 2000, `it took ${stoppedMs()} ms`)
    assert.doesNotMatch(daemon.output, /not scheduled|no schedule fires/)
  }
})

for (const [how, away] of [
  ['has gone', (redis: TestRedis) => redis.kill()],
  ['is frozen', async (redis: TestRedis) => redis.signal('SIGSTOP')],
] as const)
  it(`a daemon that leads the schedules stops within 2 s when its Redis ${how}`, {
    skip: skipUnless('redis-server'),
  }, async () => {
    const redis = startRedis({ durability: 'always' })
    await redis.ready()
    const ini = { cron: '-1 -1 -1 -1 -1 true' }
    const daemon = await daemonOn(redis.address('leads'), { ini })
    await until(
      'the daemon leads the schedules',
      async () => (await redis.client.keys('*spoold:lease:*')).length === 1,
    )
    await away(redis)
    if (how === 'has gone') await daemon.waitFor('waiting for Redis')
    const stoppedMs = stopwatch(daemon.pid)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.ok(stoppedMs() < 2000, `it took ${stoppedMs()} ms`)
  })

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
/** A daemon is back after at most so long. */
const BACK_MS = 2000
const TELLING = `
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL(JSON.stringify([env.n, Date.now()]))
  if (env.do === 'hang') await setTimeout(600_000)
  return task.SPOOL_OK
}`
const ranIn = (lines: readonly string[]) => lines.map(line => JSON.parse(line) as [string, number])

describe('a daemon whose Redis goes', { skip: skipUnless('redis-server') }, () => {
  const isThere = skipUnless('redis-server') === false
  let [redis, replica]: [TestRedis | undefined, TestRedis | undefined] = [undefined, undefined]
  if (isThere) [redis, replica] = [startRedis({ durability: 'always' }), startRedis({ durability: 'always' })]
  before(() => Promise.all([redis?.ready(), replica?.ready()]))
  const both = () => {
    assert.ok(redis !== undefined && replica !== undefined)
    return { redis, replica }
  }

  it('looks at a task too early with a fast clock, and does not run it; with a slow one it is late by that', async () => {
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
      await until('it has run', () => daemon.journal().length === 1, 20_000)
      const lateMs = (ranIn(daemon.journal())[0]?.[1] ?? 0) - seconds * 1000 - at * 1000
      assert.ok(lateMs > -50, `it ran ${-lateMs} ms too early`)
      assert.ok(lateMs > -seconds * 1000 - 50, `BullMQ moved it ${lateMs} ms late, by the clock of Redis?`)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
    }
  })

  it('fails over to a replica, which has every task that waited for one', async () => {
    const { redis, replica } = both()
    await replica.client.replicaof('127.0.0.1', redis.port)
    const acknowledged: string[] = []
    const spooler = `${redis.address('over')}?wait=1`
    await until('it replicates', () => spool({ n: 'first' }, { spooler, id: 'first' }).catch(() => false))
    let [begun, isKilled] = [0, false]
    const store = async () => {
      const stored: Promise<unknown>[] = []
      for (; !isKilled; begun++) {
        const n = String(begun)
        const noteIt = () => acknowledged.push(n)
        stored.push(spool({ n }, { spooler }).then(noteIt, () => {})) // else it is not acknowledged
        await setTimeout(5)
      }
      await Promise.all(stored)
    }
    const storing = store()
    await until('some are stored', () => acknowledged.length > 40)
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
    await until('all that was acknowledged has run', () => left().length === 0, 20_000)
  })

  it('is back soon after it, says little, starts no process anew, and has killed what took too long', async () => {
    const { redis } = both()
    await redis.restart() // it ends with this test
    const spooler = redis.address('away')
    const daemon = await daemonOn(spooler, {
      handler: TELLING,
      ini: { 'spooler-processes': 2, 'spooler-harakiri': 2, 'spooler-delivery': 'at-most-once' },
    })
    await spool({ n: 'hanging', do: 'hang' }, { spooler })
    await until('it hangs', () => daemon.journal().length === 1)
    for (let n = 0; n < 50; n++) await spool({ n: String(n) }, { spooler })
    await until('the others run', () => daemon.journal().length > 10)
    await redis.kill()
    await daemon.waitFor('waiting for Redis')
    const from = daemon.output.length
    await setTimeout(AWAY_MS) // what is tested is that time passes
    const said = daemon.output.slice(from).split('\n')
    assert.ok(said.length < 20, `it said ${said.length} lines:\n${said.join('\n')}`)
    const spawned = daemon.output.match(/spawned/g)?.length ?? 0
    await redis.restart()
    const since = performance.now()
    await daemon.waitFor('Redis answers again')
    await spool({ n: 'after' }, { spooler })
    await until('it runs', () => ranIn(daemon.journal()).some(([n]) => n === 'after'))
    const tookMs = performance.now() - since
    assert.ok(tookMs < BACK_MS * patience(), `it took ${tookMs} ms`)
    await until('what was killed is dead', async () => {
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

it('a run that has ended overruns nothing while its Redis is frozen, and does not run again', {
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
  await until('it runs', () => daemon.journal().length === 1)
  redis.signal('SIGSTOP')
  await until('it has ended', () => daemon.journal().length === 2)
  await setTimeout(4000) // what is tested is that time passes
  redis.signal('SIGCONT')
  await daemon.waitFor(/done with task/)
  assert.deepEqual(daemon.journal(), ['begun', 'ended'])
  assert.doesNotMatch(daemon.output, /HARAKIRI/)
})

it('the deadline that a run has set itself is over when it has ended, also beside another one while its Redis is frozen', {
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
  await daemon.waitFor('beside ended') // after the deadline
  redis.signal('SIGCONT')
  await until('both are done', () => daemon.output.match(/done with task/g)?.length === 2)
  assert.equal(daemon.output.match(/begun/g)?.length, 2, daemon.output)
})

it('a daemon that waits for its Redis while it starts, or for its periodic tasks and schedules, is stopped at once', async () => {
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
  it(`a daemon that leads the schedules, and whose Redis ${how}, is stopped soon`, {
    skip: skipUnless('redis-server'),
  }, async () => {
    const redis = startRedis({ durability: 'always' })
    await redis.ready()
    const ini = { cron: '-1 -1 -1 -1 -1 true' }
    const daemon = await daemonOn(redis.address('leads'), { ini })
    await until('it leads', async () => (await redis.client.keys('*spoold:lease:*')).length === 1)
    await away(redis)
    if (how === 'has gone') await daemon.waitFor('waiting for Redis')
    const stoppedMs = stopwatch(daemon.pid)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.ok(stoppedMs() < 2000, `it took ${stoppedMs()} ms`)
  })

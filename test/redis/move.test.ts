import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { enqueue } from '#src/engines/client/spool.js'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const TASKS = isLong ? 5000 : 600
const HANDLER = `export default async (env, task) => {
  JOURNAL(env.n)
  await new Promise(resolve => setTimeout(resolve, 20))
  return task.SPOOL_OK
}`
const IN_AN_HOUR = Math.floor(Date.now() / 1000) + 3600

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await inProcess(args)
  assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
  return stdout
}

type Row = Record<string, unknown> & { readonly values: { readonly n: string } }

async function listed(spooler: string, ...flags: string[]): Promise<Row[]> {
  const rows = (await run('ls', spooler, '--json', '--show', 'n', ...flags)).split('\n').filter(Boolean)
  return rows.map(row => JSON.parse(row) as Row)
}

describe('spoold move between a directory and Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis({ durability: 'always' })
  before(() => redis.ready())

  it('keeps bytes, order, priority, time, hold and failures of tasks, to Redis and back', async () => {
    const [from, back, spooler] = [spoolDirectory(), spoolDirectory(), redis.address('kept')]
    const failing = await startDaemon({
      spool: from,
      handler: `export default env => { if (env.n === 'failing') throw new Error('not here') }`,
      ini: { 'spooler-ordered': true, 'spooler-retry-delay': 3600 },
    })
    drop(from, 'uwsgi_spoolfile_on_failing', packet({ n: 'failing' }))
    await until('the failed task is retrying', async () => (await listed(from))[0]?.state === 'retrying')
    failing.child.kill('SIGTERM')
    await failing.code()
    const body = randomBytes(300_000)
    const bytes = Buffer.concat([packet({ n: 'large' }), body])
    drop(from, 'uwsgi_spoolfile_on_large', bytes)
    await enqueue({ n: 'urgent' }, { spooler: from, priority: 7 })
    await enqueue({ n: 'later' }, { spooler: from, at: IN_AN_HOUR })
    await enqueue({ n: 'held' }, { spooler: from, at: IN_AN_HOUR })
    for (let i = 1; i <= 9; i++)
      drop(from, `uwsgi_spoolfile_on_h_1_${i}_5_1700000000_${i}`, packet({ n: String(i) }))
    await run('hold', from, '--key', 'n=held')
    const picture = async (spool: string) => {
      const rows = await listed(spool, '--sort', 'name')
      const pairs = rows.map(({ values, state, priority, due, attempts, lastError }) => [
        values.n,
        { state, priority, due: state === 'due' || due, attempts: attempts || undefined, lastError },
      ])
      return Object.fromEntries(pairs)
    }
    const wanted = await picture(from)
    assert.equal(wanted.failing.state, 'retrying')
    await run('move', from, '--all', '--quiet', '--to', spooler)
    assert.deepEqual(await listed(from), [])
    assert.deepEqual(await picture(spooler), wanted)
    const order = (await listed(spooler, '--state', 'due')).map(({ values }) => values.n)
    assert.deepEqual(
      order.filter(n => /^\d$/.test(n)),
      ['1', '2', '3', '4', '5', '6', '7', '8', '9'],
    )
    assert.equal(order[0], 'urgent')
    await run('move', spooler, '--all', '--quiet', '--to', back)
    assert.deepEqual(await picture(back), wanted)
    const due = (await listed(back, '--state', 'due')).map(({ values }) => values.n)
    assert.deepEqual(
      due.filter(n => /^\d$/.test(n)),
      ['1', '2', '3', '4', '5', '6', '7', '8', '9'],
    )
    const large = (await listed(back, '--key', 'n=large'))[0]
    assert.ok(readFileSync(join(back, String(large?.name))).equals(bytes))
    await run('release', back, '--key', 'n=held')
    assert.equal((await listed(back, '--key', 'n=held'))[0]?.state, 'waiting')
  })

  it('leaves tasks that Redis cannot take as they were, says why, and moves the others', async () => {
    const [from, spooler] = [spoolDirectory(), redis.address('refused')]
    await enqueue({ n: 'large' }, { spooler: from, body: Buffer.alloc(17 * 1024 * 1024), at: IN_AN_HOUR })
    await enqueue({ n: 'far' }, { spooler: from, priority: 9_999_999 })
    await enqueue({ n: 'good' }, { spooler: from })
    const { code, stderr } = await inProcess(['move', from, '--all', '--to', spooler])
    assert.equal(code, 1)
    assert.match(stderr, /it has 17825\d+ bytes, and a spool on Redis takes at most 16777216/)
    assert.match(stderr, /priority: a spool on Redis has 0 to 2097150, got 9999999/)
    assert.match(stderr, /moved 1, 2 refused/)
    const left = (await listed(from)).map(({ values, state }) => `${values.n} ${state}`)
    assert.deepEqual(left.sort(), ['far due', 'large waiting'])
    assert.deepEqual(
      (await listed(spooler)).map(({ values }) => values.n),
      ['good'],
    )
  })

  it('leaves a running task alone, and moves one that waits', async () => {
    const [to, spooler] = [spoolDirectory(), redis.address('running')]
    const daemon = await daemonOn(spooler, {
      handler: `export default async (env, task) => {
        JOURNAL('begun')
        await new Promise(resolve => process.once('SIGUSR2', resolve))
        return task.SPOOL_OK
      }`,
      ini: { 'spooler-processes': 1 },
    })
    await enqueue({ n: 'running' }, { spooler })
    await until('the task runs', () => daemon.journal().length === 1)
    await enqueue({ n: 'waiting' }, { spooler })
    const { code, stderr } = await inProcess(['move', spooler, '--all', '--to', to])
    assert.equal(code, 1)
    assert.match(stderr, /is running; it was left alone\n.*moved 1, 1 running, left alone/s)
    for (const pid of daemon.children()) process.kill(pid, 'SIGUSR2')
    await until('the running task is done', async () => (await listed(spooler)).length === 0)
    assert.equal(leftIn(to).filter(name => name.startsWith('uwsgi')).length, 1)
  })

  // A Redis that a test restarts ends with that test, so this test is the last one.

  it(`loses and repeats none of ${TASKS} tasks while moves and Redis are killed and daemons run both spools`, async () => {
    const [directory, spooler] = [spoolDirectory(), redis.address('fro')]
    const ini = { 'spooler-delivery': 'at-most-once', 'spooler-processes': 1, 'spooler-quiet': true }
    const daemons = [
      await startDaemon({ spool: directory, handler: HANDLER, ini }),
      await daemonOn(spooler, { handler: HANDLER, ini }),
    ]
    for (let n = 0; n < TASKS; n++) drop(directory, `uwsgi_spoolfile_on_${n}`, packet({ n: String(n) }))
    const ran = () => daemons.flatMap(daemon => daemon.journal())
    const move = (from: string, to: string) =>
      new TestProcess(process.execPath, [BIN, 'move', '--all', '--quiet', '--to', to, from])
    let [kills, restarts] = [0, 0]
    let takesMs = 1500 // how long the last move took that was not killed
    for (let round = 0; ran().length < TASKS * 0.8; round++) {
      const began = performance.now()
      const going = round % 2 === 0 ? move(directory, spooler) : move(spooler, directory)
      void going.exited.then(({ code }) => {
        if (code === 0) takesMs = performance.now() - began
      })
      await sleep(Math.random() * takesMs) // it may be killed at any moment
      if (round % 3 === 1 && going.isRunning) {
        await redis.kill()
        await redis.restart()
        restarts++
      } else if (going.isRunning) {
        going.child.kill('SIGKILL')
        kills++
      }
      await going.exited
    }
    assert.ok(kills > 0 && restarts > 0, `${kills} kills, ${restarts} restarts`)
    const isLeft = async (spool: string, other: string) => {
      const { code } = await move(spool, other).exited
      return code !== 0 || (await listed(spool, '--state', 'held')).length > 0
    }
    await until(
      'a move to Redis ends and leaves no task held',
      async () => !(await isLeft(directory, spooler)),
      60_000,
    )
    await until(
      'a move to the directory ends and leaves no task held',
      async () => !(await isLeft(spooler, directory)),
      60_000,
    )
    const dead = async () =>
      (await redis.client.zcard('bull:fro:failed')) + (await listed(directory, '--state', 'dead')).length
    await until(
      'all tasks have run or are dead',
      async () => new Set(ran()).size + (await dead()) >= TASKS,
      60_000,
    )
    const lines = ran()
    assert.equal(new Set(lines).size, lines.length, 'none ran twice')
    assert.ok((await dead()) <= 2 * restarts, `${await dead()} are dead after ${restarts} restarts`)
  })
})

import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { enqueue } from '#src/engines/client/spool.js'
import { inProcess } from '../helpers/cli.js'
import type { Daemon } from '../helpers/daemon.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { daemonOn } from './redis-daemon.js'

const HANDLER = `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('tick', { periodicity: 3600 }, async () => {})
tasks.task('one', { maxConcurrency: 1, maxRetries: 1 }, async () => {})
export default async (env, task) => {
  JOURNAL(env.n ?? 'task')
  if (env.do === 'listen') await new Promise((_, no) => task.signal.addEventListener('abort', () => no(new Error('told'))))
  if (env.do === 'block') for (;;) {}
  return task.SPOOL_OK
}`

describe('operating a spool on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  /** Runs a command that has to exit with `code`. @returns its output */
  async function run(args: readonly string[], code = 0): Promise<string> {
    const result = await inProcess(args)
    assert.equal(result.code, code, `${args.join(' ')}: ${result.stdout}${result.stderr}`)
    return result.stdout + result.stderr
  }
  const start = (name: string, ini: Readonly<Record<string, string | number>> = {}) =>
    daemonOn(redis.address(name), { handler: HANDLER, ini: { 'spooler-processes': 1, ...ini } })
  const stop = async (daemon: Daemon) => {
    daemon.child.kill('SIGTERM')
    await daemon.code()
  }
  const statusOf = async (spooler: string, code: number) =>
    JSON.parse(await run(['status', spooler, '--json'], code)) as {
      level: string
      spools: Array<
        Record<string, unknown> & { tasks: Record<string, number>; states: Record<string, number> }
      >
    }

  it('status prints the states of tasks, Redis itself, and the daemon that runs the tasks', async () => {
    const spooler = redis.address('status')
    await enqueue({ n: 'due' }, { spooler, priority: 3 })
    await enqueue({ n: 'later' }, { spooler, at: new Date(Date.now() + 3_600_000) })
    const { path } = await enqueue({ n: 'held' }, { spooler })
    await run(['hold', path])
    const { level, spools } = await statusOf(spooler, 1)
    const [alone] = spools
    assert.deepEqual(
      [level, alone?.source, alone?.states],
      ['WARNING', 'redis', { due: 1, waiting: 1, held: 1 }],
    )
    assert.deepEqual([alone?.tasks.stored, alone?.tasks.priorities], [3, [{ priority: '3', due: 1 }]])
    const text = await run(['status', spooler, '--max-due', '5'], 1)
    assert.match(text, /no daemon answers;[\s\S]*due=1;[\s\S]*redis +version \d[\s\S]*appendonly is off/)
    await run(['status', spooler, '--max-due', '0'], 2)
    const daemon = await start('status')
    await until('the daemon is known', async () =>
      /daemon \d+ on /.test((await inProcess(['status', spooler])).stdout),
    )
    const [known] = (await statusOf(spooler, 0)).spools
    const { members, version } = (known ?? assert.fail()).redis as {
      members: Array<{ pid: number }>
      version: string
    }
    assert.deepEqual([known?.source, members.map(({ pid }) => pid)], ['daemon', [daemon.pid]])
    assert.match(version, /^\d/)
    await stop(daemon)
    assert.equal((await statusOf(spooler, 1)).spools[0]?.source, 'redis')
  })

  it('ls, show and status say of a dead letter without a reason that it is unknown, and requeue makes it due', async () => {
    const spooler = redis.address('unknown')
    const { path } = await enqueue({ n: 'a' }, { spooler })
    const id = path.slice(path.lastIndexOf('/') + 1)
    await redis.client.zrem('bull:unknown:prioritized', id)
    await redis.client.zadd('bull:unknown:failed', Date.now(), id)
    const { state, reason } = JSON.parse(await run(['ls', '--json', spooler]))
    assert.deepEqual([state, reason], ['dead', 'unknown'])
    assert.match(await run(['show', path]), /\(unknown\)[\s\S]*why: Redis has no reason\n/)
    assert.match(await run(['status', spooler], 1), / 1 \(1 unknown\)/)
    await run(['requeue', path])
    assert.equal(JSON.parse(await run(['ls', '--json', spooler])).state, 'due')
  })

  it('ls and status call a task of the year 2399, and one of the year 9999, waiting, beside one that is held', async () => {
    const spooler = redis.address('far')
    const { path } = await enqueue({ n: 'held' }, { spooler })
    await run(['hold', path])
    await enqueue({ n: 'far' }, { spooler, at: new Date('9999-12-31T23:59:59Z') })
    assert.match(await run(['status', spooler], 1), / 1 waiting \(next in \d{7} d\), 1 held, 2 in all/)
    await enqueue({ n: 'nearer' }, { spooler, at: new Date('2399-12-31') })
    assert.match(await run(['status', spooler], 1), / 2 waiting \(next in \d{6} d\), 1 held, 3 in all/)
    const listed = async (state: string) =>
      (await run(['ls', '--json', '--state', state, spooler]))
        .trim()
        .split('\n')
        .map(line => (JSON.parse(line) as { due: string }).due.slice(0, 4))
    assert.deepEqual(await listed('waiting'), ['2399', '9999'])
    assert.equal((await listed('held')).length, 1)
  })

  it('status knows a daemon without a control socket here, and scale says on which host to call it', async () => {
    const spooler = redis.address('elsewhere')
    const daemon = await start('elsewhere', { 'spooler-control': 'off' })
    await until('the daemon is known', async () => (await inProcess(['status', spooler])).code === 0)
    const { level, spools } = await statusOf(spooler, 0)
    assert.deepEqual([level, spools[0]?.source], ['OK', 'redis'])
    assert.match(await run(['scale', spooler, '2'], 1), /its daemons run on .*: use this command there/)
    await stop(daemon)
  })

  it('quiet, scale, logs and schedules reach the daemon of this machine', async () => {
    const spooler = redis.address('orders')
    const daemon = await start('orders', { 'spooler-processes': 2, 'spooler-cheaper': 1 })
    await until('the daemon is known', async () => (await inProcess(['logs', spooler])).code === 0)
    assert.match(await run(['logs', spooler]), /daemon|spooler/)
    assert.match(await run(['quiet', spooler]), /is quiet/)
    await enqueue({ n: 'quiet' }, { spooler })
    await until('the task is due', async () => (await statusOf(spooler, 0)).spools[0]?.tasks.due === 1)
    assert.match(await run(['quiet', spooler, 'off']), /is not quiet/)
    await until('the task has run', () => daemon.journal().includes('quiet'))
    assert.match(await run(['scale', spooler, '2']), /2 processes/)
    assert.match(await run(['schedules', spooler]), /tick/)
    assert.match(await run(['schedules', spooler, '--pause', 'tick']), /paused/)
    assert.match(await run(['schedules', spooler]), /tick +paused/)
    await stop(daemon)
    const again = await start('orders')
    await until('the schedule is still paused', async () =>
      /tick +paused/.test((await inProcess(['schedules', spooler])).stdout),
    )
    assert.match(await run(['schedules', spooler, '--run', 'tick']), /stored as/)
    assert.match(await run(['schedules', spooler, '--resume', 'tick']), /resumed/)
    await until(
      'the schedule is not paused',
      async () => !/tick +paused/.test(await run(['schedules', spooler])),
    )
    assert.match(await run(['schedules', spooler, '--remove', 'tick'], 1), /the handlers have it/)
    const audit = await redis.client.lrange('bull:orders:spoold:audit', 0, -1)
    const actions = audit.map(line => (JSON.parse(line) as { action: string }).action)
    assert.deepEqual(actions.slice(0, 4), [
      'remove-schedule',
      'resume-schedule',
      'run-schedule',
      'pause-schedule',
    ])
    await stop(again)
  })

  for (const [how, detail] of [
    ['listen', /it was cancelled, and .*told/],
    ['block', /it was cancelled, and did not end by itself, so its process was killed/],
  ] as const)
    it(`cancel ends a running task that would ${how}, even without a control socket`, async () => {
      const spooler = redis.address(`cancel-${how}`)
      const daemon = await start(`cancel-${how}`, { 'spooler-control': 'off' })
      const { path } = await enqueue({ n: 'long', do: how }, { spooler })
      await until('the task runs', () => daemon.journal().includes('long'))
      assert.match(await run(['cancel', path]), /cancelled/)
      const shown = JSON.parse(await run(['show', path, '--json'])) as {
        state: string
        dead: { detail: string }
      }
      assert.equal(shown.state, 'dead', JSON.stringify(shown))
      assert.match(JSON.stringify(shown), detail)
      const { path: next } = await enqueue({ n: 'next' }, { spooler })
      const job = `bull:cancel-${how}:${next.split('/').at(-1)}`
      await until('the next task is done', async () => (await redis.client.exists(job)) === 0)
      assert.ok(daemon.journal().includes('next'))
      assert.match(await run(['cancel', next], 1), /gone|does not exist/)
      assert.deepEqual(await redis.client.hkeys(`bull:cancel-${how}:spoold:cancel`), [])
      await stop(daemon)
    })

  it('cancel says that no daemon that runs the task answers, and changes nothing', async () => {
    const spooler = redis.address('stopped')
    const daemon = await start('stopped')
    const { path } = await enqueue({ n: 'long', do: 'listen' }, { spooler })
    await until('the task runs', () => daemon.journal().includes('long'))
    process.kill(daemon.pid, 'SIGSTOP')
    assert.match(await run(['cancel', path], 1), /none of those that run tasks here/)
    assert.deepEqual(await redis.client.hkeys('bull:stopped:spoold:cancel'), [])
    process.kill(daemon.pid, 'SIGCONT')
    assert.match(await run(['cancel', path]), /cancelled/)
    await stop(daemon)
  })
})

import assert from 'node:assert/strict'
import { basename, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { look, showTask } from '#src/doors/cli/top/source.js'
import { enqueue } from '#src/engines/client/spool.js'
import { inProcess } from '../helpers/cli.js'
import { ask } from '../helpers/exporter.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const HANDLER = `export default (env, task) => {
  JOURNAL(env.n)
  if (env.do === 'bury') return { bury: 'no use' }
  if (env.do === 'fail') throw new Error('boom')
  return env.do === 'run' ? new Promise(() => {}) : task.SPOOL_OK
}`
const LATER = () => new Date(Date.now() + 7_200_000)

describe('the state of a spool on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  it('is shown by the tabs of top, one for each state of tasks', async () => {
    const spool = redis.address('tabs')
    const daemon = await daemonOn(spool, { handler: HANDLER, ini: { 'spooler-processes': 1 } })
    const ids = new Map<string, string>()
    for (const [n, vars, options] of [
      ['fails', { do: 'fail' }, {}],
      ['dead', { do: 'bury' }, {}],
      ['later', {}, { at: LATER() }],
      ['held', {}, { at: LATER() }],
      ['runs', { do: 'run' }, {}],
    ] as const)
      ids.set(n, basename((await enqueue({ n, ...vars }, { spooler: spool, ...options })).path))
    await until('all tasks that are due have begun', () =>
      ['fails', 'dead', 'runs'].every(n => daemon.journal().includes(n)),
    )
    assert.equal((await inProcess(['hold', `${spool}/${ids.get('held')}`])).code, 0)
    const rowsOf = async (tab: 'running' | 'waiting' | 'retrying' | 'dead' | 'held', filter = '') => {
      const { rows, scope } = await look({ spool, tab, filter, daemons: {} })
      const names = new Map([...ids].map(([name, id]) => [id, name]))
      return [...rows.map(({ id }) => names.get(id) ?? id).sort(), scope]
    }
    await until('one task is dead', async () => (await rowsOf('dead')).length === 2)
    assert.deepEqual(await rowsOf('running'), ['runs', ''])
    assert.deepEqual(await rowsOf('waiting'), ['fails', 'later', ''])
    assert.deepEqual(await rowsOf('waiting', 'later'), ['later', ''])
    assert.deepEqual(await rowsOf('retrying'), ['fails', ''])
    assert.deepEqual(await rowsOf('held'), ['held', ''])
    const workers = await until('the daemon is known', async () => {
      const { rows } = await look({ spool, tab: 'workers', filter: '', daemons: {} })
      return rows.length > 0 ? rows : undefined
    })
    assert.equal(workers.length, 1)
    assert.match((await showTask(spool, ids.get('dead') ?? '', {}))?.join('\n') ?? '', /no use/)
    daemon.child.kill('SIGQUIT')
    await daemon.code()
  })

  it('counts as running what other daemons run, and what a killed one ran, once in all of them', async () => {
    const spooler = redis.address('killed')
    const daemons = await Promise.all(
      ['a', 'b'].map(async () => {
        const control = join(workspace(), 'control')
        const ini = { 'spooler-processes': 1, 'spooler-concurrency': 2, 'spooler-control': control }
        return { control, daemon: await daemonOn(spooler, { handler: HANDLER, ini }) }
      }),
    )
    const [first, second] = daemons
    assert.ok(first && second)
    const tasksOf = async (control: string) => {
      const { stdout } = await inProcess(['status', '--control', control, '--json'])
      const [spool] = (JSON.parse(stdout) as { spools: Array<{ tasks: Record<string, number> }> }).spools
      return [spool?.tasks.running, spool?.tasks.due, spool?.tasks.stored]
    }
    for (const n of ['1', '2', '3', '4']) await enqueue({ n, do: 'run' }, { spooler })
    for (const { control } of daemons)
      await until('all four run', async () => String(await tasksOf(control)) === '4,0,4')
    const both = await inProcess(['status', spooler])
    assert.match(both.stdout, /^SPOOLD \w+: 0 due, 4 running, 0 waiting, 0 dead$/m)
    first.daemon.child.kill('SIGKILL')
    await first.daemon.code()
    assert.deepEqual(await tasksOf(second.control), [4, 0, 4])
    second.daemon.child.kill('SIGQUIT')
    await second.daemon.code()
  })

  it('is in the metrics and in spoold status, which answer even while Redis is away', async () => {
    const spooler = redis.address('metrics')
    const control = join(workspace(), 'control')
    const ini = { 'spooler-metrics': '127.0.0.1:0', 'spooler-processes': 1, 'spooler-control': control }
    const daemon = await daemonOn(spooler, { handler: HANDLER, ini })
    const enabled = () => /metrics enabled on 127\.0\.0\.1:([0-9]+)/.exec(daemon.output)?.[1]
    const port = Number(await until('the metrics are published', enabled))
    for (const vars of [{ do: 'fail' }, { do: 'bury' }, {}]) await enqueue({ n: 'x', ...vars }, { spooler })
    await enqueue({ n: 'x' }, { spooler, at: LATER(), priority: 4 })
    const label = `spool="${spooler}"`
    const wanted = [
      `spooler_runs_total{${label},result="done"} 1`,
      `spooler_runs_total{${label},result="error"} 1`,
      `spooler_dead_letters{${label},reason="asked"} 1`,
      `spooler_tasks{${label},state="waiting"} 2`,
      `spooler_failed_tasks{${label}} 1`,
      `spooler_stored_tasks{${label}} 2`,
    ]
    await until('all tasks are counted', async () => {
      const { text } = await ask(port, '/metrics')
      return wanted.every(line => text.split('\n').includes(line))
    })
    await redis.kill()
    await until('Redis is away', () => daemon.output.includes('no connection to'))
    const before = performance.now()
    const { code, stdout } = await inProcess(['status', '--control', control, '--json'])
    assert.ok(performance.now() - before < 5000, 'the snapshot waits for Redis')
    const [spool] = (JSON.parse(stdout) as { spools: Array<{ dead: { count: number } }> }).spools
    assert.deepEqual([code, spool?.dead.count], [0, 1], stdout)
    assert.equal((await ask(port, '/metrics')).status, 200)
    daemon.child.kill('SIGQUIT')
    await daemon.code()
  })
})

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { spool } from '#src/engines/client/spool.js'
import { inProcess } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const HANDLER = `
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL(env.n)
  await setTimeout(50)
  return task.SPOOL_OK
}`

/** Returns how many scripts a Redis was asked to run. A connection sends each one in full at first, and then its hash. */
async function scriptsOf({ client }: TestRedis): Promise<number> {
  const calls = (await client.info('commandstats')).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)
  return [...calls].reduce((sum, [, count]) => sum + Number(count), 0)
}

async function statusAt(control: string, maxDue?: string): Promise<string> {
  const limit = maxDue === undefined ? [] : ['--max-due', maxDue]
  return (await inProcess(['status', '--control', control, ...limit])).stdout
}

it('spoold status does not report a Redis that was never reached as empty', async () => {
  const control = join(workspace(), 'control')
  const ini = { 'spooler-control': control }
  const daemon = await daemonOn('redis://127.0.0.1:1/0/never', { isUnready: true, ini })
  await until('the control socket answers', async () =>
    /UNKNOWN: its daemon is starting/.test(await statusAt(control)),
  )
  await daemon.waitFor(/is running/)
  assert.match(await statusAt(control), /OK: at least 0 due/)
})

describe('a replica of Redis', { skip: skipUnless('redis-server') }, () => {
  let [redis, replica]: [TestRedis | undefined, TestRedis | undefined] = [undefined, undefined]
  if (skipUnless('redis-server') === false)
    [redis, replica] = [
      startRedis({ settings: ['--repl-diskless-sync-delay', '0'] }),
      startRedis({ settings: ['--repl-diskless-sync-delay', '0'] }),
    ]
  before(() => Promise.all([redis?.ready(), replica?.ready()]))
  const both = async () => {
    assert.ok(redis !== undefined && replica !== undefined)
    await replica.client.replicaof('127.0.0.1', redis.port)
    const { client } = replica
    await until('the replica is connected', async () =>
      (await client.info('replication')).includes('link_status:up'),
    )
    return { redis, replica }
  }

  it('is read by ls and status', async () => {
    const { redis, replica } = await both()
    const path = String(await spool({ n: 'it' }, { spooler: redis.address('looked-at') }))
    const name = path.slice(path.lastIndexOf('/') + 1)
    await until('the task is on the replica', async () => (await replica.client.keys(`*${name}`)).length > 0)
    for (const command of ['ls', 'status']) {
      const { stdout, stderr } = await inProcess([command, replica.address('looked-at')])
      assert.match(stdout, command === 'ls' ? new RegExp(name) : /1 due/, stderr)
    }
  })

  it('is counted by doctor', async () => {
    const { redis } = await both()
    const ini = join(workspace(), 'app.ini')
    writeIni(ini, { spooler: redis.address('counted') })
    const counted = async () => /1 replica is connected/.test((await inProcess(['doctor', ini])).stdout)
    await until('doctor reports the replica', counted)
  })

  it('refuses many tasks at once without a warning of Node', async () => {
    const { replica } = await both()
    const warnings: string[] = []
    const heard = ({ name }: Error) => void warnings.push(name)
    process.on('warning', heard)
    const stored = await Promise.allSettled(
      Array.from({ length: 100 }, () => spool({ n: 'no' }, { spooler: replica.address('many') })),
    )
    await new Promise(setImmediate)
    process.off('warning', heard)
    assert.ok(stored.every(({ status }) => status === 'rejected'))
    assert.deepEqual(warnings, [])
  })

  it('makes its daemon wait until it takes writes, even while the daemon of its master runs all tasks', async () => {
    const { redis, replica } = await both()
    const own = await daemonOn(redis.address('live'), { handler: HANDLER })
    const daemon = await daemonOn(replica.address('live'), { handler: HANDLER })
    for (let round = 1; round <= 2; round++) {
      for (let n = 0; n < 8; n++) await spool({ n: `${n}` }, { spooler: redis.address('live') })
      await until('the tasks have run', () => own.journal().length === round * 8)
      await daemon.waitFor('waiting for Redis: READONLY')
      const before = await scriptsOf(replica)
      await until(
        'the daemon has looked at the empty spool',
        async () => (await scriptsOf(replica)) > before + 1,
      )
    }
    await replica.client.replicaof('NO', 'ONE')
    await daemon.waitFor(/answers again/)
    // on a busy machine, a connection may end before that
    const told = daemon.output.match(/waiting for Redis: READONLY|answers again/g)
    assert.deepEqual(told, ['waiting for Redis: READONLY', 'answers again'], daemon.output)
    assert.deepEqual(daemon.journal(), [])
  })

  it('has its tasks counted by a daemon that started on it', async () => {
    const { redis, replica } = await both()
    for (let n = 0; n < 3; n++) await spool({ n: `${n}` }, { spooler: redis.address('seen') })
    await until(
      'the tasks are on the replica',
      async () => (await replica.client.keys('bull:seen:*-*-*')).length === 3,
    )
    const control = join(workspace(), 'control')
    await daemonOn(replica.address('seen'), { handler: HANDLER, ini: { 'spooler-control': control } })
    await until('the daemon reports the tasks', async () =>
      /CRITICAL: 3 due/.test(await statusAt(control, '2')),
    )
  })

  it('is reported as READONLY, not as away, if it was a master before it went away', async () => {
    const { redis } = await both()
    const demoted = startRedis()
    await demoted.ready()
    const daemon = await daemonOn(demoted.address('demoted'), { handler: HANDLER })
    await demoted.kill()
    await daemon.waitFor(/waiting for Redis: no connection/)
    await demoted.restart(['--replicaof', `127.0.0.1 ${redis.port}`, '--repl-diskless-sync-delay', '0'])
    await daemon.waitFor(/waiting for Redis: READONLY/)
    await demoted.kill()
    await demoted.restart()
    await daemon.waitFor(/answers again/)
    assert.equal(daemon.output.match(/waiting for Redis|answers again/g)?.length, 3, daemon.output)
  })
})

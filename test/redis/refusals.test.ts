import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { spool } from '#src/engines/client/spool.js'
import { inProcess } from '../helpers/cli.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

/** How long Redis refuses. */
const REFUSES_MS = 4000
const LINES = 12
const HANDLER = (gate: string) => `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  JOURNAL(env.n)
  while (env.do === 'wait' && !existsSync(${JSON.stringify(gate)})) await setTimeout(20)
  return task.SPOOL_OK
}`

describe('a daemon whose Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false)
    redis = startRedis({ settings: ['--enable-debug-command', 'yes', '--busy-reply-threshold', '100'] })
  before(() => redis.ready())
  const call = (...command: string[]) => redis.client.call(...(command as [string]))

  /** Why the daemon does nothing, the line that it logs, what makes Redis refuse, what ends that, and the line that follows. */
  const REFUSALS: ReadonlyArray<
    readonly [what: string, line: RegExp, refuse: () => unknown, end: () => unknown, back?: RegExp]
  > = [
    [
      'is full',
      /waiting for Redis: OOM/,
      () => call('CONFIG', 'SET', 'maxmemory', '1'),
      () => call('CONFIG', 'SET', 'maxmemory', '0'),
    ],
    [
      'is read-only',
      /waiting for Redis: READONLY/,
      () => call('REPLICAOF', '127.0.0.1', '1'),
      () => call('REPLICAOF', 'NO', 'ONE'),
    ],
    [
      'denies its user all scripts',
      /waiting for Redis: NOPERM.*\(spoold doctor app\.ini names what its user may not do\)\n/,
      () => call('ACL', 'SETUSER', 'default', '-evalsha', '-eval'),
      () => call('ACL', 'SETUSER', 'default', '+@all'),
    ],
    [
      'is busy with a script',
      /waiting for Redis: BUSY/,
      () => {
        const busy = new Redis(redis.port)
        busy
          .eval('while true do end', 0)
          .catch(() => {})
          .finally(() => busy.disconnect())
      },
      () => call('SCRIPT', 'KILL'),
    ],
    [
      'begins to require a password',
      /waiting for Redis: .*NOAUTH/,
      async () => {
        // a look of the daemon is under way, so it hears of the ended connection before it hears of the password
        await call('CLIENT', 'PAUSE', '60000', 'WRITE')
        await until('the daemon looks', async () =>
          /argv-mem=[1-9].* cmd=evalsha/.test(String(await call('CLIENT', 'LIST'))),
        )
        await call('CONFIG', 'SET', 'requirepass', 'secret')
        await call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await call('CLIENT', 'UNPAUSE')
      },
      () => call('CONFIG', 'SET', 'requirepass', ''),
    ],
    [
      'denies its user the commands that settle tasks',
      /cannot be stored, and this is tried again until it succeeds: .*spoold doctor/,
      () => call('ACL', 'SETUSER', 'default', '-lrem', '-zpopmin', '-rpoplpush', '-lmove', '-del'),
      () => call('ACL', 'SETUSER', 'default', '+@all'),
      /what it refused is stored/,
    ],
  ]
  for (const [i, [what, line, refuse, end, back = /Redis answers again/]] of REFUSALS.entries())
    it(`${what} logs few lines, waits, runs no task twice, and goes on`, async () => {
      const spooler = `${redis.address(`refuses${i}`)}?check=2`
      const gate = join(workspace(), 'gate')
      const daemon = await daemonOn(spooler, {
        handler: HANDLER(gate),
        ini: { 'spooler-processes': 2, 'spooler-delivery': 'at-most-once', 'spooler-quiet': true },
      })
      await spool({ n: 'first', do: 'wait' }, { spooler })
      await until('the first task runs', () => daemon.journal().length === 1)
      await spool({ n: 'other', do: 'wait' }, { spooler })
      await until('the second task runs', () => daemon.journal().length === 2)
      for (let n = 0; n < 20; n++) await spool({ n: String(n) }, { spooler })
      const from = daemon.output.length
      await refuse()
      writeFileSync(gate, '')
      let said: string[] = []
      try {
        await daemon.waitFor(line)
        await sleep(REFUSES_MS) // the time in which nothing may happen
        said = daemon.output.slice(from).split('\n')
      } finally {
        await end() // for the next tests, too
      }
      assert.ok(said.length <= LINES, said.join('\n'))
      assert.doesNotMatch(said.join('\n'), /answers again|is left alone/)
      await until('all tasks have run', () => daemon.journal().length >= 22)
      await until(
        'all tasks are settled',
        async () => (await redis.client.llen(`bull:refuses${i}:active`)) === 0,
      )
      assert.equal(new Set(daemon.journal()).size, daemon.journal().length, 'none ran twice')
      await daemon.waitFor(back)
      assert.doesNotMatch(daemon.output.slice(from), /respawn/)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
    })

  it('denies its user xread says once that tasks are found every second, and why, runs them, and says when it hears events', async () => {
    const spooler = redis.address('deaf')
    await call('ACL', 'SETUSER', 'default', '-xread')
    const daemon = await daemonOn(spooler)
    try {
      await daemon.waitFor(/no Redis events \(NOPERM .*'xread'.*\), new tasks are found every 1 s\n/)
      for (const n of ['1', '2']) {
        await spool({ n }, { spooler })
        await until('the task has run', () => daemon.journal().length === Number(n))
      }
    } finally {
      await call('ACL', 'SETUSER', 'default', '+@all')
    }
    await daemon.waitFor(/Redis events are back/)
    assert.equal(daemon.output.split('no Redis events').length, 2, daemon.output)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it("has a marker of another type, which BullMQ's scripts write, says so, buries no task, and runs each once it is removed", async () => {
    const spooler = redis.address('marked')
    const gate = join(workspace(), 'gate')
    const daemon = await daemonOn(spooler, { handler: HANDLER(gate), ini: { 'spooler-processes': 1 } })
    await spool({ n: 'first', do: 'wait' }, { spooler })
    await until('the first task runs', () => daemon.journal().length === 1)
    for (let n = 0; n < 3; n++) await spool({ n: String(n) }, { spooler })
    await redis.client.set('bull:marked:marker', 'x')
    const from = daemon.output.length
    writeFileSync(gate, '') // the next task is pulled as this one is settled
    await daemon.waitFor(/waiting for Redis: WRONGTYPE/)
    await redis.client.del('bull:marked:marker')
    await until('all tasks have run', () => daemon.journal().length === 4)
    assert.deepEqual(daemon.journal().toSorted(), ['0', '1', '2', 'first'])
    await until('all tasks are settled', async () => (await redis.client.llen('bull:marked:active')) === 0)
    assert.equal(await redis.client.zcard('bull:marked:failed'), 0)
    assert.ok(daemon.output.slice(from).split('\n').length <= LINES, daemon.output.slice(from))
  })

  it('is full shows all due tasks in its status', async () => {
    const spooler = redis.address('shown')
    const control = join(workspace(), 'control')
    for (let n = 0; n < 20; n++) await spool({ n: String(n) }, { spooler })
    await call('CONFIG', 'SET', 'maxmemory', '1')
    try {
      const ini = { 'spooler-control': control, 'spooler-processes': 1 }
      const daemon = await daemonOn(spooler, { handler: HANDLER(''), ini })
      await daemon.waitFor(/waiting for Redis: OOM/)
      await until('the tasks are shown', async () => {
        const { stdout } = await inProcess(['status', '--control', control])
        return /tasks +20 due \(oldest .*\), 0 running, 0 waiting, 20 in all/.test(stdout)
      })
      await call('CONFIG', 'SET', 'maxmemory', '0')
      await until('all tasks have run', () => daemon.journal().length === 20)
    } finally {
      await call('CONFIG', 'SET', 'maxmemory', '0') // for the next tests, too
    }
  })

  it('forgets its scripts or all of its data goes on with new tasks', async () => {
    const spooler = redis.address('forgets')
    const gate = join(workspace(), 'gate')
    const daemon = await daemonOn(spooler, { handler: HANDLER(gate), ini: { 'spooler-processes': 2 } })
    for (const [round, forget] of ['scripts', 'all'].entries()) {
      for (const name of ['held', 'too']) await spool({ n: `${name}${round}`, do: 'wait' }, { spooler })
      await until('both tasks run', () => daemon.journal().includes(`too${round}`))
      for (let n = 0; n < 20; n++) await spool({ n: `${round}.${n}` }, { spooler })
      await call(...(forget === 'all' ? ['FLUSHALL'] : ['SCRIPT', 'FLUSH']))
      assert.equal(existsSync(gate), round > 0)
      writeFileSync(gate, '')
      for (let n = 0; n < 5; n++) await spool({ n: `after${round}.${n}` }, { spooler })
      await until('the tasks stored afterwards have run', () => daemon.journal().includes(`after${round}.4`))
      if (forget === 'scripts') await until('all tasks ran', () => daemon.journal().length === 27)
    }
    assert.doesNotMatch(daemon.output, /respawn/)
    assert.ok(daemon.output.split('\n').length < 400, 'no flood')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

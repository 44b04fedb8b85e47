import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { enqueue, spool } from '#src/engines/client/spool.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { PYTHON } from '../helpers/python.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const TELLING = `export default (env, task) => {
  JOURNAL(JSON.stringify([env.n, task.body?.length ?? 0]))
  if (env.do === 'bury') return { bury: 'no use' }
  return task.SPOOL_OK
}`

/** Handlers that print their working directory, and then change to one that is gone by the next task. */
const WANDERING = {
  javascript: `import { mkdtempSync, rmdirSync } from 'node:fs'
import { registerSignal, signal } from 'spoold'
registerSignal(17, 'spooler', () => console.log('signal at ' + process.cwd()))
export default (env, task) => {
  console.log('at ' + process.cwd())
  const gone = mkdtempSync('/tmp/gone-')
  process.chdir(gone)
  rmdirSync(gone)
  if (env.n === '0') signal(17)
  return task.SPOOL_OK
}`,
  python: `import os, tempfile, uwsgi
uwsgi.register_signal(17, 'spooler', lambda _: print('signal at ' + os.getcwd()))
def spooler(env):
    print('at ' + os.getcwd())
    os.chdir(tempfile.mkdtemp())
    os.rmdir(os.getcwd())
    if env[b'n'] == b'0': uwsgi.signal(17)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
}

describe('a daemon on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  it('runs tasks of the client and the command line by priority, with bodies, at their time, once per id', async () => {
    const spooler = redis.address('kinds')
    await spool({ n: 'last' }, { spooler })
    for (const [n, priority] of [
      ['nine', 9],
      ['zero', 0],
      ['two', 2],
      ['two again', 2],
    ] as const)
      await spool({ n }, { spooler, priority })
    await spool({ n: 'later' }, { spooler, at: new Date(Date.now() + 4000), body: 'x'.repeat(100_000) })
    const first = await enqueue({ n: 'id' }, { spooler, id: 'mine', priority: 99 })
    const again = await enqueue({ n: 'id' }, { spooler, id: 'mine', priority: 99 })
    assert.deepEqual([first.isDuplicate, again.isDuplicate, again.path], [false, true, first.path])
    const { code, stdout } = await spoold(['enqueue', '--spooler', spooler, 'n=typed', '--priority', '100'])
    assert.equal(code, 0)
    assert.match(stdout, new RegExp(`^${spooler}/[0-9a-f-]+\n$`))
    const daemon = await daemonOn(spooler, { handler: TELLING })
    await until('all tasks have run', () => daemon.journal().length === 8)
    const ran = daemon.journal().map(line => JSON.parse(line) as [string, number])
    assert.deepEqual(
      ran.map(([n]) => n),
      ['zero', 'two', 'two again', 'nine', 'id', 'typed', 'last', 'later'],
    )
    assert.equal(ran.at(-1)?.[1], 100_000)
    assert.equal((await enqueue({ n: 'id' }, { spooler, id: 'mine' })).isDuplicate, true)
  })

  it('starts each task within 5 s while it is idle, and buries one whose handler asks for that', async () => {
    const spooler = redis.address('idle')
    const daemon = await daemonOn(spooler, { handler: TELLING })
    for (let n = 0; n < 5; n++) {
      await spool({ n: String(n) }, { spooler })
      await until('the task has run', () => daemon.journal().length === n + 1, 5000)
    }
    await spool({ n: 'dead', do: 'bury' }, { spooler })
    await until(
      'the task is among the failed jobs',
      async () => (await redis.client.zcard('bull:idle:failed')) === 1,
    )
    const [id = ''] = await redis.client.zrange('bull:idle:failed', 0, -1)
    assert.equal(await redis.client.hget(`bull:idle:${id}`, 'failedReason'), 'no use')
  })

  it('runs all tasks once under --drain, and exits with 0', async () => {
    const spooler = redis.address('drained')
    for (let n = 0; n < 50; n++) await spool({ n: String(n) }, { spooler })
    const daemon = await daemonOn(spooler, {
      handler: TELLING,
      args: ['--drain'],
      isUnready: true,
      ini: { 'spooler-processes': 2 },
    })
    assert.equal(await daemon.code(), 0)
    assert.equal(new Set(daemon.journal()).size, 50)
    assert.equal(daemon.journal().length, 50)
  })

  it('ends a --drain with 3, runs the tasks of another spool, and leaves its own, if a key of BullMQ has another type', {
    timeout: 60_000,
  }, async () => {
    for (const key of ['delayed', 'marker']) {
      const [wrong, sound] = [redis.address(`wrong-${key}`), redis.address('sound')]
      for (const spooler of [wrong, sound]) for (const n of ['1', '2', '3']) await spool({ n }, { spooler })
      await redis.client.set(`bull:wrong-${key}:${key}`, 'x')
      const args = ['--drain', `--spooler=${sound}`]
      const daemon = await daemonOn(wrong, { handler: TELLING, args, isUnready: true })
      assert.equal(await daemon.code(), 3)
      assert.equal(daemon.output.split('waiting for Redis: WRONGTYPE').length, 2, 'people are told once')
      assert.match(daemon.output, /drained: 3 done, 1 could not be read/)
      assert.equal(daemon.journal().length, 3)
      await redis.client.del(`bull:wrong-${key}:${key}`)
      assert.equal((await inProcess(['ls', wrong])).stdout.match(/^(due|running) /gm)?.length, 3)
    }
  })

  it('offers tasks whose names no handler knew to each --drain again, which counts them and exits with 3, until one knows them', async () => {
    const spooler = redis.address('unknown')
    for (const task of ['known', 'lost', 'lost', 'gone']) await spool({ task, args: '[]' }, { spooler })
    const drain = async (...known: string[]) => {
      const names = JSON.stringify(known)
      const handler = `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
for (const name of ${names}) tasks.task(name, () => JOURNAL(name))`
      const daemon = await daemonOn(spooler, { handler, args: ['--drain'], isUnready: true })
      const code = await daemon.code()
      return [code, /drained: .*/.exec(daemon.output)?.[0], daemon.journal().length]
    }
    assert.deepEqual(await drain('known'), [3, 'drained: 1 done, 3 known to no handler', 1])
    assert.deepEqual(await drain('known'), [3, 'drained: 0 done, 3 known to no handler', 0])
    assert.deepEqual(await drain('lost'), [3, 'drained: 2 done, 1 known to no handler', 2])
    assert.deepEqual(await drain('gone'), [0, 'drained: 1 done', 1])
  })

  it('offers a task that every handler ignored to each --drain again, which exits with 3, until one runs it', async () => {
    const spooler = redis.address('ignored')
    await spool({ n: '1' }, { spooler })
    const drain = async (handler: string) => {
      const daemon = await daemonOn(spooler, { handler, args: ['--drain'], isUnready: true })
      return [await daemon.code(), /drained: .*/.exec(daemon.output)?.[0]]
    }
    for (let n = 0; n < 2; n++)
      assert.deepEqual(await drain('export default () => 0'), [
        3,
        'drained: 0 done, 1 ignored by all handlers',
      ])
    assert.match((await inProcess(['ls', spooler])).stdout, /^waiting/m)
    assert.deepEqual(await drain(TELLING), [0, 'drained: 1 done'])
  })

  it('runs a task whose name no handler knew right after a reload with one that does', async () => {
    const spooler = redis.address('reloaded')
    const handler = (name: string) => `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('${name}', () => JOURNAL('${name}'))`
    const daemon = await daemonOn(spooler, { handler: handler('other'), ini: { 'spooler-frequency': 300 } })
    await spool({ task: 'mine', args: '[]' }, { spooler })
    await daemon.waitFor(/no handler knows the task mine/)
    const text = readFileSync(daemon.handlerFile, 'utf8')
    writeFileSync(daemon.handlerFile, text.replaceAll("'other'", "'mine'"))
    daemon.child.kill('SIGHUP')
    await until('the task has run', () => daemon.journal().includes('mine'))
  })

  for (const language of ['javascript', 'python'] as const)
    it(`starts each task and signal in the directory of the daemon, even if the last one left it: ${language}`, {
      skip: language === 'python' && skipUnless('python3'),
    }, async () => {
      const spooler = redis.address(`wandering-${language}`)
      for (let n = 0; n < 3; n++) await spool({ n: String(n) }, { spooler })
      const file = join(workspace(), language === 'python' ? 'tasks.py' : 'tasks.mjs')
      writeFileSync(file, WANDERING[language])
      const daemon = await daemonOn(spooler, {
        isForeign: true,
        isUnready: true,
        args: ['--drain'],
        ini: { 'spooler-import': file, python: PYTHON },
      })
      assert.equal(await daemon.code(), 0, daemon.output)
      const places = [...daemon.output.matchAll(/^(?:signal )?at (.*)$/gm)].map(([, place]) => place)
      assert.deepEqual(places, Array(4).fill(daemon.directory))
    })

  it('logs in with a user and a password, and prints the password in no log line', async () => {
    await redis.client.call('ACL', 'SETUSER', 'joe', 'on', '>secret', '~*', '&*', '+@all')
    const secret = redis.address('users').replace('//', '//joe:secret@')
    const daemon = await daemonOn(secret, { handler: TELLING })
    await spool({ n: 'user' }, { spooler: secret })
    await until('the task has run', () => daemon.journal().length === 1)
    const wrong = redis.address('users').replace('//', '//joe:wrong@')
    await assert.rejects(spool({ n: 'user' }, { spooler: wrong }), {
      code: 'REDIS_UNREACHABLE',
      message: /WRONGPASS/,
    })
    assert.doesNotMatch(daemon.output, /secret|wrong/)
  })

  it('has the address of its spool refused by fsck, which needs a directory, and by doctor, which needs an ini', async () => {
    const spooler = redis.address('refused')
    for (const [command, what] of [
      ['fsck', /name spools in directories$/m],
      ['doctor', /takes ini files, .*: spoold doctor app\.ini$/m],
    ] as const) {
      const { code, stderr } = await inProcess([command, spooler])
      assert.notEqual(code, 0, command)
      assert.match(stderr, /NOT_ON_REDIS/, command)
      assert.match(stderr, what)
    }
  })
})

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { look } from '#src/doors/cli/top/source.js'
import { enqueue } from '#src/engines/client/spool.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const HANDLER = `export default (env, task) => {
  JOURNAL(env.n)
  if (env.do === 'bury') return { bury: 'no use' }
  if (env.do === 'retry') throw new Error('boom')
  if (env.do === 'fail') throw new Error('number ' + task.attempt)
  return task.SPOOL_OK
}`
const IN_AN_HOUR = () => new Date(Date.now() + 3_600_000)
const isRedisMissing = skipUnless('redis-server')

let redis: TestRedis
if (isRedisMissing === false) redis = startRedis()

/** The engines over which each test runs. */
const ENGINES = [
  { name: 'directory', spooler: (_name: string) => spoolDirectory(), skip: false as const },
  { name: 'redis', spooler: (name: string) => redis.address(name), skip: isRedisMissing },
]

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await inProcess(args)
  assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
  return stdout
}

/** Runs `act` on a Redis that pauses writes, and ends its connection once a request of it waits for the answer. */
async function withGoingRedis(act: () => Promise<unknown>): Promise<void> {
  await redis.client.call('CLIENT', 'PAUSE', '20000', 'WRITE')
  const acting = act()
  const waiting = async () => /blocked_clients:[1-9]/.test(await redis.client.info('clients'))
  await until('a command waits', waiting)
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  await redis.client.call('CLIENT', 'UNPAUSE')
  await acting
}

async function listed(spooler: string, ...flags: string[]) {
  const lines = (await run('ls', spooler, '--json', '--show', 'n', ...flags)).split('\n').filter(Boolean)
  return lines.map(line => JSON.parse(line) as Record<string, unknown> & { values: { n: string } })
}
const statesOf = async (spooler: string, ...flags: string[]) =>
  (await listed(spooler, ...flags)).map(({ state, values }) => `${values.n} ${state}`)

for (const { name, spooler: newSpooler, skip } of ENGINES)
  describe(`the tools over ${name}`, { skip }, () => {
    before(() => (name === 'redis' ? redis.ready() : undefined))

    it('ls lists tasks in the order in which they start, and takes filters, --limit, --sort and --by', async () => {
      const spooler = newSpooler('ls')
      for (const [n, options] of [
        ['last', {}],
        ['nine', { priority: 9, body: 'x'.repeat(1000) }],
        ['zero', { priority: 0 }],
        ['later', { at: IN_AN_HOUR() }],
        ['held', {}],
      ] as const)
        await enqueue({ n, kind: n === 'zero' ? 'a' : 'b' }, { spooler, ...options })
      await run('hold', spooler, '--key', 'n=held')
      const states = await statesOf(spooler)
      assert.deepEqual(
        states.filter(each => !each.endsWith('held')),
        ['zero due', 'nine due', 'last due', 'later waiting'],
      )
      assert.deepEqual(await statesOf(spooler, '--state', 'held'), ['held held'])
      assert.deepEqual(await statesOf(spooler, '--state', 'due', '--limit', '1'), ['zero due'])
      assert.deepEqual(await statesOf(spooler, '--priority', '9'), ['nine due'])
      assert.deepEqual(await statesOf(spooler, '--key', 'kind=a'), ['zero due'])
      assert.equal((await statesOf(spooler, '--sort', 'bytes'))[0], 'nine due')
      assert.deepEqual(await statesOf(spooler, '--sort', 'due', '--reverse', '--limit', '1'), [
        'later waiting',
      ])
      assert.match(await run('ls', spooler, '--by', 'kind'), /4 .*b\n/)
      assert.match(await run('shape', spooler, '--by', 'kind'), /TOTAL +5/)
      const nine = (await listed(spooler, '--priority', '9'))[0]
      assert.deepEqual([nine?.priority, Number(nine?.bytes) > 1000], [9, true])
    })

    it('top shows the state of waiting tasks, how soon they are due, and their priority', async () => {
      const spooler = newSpooler('top')
      await enqueue({ n: 'nine' }, { spooler, priority: 9 })
      await enqueue({ n: 'later' }, { spooler, at: IN_AN_HOUR() })
      const { rows } = await look({ spool: spooler, tab: 'waiting', filter: '', daemons: {} })
      assert.deepEqual(rows.map(({ cells: [state, dueIn, , priority] }) => [state, dueIn, priority]).sort(), [
        ['due', 'now', '9'],
        ['waiting', '60 m', ''],
      ])
    })

    it('show prints state, keys and body of a task by its name, and over Redis by its id', async () => {
      const spooler = newSpooler('show')
      const { path } = await enqueue({ to: 'joe' }, { spooler, body: 'hello', id: 'mine', at: IN_AN_HOUR() })
      for (const file of name === 'redis' ? [path, `${spooler}/mine`] : [path]) {
        const shown = JSON.parse(await run('show', file, '--json'))
        assert.deepEqual([shown.state, shown.body, shown.bodyBytes], ['waiting', 'hello', 5])
        assert.deepEqual(shown.vars[0], ['to', 'joe'])
      }
      assert.match(await run('show', path), /body: "hello" \(5 bytes\)/)
      const { code, stderr } = await inProcess(['show', `${spooler}/nothing`])
      assert.deepEqual([code !== 0, /does not exist/.test(stderr)], [true, true])
    })

    it('hold, release, kick, cancel, requeue and rm change the selected tasks, and nothing else', async () => {
      const spooler = newSpooler('changes')
      const at = IN_AN_HOUR()
      const { path } = await enqueue({ n: 'one' }, { spooler, at })
      await enqueue({ n: 'two' }, { spooler })
      const due = (await listed(spooler, '--key', 'n=one'))[0]?.due
      await run('hold', path)
      assert.deepEqual(await statesOf(spooler, '--state', 'held'), ['one held'])
      await run('release', path)
      const [released] = await listed(spooler, '--key', 'n=one')
      assert.deepEqual([released?.state, released?.due], ['waiting', due])
      const refused = await inProcess(['release', path])
      assert.deepEqual([refused.code, /it is not held/.test(refused.stderr)], [1, true])
      await run('kick', path)
      assert.deepEqual((await statesOf(spooler)).sort(), ['one due', 'two due'])
      await run('cancel', spooler, '--key', 'n=two')
      assert.deepEqual(await statesOf(spooler, '--reason', 'cancelled'), ['two dead'])
      assert.match(await run('purge', spooler, '--max-age', '1h', '--dry-run'), /would remove 0 /)
      await run('requeue', spooler, '--all')
      assert.deepEqual((await statesOf(spooler)).sort(), ['one due', 'two due'])
      await run('cancel', spooler, '--key', 'n=two')
      assert.match(await run('purge', spooler, '--all'), /removed 1 dead letter\n/)
      assert.match(await run('rm', spooler, '--all', '--dry-run'), /would remove/)
      await run('rm', spooler, '--all')
      assert.deepEqual(await statesOf(spooler), [])
    })

    it('ls and show print no value that spooler-hide of the daemon hides', async () => {
      const spooler = newSpooler('hidden')
      const ini = { 'spooler-hide': 'secret' }
      const setup = { handler: HANDLER, ini }
      const daemon =
        name === 'redis' ? await daemonOn(spooler, setup) : await startDaemon({ spool: spooler, ...setup })
      const { path } = await enqueue({ secret: 'hush' }, { spooler, at: IN_AN_HOUR() })
      await until('the value is hidden', async () => /"\[hidden\]"/.test(await run('show', path)))
      assert.doesNotMatch(await run('ls', spooler, '--vars'), /hush/)
      daemon.child.kill('SIGTERM')
      await daemon.code()
    })

    it('wait tells which task is done, which is dead, and which still waits at its --timeout', async () => {
      const spooler = newSpooler('wait')
      const done = await enqueue({ n: 'done' }, { spooler })
      const dead = await enqueue({ n: 'dead', do: 'bury' }, { spooler })
      const later = await enqueue({ n: 'later' }, { spooler, at: IN_AN_HOUR() })
      const waiting = inProcess(['wait', done.path, dead.path, '--timeout', '60s'])
      const ini = { 'spooler-processes': 1 }
      const daemon =
        name === 'redis'
          ? await daemonOn(spooler, { handler: HANDLER, ini })
          : await startDaemon({ spool: spooler, handler: HANDLER, ini: { 'spooler-ordered': true } })
      const { code, stdout, stderr } = await waiting
      assert.equal(code, 1)
      assert.match(stdout, new RegExp(`^(done${name === 'redis' ? '' : '|gone'}) .*${basename(done.path)}`))
      assert.match(stderr, /dead .*asked: .*no use/)
      const { code: late, stderr: why } = await inProcess(['wait', later.path, '--timeout', '1s'])
      assert.deepEqual([late, /it is waiting/.test(why)], [124, true])
      daemon.child.kill('SIGTERM')
      await daemon.code()
    })

    it('show prints the error with which a task was buried, and the time', async () => {
      const spooler = newSpooler('buried')
      await enqueue({ n: 'fails', do: 'fail' }, { spooler })
      const setup = { handler: HANDLER, ini: { 'spooler-frequency': 1, 'spooler-max-attempts': 2 } }
      const daemon =
        name === 'redis' ? await daemonOn(spooler, setup) : await startDaemon({ spool: spooler, ...setup })
      await enqueue({ n: 'asked', do: 'bury' }, { spooler })
      const dead = await until('both tasks are dead', async () => {
        const all = await listed(spooler, '--state', 'dead')
        return all.length === 2 ? all : undefined
      })
      const letters = dead.map(async each =>
        JSON.parse(await run('show', `${spooler}/${each.name}`, '--json')),
      )
      const errors = (await Promise.all(letters)).map(({ deadLetter: letter }) => {
        assert.ok(Math.abs(letter.buriedAt - letter.lastFailureAt) < 900, JSON.stringify(letter))
        return String(letter.lastError).split('\n')[0]
      })
      assert.deepEqual(errors.sort(), ['Error: number 2', 'no use'])
      daemon.child.kill('SIGTERM')
      await daemon.code()
    })

    it('pause is named by ls, and tasks run after resume or after the time of --until', async () => {
      const spooler = newSpooler('paused')
      const daemon =
        name === 'redis'
          ? await daemonOn(spooler, { handler: HANDLER })
          : await startDaemon({ spool: spooler, handler: HANDLER, ini: { 'spooler-ordered': true } })
      await run('pause', spooler)
      await until('the daemon is paused', () => daemon.output.includes('paused'))
      await enqueue({ n: 'one' }, { spooler })
      const { stderr } = await inProcess(['ls', spooler])
      assert.match(stderr, /paused: all tasks/)
      await run('resume', spooler)
      await until('the first task has run', () => daemon.journal().length === 1)
      await run('pause', spooler, '--until', '+2s')
      await enqueue({ n: 'two' }, { spooler })
      await until('the second task has run', () => daemon.journal().length === 2)
      daemon.child.kill('SIGTERM')
      await daemon.code()
    })
  })

describe('enqueue over Redis', { skip: isRedisMissing }, () => {
  before(() => redis.ready())

  it('removes the deduplication keys of its tasks before it ends, which Redis would keep for a week', async () => {
    const spooler = redis.address('forgotten')
    const file = join(workspace(), 'tasks.json')
    writeFileSync(file, '{"n":"1"}\n{"n":"2"}\n{"n":"3"}\n')
    for (const what of [['n=one'], ['--json', file]])
      assert.equal((await spoold(['enqueue', '--quiet', '--spooler', spooler, ...what])).code, 0)
    assert.deepEqual(await redis.client.keys('bull:forgotten:de:*'), [])
    assert.equal(await redis.client.zcard('bull:forgotten:prioritized'), 4)
  })
})

describe('the tools over a Redis that refuses or goes away', { skip: isRedisMissing }, () => {
  before(() => redis.ready())
  const COMMANDS = [['ls'], ['hold', '--all'], ['shape'], ['purge', '--all']]
  const OF_A_TASK = [['show'], ['show', '--json'], ['wait', '--timeout', '9s'], ['rm'], ['cancel']]

  for (const command of OF_A_TASK) {
    const name = command.join(' ')
    it(`print that Redis refuses, or that there is no such task, without the password: ${name}`, async () => {
      await redis.client.call('ACL', 'SETUSER', 'none', 'on', '>secret', '~*', '+@all', '-eval', '-evalsha')
      await redis.client.call('ACL', 'SETUSER', 'all', 'on', '>secret', '~*', '&*', '+@all')
      const of = (user: string) => redis.address('refused').replace('//', `//${user}:secret@`)
      const refused = await inProcess([...command, `${of('none')}/nothing`])
      assert.equal(refused.code, 75)
      assert.match(refused.stderr, /^spoold: (\[REDIS_REFUSED\] )?Redis refuses: NOPERM.*\n$/)
      const { code, stdout, stderr } = await inProcess([...command, `${of('all')}/nothing`])
      assert.ok(code === 1 || code === 4)
      assert.match(stdout + stderr, /redis:\/\/127\S+\/refused\/nothing/)
      assert.doesNotMatch(stdout + stderr, /secret/)
    })
  }

  for (const command of ['ls', 'status'])
    it(`name the rights that a user lacks who may only read, with which they work: ${command}`, async () => {
      await redis.client.call('ACL', 'SETUSER', 'reader', 'reset', 'on', '>secret', '~*', '+@read', '+info')
      const address = redis.address(`readable-${command}`)
      await enqueue({ n: '1' }, { spooler: address })
      const run = () => inProcess([command, address.replace('//', '//reader:secret@')])
      const { stdout, stderr } = await run()
      const [, rights = ''] =
        /NOPERM.*to look at tasks takes ACL SETUSER USER ([^,]+)/.exec(stdout + stderr) ?? []
      await redis.client.call(
        'ACL',
        'SETUSER',
        'reader',
        'resetkeys',
        '~*',
        'nocommands',
        ...rights.split(' '),
      )
      assert.match((await run()).stdout, /(^|\s)1 due|^due/m)
    })

  for (const command of COMMANDS) {
    const name = command.join(' ')
    it(`exit with 75 and print the error of Redis when it refuses: ${name}`, async () => {
      await redis.client.call('ACL', 'SETUSER', 'none', 'on', '>secret', '~*', '+@all', '-eval', '-evalsha')
      const address = redis.address('refused').replace('//', '//none:secret@')
      const { code, stderr } = await inProcess([...command, address])
      assert.equal(code, 75)
      assert.match(stderr, /^spoold: \[REDIS_REFUSED\] .*NOPERM.*\n$/)
    })

    it(`exit with 75 and REDIS_UNREACHABLE when Redis goes away before it answers: ${name}`, async () => {
      const address = redis.address(`gone-${command[0]}`)
      await withGoingRedis(async () => {
        const { code, stderr } = await spoold([...command, address])
        assert.equal(code, 75)
        assert.match(stderr, /^spoold: \[REDIS_UNREACHABLE\] .*\n$/)
      })
    })
  }
})

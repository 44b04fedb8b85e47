import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { inspect } from 'node:util'
import { Spoold, type SpooldOptions, Tasks } from '#src/index.js'
import { inProcess } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { startRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const SECRET = 's3cr3t-value'
const opened: Spoold[] = []
const isMissing = skipUnless('redis-server')
const redis = isMissing === false ? startRedis() : undefined

afterEach(async () => {
  for (const app of opened.splice(0)) await app.stop()
})

/** Runs an application whose task is given secrets, and quotes them when it fails. */
async function failing(options: Partial<SpooldOptions>) {
  const spool = spoolDirectory()
  const lines: string[] = []
  const line = (text: string) => void lines.push(text)
  const given: unknown[] = []
  const told: unknown[] = []
  const tasks = new Tasks({ maxRetries: 0 })
  const task = tasks.task('log-in', (user: unknown) => {
    given.push(user)
    throw new Error(`cannot log in with password=${SECRET}, so ${SECRET} is wrong`)
  })
  const logger = { info: line, warn: line, error: line }
  const app = new Spoold({ spooler: spool, tasks, logger, ...options })
  opened.push(app)
  for (const name of ['task-started', 'task-failed', 'task-finished'] as const)
    app.on(name, event => told.push(event))
  await app.start()
  await task.schedule({
    user: 'joe',
    password: SECRET,
    more: [{ token: SECRET, note: `{"password":"${SECRET}"}` }],
  })
  await until('the task has failed', () => told.length === 3)
  const dead = await until('the task is dead', () =>
    leftIn(join(spool, '.spoold/dead')).find(name => !name.endsWith('.json')),
  )
  return { spool, lines, given, told, dead: join(spool, '.spoold/dead', dead) }
}

describe('the option hide of an application', () => {
  it('keeps values out of the log, events and what commands print, but not from the tasks', async () => {
    const { lines, given, told, dead, spool } = await failing({ hide: ['password', 'token'] })
    assert.ok(inspect(given, { depth: 9 }).includes(SECRET))
    const events = inspect(told, { depth: 9 })
    assert.ok(!events.includes(SECRET), events)
    assert.match(events, /user: 'joe', *\n? *password: '\[hidden\]'/)
    assert.match(events, /cannot log in with password=\[hidden\]/)
    assert.ok(
      lines.some(line => line.includes('cannot log in with password=[hidden]')),
      lines.join('\n'),
    )
    assert.ok(!lines.join('\n').includes(SECRET))
    const { stdout } = await inProcess(['show', dead])
    assert.match(stdout, /joe/)
    assert.ok(!stdout.includes(SECRET), stdout)
    assert.equal(readFileSync(join(spool, '.spoold/hide'), 'utf8'), 'password\ntoken\n')
  })

  it('is stored in Redis for commands that know no application', { skip: isMissing }, async () => {
    await redis?.ready()
    const spooler = redis?.address('mail') ?? ''
    const tasks = new Tasks()
    const task = tasks.task('log-in', (_user: unknown) => {})
    const app = new Spoold({ spooler, tasks, hide: ['password'] })
    opened.push(app)
    await app.start()
    const { id } = await task.scheduleAt(new Date(Date.now() + 3_600_000), {
      user: 'joe',
      password: SECRET,
    })
    const { stdout } = await until('Redis knows what to hide', async () => {
      const shown = await inProcess(['show', `${spooler}/${id}`])
      return shown.stdout.includes('[hidden]') ? shown : undefined
    })
    assert.match(stdout, /joe/)
    for (const args of [
      ['show', `${spooler}/${id}`],
      ['ls', spooler, '--vars'],
      ['ls', spooler, '--json', '--vars'],
    ])
      assert.ok(!(await inProcess(args)).stdout.includes(SECRET), args.join(' '))
  })

  it('hides nothing by default, and then writes no .spoold/hide', async () => {
    const { told, spool } = await failing({})
    assert.ok(inspect(told, { depth: 9 }).includes(SECRET))
    assert.equal(existsSync(join(spool, '.spoold/hide')), false)
  })

  it('has to be a list of keys', () => {
    for (const hide of ['password', [1], { password: true }])
      assert.throws(
        () => new Spoold({ spooler: 'memory:', hide: hide as never }),
        /hide must be a list of keys, such as \['password'\], got /,
      )
  })
})

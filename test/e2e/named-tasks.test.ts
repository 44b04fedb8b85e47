import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { Spoold, Tasks } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

type Ini = Record<string, string | number | boolean | readonly string[]>

const IMPORTS = `import { AbortTask, RetryTask, Tasks, TaskBatch, currentTask } from 'spoold'\n`

/** Starts a daemon on a module of tasks. */
async function startWith(text: string, ini: Ini = {}, spool = spoolDirectory()) {
  const daemon = await startDaemon({ spool, handler: IMPORTS + text, ini })
  return { spool, daemon, tasks: schedulerFor(spool) }
}

/** Returns a function that schedules any task into the spool, as another program would. */
function schedulerFor(spool: string) {
  return (task: string, ...args: unknown[]) =>
    new Spoold({ spooler: spool, sync: false, tasks: new Tasks({}).use(named(task)) }).schedule(task, ...args)
}

function named(name: string): Tasks {
  const tasks = new Tasks()
  tasks.task(name, (..._args: unknown[]) => {})
  return tasks
}

const dead = (spool: string) => leftIn(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json'))
const done = (spool: string) => until('the spool is empty', () => leftIn(spool).length === 0)

async function reload(daemon: Daemon, text: string): Promise<void> {
  writeFileSync(daemon.handlerFile, `const JOURNAL = () => {}\n${IMPORTS}${text}`)
  daemon.child.kill('SIGHUP')
}

describe('a module of tasks', { concurrency: 3 }, () => {
  const modules: Array<[name: string, text: string]> = [
    [
      'a.mjs',
      `import { Tasks } from 'spoold'\nconst tasks = new Tasks()\ntasks.task('hi', () => {})\nexport default tasks`,
    ],
    [
      'b.mjs',
      `import { Tasks } from 'spoold'\nexport const any = new Tasks()\nexport const hi = any.add(() => {}, { name: 'hi' })`,
    ],
    [
      'c.cjs',
      `const { Tasks } = require('spoold')\nmodule.exports = new Tasks()\nmodule.exports.task('hi', () => {})`,
    ],
    [
      'd.cjs',
      `const { Tasks } = require('spoold')\nexports.a = new Tasks()\nexports.b = new Tasks()\nexports.b.use(exports.a)\nexports.a.task('hi', () => {})`,
    ],
  ]
  for (const [name, text] of modules)
    it(`may export its tasks as ${name} does`, async () => {
      const spool = spoolDirectory()
      const file = join(dirname(spool), name)
      writeFileSync(file, text)
      await startDaemon({ spool, isForeign: true, ini: { 'spooler-import': file } })
      await schedulerFor(spool)('hi')
      await done(spool)
    })

  it('with a task name that another module has fails the start, and the error says where both are', async () => {
    const spool = spoolDirectory()
    const [one, two] = ['one.mjs', 'two.mjs'].map(name => join(dirname(spool), name))
    for (const file of [one, two]) writeFileSync(file ?? '', modules[0]?.[1] ?? '')
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      isUnready: true,
      ini: { 'spooler-import': [one ?? '', two ?? ''] },
    })
    assert.equal(await daemon.code(), 1)
    await daemon.waitFor(/two tasks are named hi: one at .*one\.mjs:3, one at .*two\.mjs:3/)
  })

  it('registers its tasks and its handler once, whatever file names and modules load it', async () => {
    const spool = spoolDirectory()
    const [link, again] = ['link.mjs', 'again.mjs'].map(name => join(dirname(spool), name))
    symlinkSync('handler.mjs', link ?? '')
    writeFileSync(again ?? '', `export { tasks } from './handler.mjs'`)
    const handler = `${IMPORTS}export const tasks = new Tasks()
tasks.task('hi', () => JOURNAL('hi'))
export default (_, task) => { JOURNAL('asked'); return task.SPOOL_IGNORE }`
    const files = [join(dirname(spool), 'handler.mjs'), link ?? '', again ?? '']
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-import': files } })
    drop(spool)
    await schedulerFor(spool)('hi')
    await daemon.waitFor(/was ignored by every handler/)
    await until('the named task has run', () => leftIn(spool).length === 1)
    assert.deepEqual(daemon.journal().sort(), ['asked', 'hi'])
  })
})

describe('a named task', { concurrency: 3 }, () => {
  it('gets its arguments, with kwargs as the last one, from the packet and from the body', async () => {
    const { spool, daemon, tasks } = await startWith(
      `export const tasks = new Tasks({ maxRetries: 1 })
      tasks.task('echo', (...args) => JOURNAL(JSON.stringify(args).slice(0, 80) + JSON.stringify(args).length))`,
    )
    await tasks('echo', 'a', { b: ['ü'] })
    await until('the task has run', () => daemon.journal().length === 1)
    await tasks('echo', 'x'.repeat(200_000))
    drop(spool, 'one', packet({ task: 'echo', args: '[1]', kwargs: '{"a":2}' }))
    drop(spool, 'two', packet({ task: 'echo', kwargs: '{"a":2}' }))
    drop(
      spool,
      'three',
      Buffer.concat([
        packet({ task: 'echo', args: '@body' }),
        Buffer.from('{"args":[3],"kwargs":{"b":"€"}}'),
      ]),
    )
    drop(spool, 'four', packet({ task: 'echo' }))
    assert.equal((await spoold(['enqueue', '--spooler', spool, 'task=echo', 'args=["joe","hi"]'])).code, 0)
    await done(spool)
    assert.deepEqual(
      daemon.journal().sort(),
      [
        '[1,{"a":2}]11',
        '["a",{"b":["ü"]}]17',
        '["joe","hi"]12',
        `["${'x'.repeat(78)}200004`,
        '[]2',
        '[{"a":2}]9',
        '[3,{"b":"€"}]13',
      ].sort(),
    )
  })

  it('succeeds when it returns, whatever it returns', async () => {
    const { spool, daemon, tasks } = await startWith(
      `export const tasks = new Tasks()
      const values = [undefined, null, -1, 0, 1, 'x', { retry: true }, { bury: 'x' }, false]
      for (const [i, value] of values.entries()) {
        tasks.task('sync' + i, () => value)
        tasks.task('async' + i, async () => value)
      }`,
    )
    for (let i = 0; i < 9; i++) for (const kind of ['sync', 'async']) await tasks(kind + i)
    await done(spool)
    assert.deepEqual(dead(spool), [])
    await daemon.waitFor(/done with task uwsgi_spoolfile_on_\S+ \(async8\) after 0 seconds/)
  })

  it('that throws is buried after maxRetries + 1 runs, and Infinity is above spooler-max-attempts', async () => {
    const { spool, daemon, tasks } = await startWith(
      `export const tasks = new Tasks({ backoff: 'none' })
      const fail = name => () => { JOURNAL(name + ' ' + currentTask().retries); throw new Error('no') }
      tasks.task('thrice', { maxRetries: 2 }, fail('thrice'))
      tasks.task('once', fail('once'))
      tasks.task('zero', { maxRetries: 0 }, async () => fail('zero')())
      tasks.task('retries', { maxRetries: 1 }, () => { JOURNAL('retries'); throw new RetryTask() })
      tasks.task('asks', () => { JOURNAL('asks'); throw new RetryTask({ retry: 0 }) })
      tasks.task('aborts', { maxRetries: 9 }, () => { JOURNAL('aborts'); throw new AbortTask('never') })
      tasks.task('endless', { maxRetries: Infinity }, () => { if (currentTask().retries < 5) fail('endless')() })`,
      { 'spooler-max-attempts': 4 },
    )
    for (const name of ['thrice', 'once', 'zero', 'retries', 'asks', 'aborts', 'endless']) await tasks(name)
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    const runs = daemon.journal()
    const of = (name: string) => runs.filter(line => line.startsWith(name))
    assert.deepEqual(of('thrice'), ['thrice 0', 'thrice 1', 'thrice 2'])
    assert.deepEqual(of('once'), ['once 0'])
    assert.deepEqual(of('zero'), ['zero 0'])
    assert.equal(of('retries').length, 2)
    assert.equal(of('asks').length, 1)
    assert.equal(of('aborts').length, 1)
    assert.equal(of('endless').length, 5)
    assert.equal(dead(spool).length, 6)
    await daemon.waitFor(
      /\(thrice\) is buried: it failed 3 times, as often as it may \(maxRetries of thrice\)/,
    )
    await daemon.waitFor(/\(aborts\) is buried: never/)
  })

  it('that asks for a time runs then, not earlier, as a counted retry; an invalid time is a failure', async () => {
    const { spool, daemon, tasks } = await startWith(
      `export const tasks = new Tasks({ maxRetries: 1, backoff: 'none' })
      const times = new Map()
      const next = name => times.get(name) ?? times.set(name, new Date(Date.now() + 1500)).get(name)
      tasks.task('later', () => { JOURNAL('later ' + (Date.now() - next('later'))); throw new RetryTask({ at: next('later') }) })
      tasks.task('wrong', () => { JOURNAL('wrong'); throw new RetryTask({ at: new Date('never') }) })`,
    )
    for (const name of ['later', 'wrong']) await tasks(name)
    await until('both tasks are buried', () => dead(spool).length === 2)
    const runs = daemon.journal()
    const late = runs.filter(line => line.startsWith('later ')).map(line => Number(line.slice(6)))
    assert.equal(late.length, 2)
    assert.ok((late[0] ?? 0) <= -1000 && (late[1] ?? -1) >= 0, runs.join())
    assert.equal(runs.filter(line => line === 'wrong').length, 2)
    await daemon.waitFor(
      /\(wrong\) failed, runs again .*RetryTask: at must be a valid Date, got an invalid Date\n +at [^\n]*handler.mjs:\d+/,
    )
  })

  it('without retries does not run again after a crash; with retries it does, and crashes count', async () => {
    const { spool, daemon, tasks } = await startWith(
      `export const tasks = new Tasks()
      const die = name => () => { JOURNAL(name); process.kill(process.pid, 'SIGKILL') }
      tasks.task('once', die('once'))
      tasks.task('twice', { maxRetries: 1 }, die('twice'))`,
      { 'spooler-max-crashes': 9 },
    )
    await tasks('once')
    await until('the task without retries is buried', () => dead(spool).length === 1)
    await tasks('twice')
    await until('both tasks are buried', () => dead(spool).length === 2)
    assert.deepEqual(daemon.journal(), ['once', 'twice', 'twice'])
  })

  it('with invalid arguments is buried without being run', async () => {
    const { spool, daemon } = await startWith(
      `export const tasks = new Tasks({ maxRetries: 5 })
      tasks.task('strict', {
        schema: { '~standard': { version: 1, vendor: 'test', validate: async ([n]) =>
          typeof n === 'number' ? { value: [n + 1] } : { issues: [{ message: 'no number', path: [0] }] } } },
      }, n => JOURNAL(n))`,
    )
    const bad = ['[', '{}', '7', '["x"]', '@body']
    for (const [i, args] of bad.entries()) drop(spool, `bad${i}`, packet({ task: 'strict', args }))
    drop(spool, 'kwargs', packet({ task: 'strict', kwargs: '[]' }))
    drop(spool, 'good', packet({ task: 'strict', args: '[1]' }))
    await done(spool)
    assert.deepEqual(daemon.journal(), ['2'], 'the function gets what the schema makes')
    assert.equal(dead(spool).length, 6)
    await daemon.waitFor(/\(strict\) is buried: task strict: args\[0\]: no number/)
    await daemon.waitFor(/\(strict\) is buried: args must be JSON, got "\["/)
  })

  it('runs within middleware in order, and what middleware throws or skips is the outcome', async () => {
    const { spool, daemon, tasks } = await startWith(
      `import { Spoold } from 'spoold'
      export const tasks = new Tasks({ maxRetries: 1, backoff: 'none' })
      const layer = name => ({ run: async (task, next) => {
        JOURNAL([name, 'before', task.name, ...task.args].join(' '))
        const value = await next()
        JOURNAL([name, 'after', currentTask().name, value].join(' '))
      } })
      const inner = new Tasks().middleware(layer('inner'))
      new Spoold({ spooler: '/nonexistent', tasks: tasks.use(inner).middleware(layer('outer')) }).middleware(layer('app'))
      inner.task('double', n => { JOURNAL('double'); return n * 2 })
      const strict = new Tasks({ maxRetries: 1, backoff: 'none' }).middleware({ run: (task, next) => {
        if (task.args[0] === 'skip') return
        if (task.args[0] === 'abort') throw new AbortTask('not this one')
        if (task.args[0] === 'late') throw new RetryTask({ retry: 0 })
        return next()
      } })
      export { strict }
      strict.task('strict', what => { JOURNAL('strict ' + what) })`,
    )
    await tasks('double', 21)
    await until('the task has run', () => leftIn(spool).length === 0)
    const names = ['app', 'outer', 'inner']
    assert.deepEqual(daemon.journal(), [
      ...names.map(name => `${name} before double 21`),
      'double',
      ...['inner after double 42', 'outer after double ', 'app after double '],
    ])
    for (const what of ['skip', 'abort', 'late', 'run']) await tasks('strict', what)
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal().slice(7), ['strict run'])
    assert.equal(dead(spool).length, 2)
    await daemon.waitFor(/\(strict\) is buried: not this one/)
    await daemon.waitFor(/\(strict\) is buried: it failed 2 times/)
  })

  it('gets itself from currentTask(), even where several tasks run at a time', async () => {
    const { spool, daemon } = await startWith(
      `export const tasks = new Tasks({ maxRetries: 3 })
      tasks.task('look', async n => {
        await new Promise(resolve => setTimeout(resolve, 20))
        const { signal, log, at, ...task } = currentTask()
        log('seen')
        JOURNAL(JSON.stringify([n, task, signal.aborted, at instanceof Date]))
      })
      if (currentTask() !== undefined) throw new Error('no task runs')`,
      { 'spooler-concurrency': 8 },
    )
    for (let i = 0; i < 8; i++)
      drop(spool, `t${i}`, packet({ task: 'look', args: `[${i}]`, id: `id ${i}`, queue: 'mail' }))
    await done(spool)
    const task = (i: number) => ({
      ...{ id: `id ${i}`, status: 3, name: 'look', queue: 'mail' },
      ...{ maxRetries: 3, retries: 0, args: [i], kwargs: {} },
    })
    assert.deepEqual(
      daemon
        .journal()
        .map(line => JSON.parse(line))
        .sort((a, b) => a[0] - b[0]),
      Array.from({ length: 8 }, (_, i) => [i, task(i), false, true]),
    )
    await daemon.waitFor(/t3: seen/)
  })

  it('schedules others into its own spool, or by queue into the spool that spooler-queue names', async () => {
    const [spool, mail] = [spoolDirectory(), spoolDirectory()]
    const { daemon, tasks } = await startWith(
      `export const tasks = new Tasks()
      const own = tasks.task('own', n => JOURNAL('own ' + n))
      const mailed = tasks.task('mailed', { queue: 'mail' }, () => {})
      const lost = tasks.task('lost', { queue: 'lost' }, () => {})
      tasks.task('begin', async () => {
        await own.schedule(1)
        await tasks.scheduleBatch(new TaskBatch().schedule(own, 2).schedule(mailed))
        await lost.schedule().catch(error => JOURNAL(error.code + ' ' + error.message))
      })`,
      { 'spooler-queue': `mail=${mail}`, 'spooler-frequency': 1000 },
      spool,
    )
    await tasks('begin')
    await until('the scheduled tasks have run', () => daemon.journal().length === 3)
    const [error, ...ran] = daemon.journal().sort()
    assert.deepEqual(ran, ['own 1', 'own 2'])
    assert.match(
      error ?? '',
      /^QUEUE_UNKNOWN .*the queue lost, those of mail are known; .*spooler-queue = lost=/,
    )
    assert.equal(leftIn(mail).length, 1)
  })
})

describe('a named task that no handler knows', { concurrency: 3 }, () => {
  it('is parked and logged once, and runs with its own maxRetries after a reload that knows it', async () => {
    const { spool, daemon } = await startWith(
      `export const tasks = new Tasks({ maxRetries: 3 })\ntasks.task('known', () => JOURNAL('known'))`,
      { 'spooler-processes': 2, 'spooler-frequency': 1000 },
    )
    for (let i = 0; i < 5; i++) drop(spool, `t${i}`, packet({ task: 'later', args: `[${i}]` }))
    await daemon.waitFor(/is parked: no handler knows the task later;/)
    drop(spool, 'k', packet({ task: 'known', args: '[]' }))
    await until('the known task is done', () => !leftIn(spool).includes('k'))
    assert.equal(leftIn(spool).length, 5)
    await reload(
      daemon,
      `export const tasks = new Tasks()\ntasks.task('later', n => { if (n === 3) throw new Error('no') })`,
    )
    await done(spool)
    assert.equal(dead(spool).length, 1)
    assert.equal(daemon.output.match(/is parked/g)?.length, 1)
    await daemon.waitFor(/it failed once, as often as it may \(maxRetries of later\)/)
  })

  it('is logged with only the beginning of its name, which may be as long as a packet', async () => {
    const { spool, daemon } = await startWith(
      "export const tasks = new Tasks()\ntasks.task('known', () => {})",
    )
    drop(spool, 'a', packet({ task: 'x'.repeat(60_000), args: '[]' }))
    await daemon.waitFor(/a is parked: no handler knows the task x{200}; it waits/)
  })

  it('is offered to the dictionary handlers, and is parked until a reload if they ignore it', async () => {
    const text = `export const tasks = new Tasks()
      tasks.task('known', () => JOURNAL('known'))
      export default (env, task) => {
        JOURNAL(env.task + ' ' + env.args)
        return env.args === '["mine"]' ? task.SPOOL_OK : task.SPOOL_IGNORE
      }`
    const { spool, daemon } = await startWith(text, { 'spooler-frequency': 1000 })
    drop(spool, 'a', packet({ task: 'known', args: '[]' }))
    drop(spool, 'b', packet({ task: 'strange', args: '["mine"]' }))
    drop(spool, 'c', packet({ task: 'strange', args: '["another’s"]' }))
    await daemon.waitFor(/c is parked: no handler knows the task strange/)
    utimesSync(join(spool, 'c'), 1, 1)
    drop(spool, 'd', packet({ task: 'known' }))
    await until('the task dropped after the touch is done', () => !leftIn(spool).includes('d'))
    assert.deepEqual(daemon.journal().sort(), ['known', 'known', 'strange ["another’s"]', 'strange ["mine"]'])
    daemon.child.kill('SIGHUP')
    await until('the task is offered again', () => daemon.journal().length === 5)
    assert.deepEqual(leftIn(spool), ['c'])
  })

  it('does not keep --drain from ending, and waits for the next daemon', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(spool, 'x', packet({ task: 'later', kwargs: '{}' }))
    const first = await startDaemon({
      spool,
      handler: `${IMPORTS}export const tasks = new Tasks()\ntasks.task('known', () => {})`,
      args: ['--drain'],
      isUnready: true,
    })
    assert.equal(await first.code(), 3)
    assert.match(first.output, /drained: 0 done, 1 known to no handler/)
    assert.deepEqual(
      leftIn(spool).filter(name => name === 'x'),
      ['x'],
    )
    await startWith(`export const tasks = new Tasks()\ntasks.task('later', () => {})`, {}, spool)
    await until('the task has run', () => !leftIn(spool).includes('x'))
  })
})

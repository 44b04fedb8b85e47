import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

/** Starts a daemon whose handler file has this name and text, with one task in its spool. */
async function startWith(
  name: string,
  text: string,
  ini: Record<string, string | number | boolean | string[]> = {},
): Promise<Daemon & { spool: string }> {
  const spool = spoolDirectory()
  const file = join(dirname(spool), name)
  writeFileSync(file, text)
  drop(spool, 'uwsgi_spoolfile_on_x', packet({ foo: 'bar' }))
  const daemon = await startDaemon({ spool, isUnready: true, ini: { 'spooler-import': file, ...ini } })
  return Object.assign(daemon, { spool })
}

describe('a handler module', { concurrency: 3 }, () => {
  const modules: Array<[name: string, text: string]> = [
    ['a.mjs', 'export default (env, task) => task.SPOOL_OK'],
    ['b.mjs', 'export function spooler(env, task) { return task.SPOOL_OK }'],
    ['c.cjs', 'module.exports = (env, task) => task.SPOOL_OK'],
    ['d.cjs', 'exports.spooler = async (env, task) => task.SPOOL_OK'],
    ['e.cjs', 'exports.default = () => -2'],
    ['f.js', 'module.exports = { spooler: () => -2 }'],
    [
      'g.mjs',
      `import { SPOOL_OK } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}\nexport default async () => SPOOL_OK`,
    ],
  ]
  for (const [name, text] of modules)
    it(`may be ${text.split('\n').at(-1)} (${name})`, async () => {
      const { spool } = await startWith(name, text)
      await until('the task has run', () => leftIn(spool).length === 0)
    })

  it('may be TypeScript if Node runs it, and is refused with a reason if not', async () => {
    const daemon = await startWith(
      'h.mts',
      'export default (env: Record<string, unknown>, task: { SPOOL_OK: -2 }) => task.SPOOL_OK',
    )
    if ('typescript' in process.features && process.features.typescript)
      await until('the task has run', () => leftIn(daemon.spool).length === 0)
    else {
      assert.equal(await daemon.code(), 1)
      assert.match(daemon.output, /runs no TypeScript; Node 22\.18 and later do/)
    }
  })

  const broken: Array<[what: string, text: string, line: RegExp]> = [
    ['has a syntax error', 'export default (', /SyntaxError/],
    ['throws while it is loaded', 'throw new Error("at load")', /Error: at load\n {6}at .*broken\.mjs:1/],
    ['imports what is not there', 'import "./nowhere.mjs"', /Cannot find module .*nowhere\.mjs/],
    [
      'exports no function',
      'export const spooled = 1',
      /expected a default function or one named "spooler", or Tasks, got spooled/,
    ],
    [
      'exports an object with the function',
      'export default { run() {} }\nexport const a = 1',
      /expected a default function or one named "spooler", or Tasks, got a, default \(an object \(Object\)\)/,
    ],
    ['ends its process', 'process.exit(3)', /the worker exited with code 3 before it was ready/],
  ]
  for (const [what, text, line] of broken)
    it(`that ${what} fails the start with exit code 1 and says why`, async () => {
      const daemon = await startWith('broken.mjs', text)
      assert.equal(await daemon.code(), 1)
      assert.match(daemon.output, line)
      assert.deepEqual(leftIn(daemon.spool), ['uwsgi_spoolfile_on_x'])
    })
})

describe('a handler', { concurrency: 3 }, () => {
  it('gets an env without a prototype: strings, the task’s name, and the body in place of a key of that name', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(
      spool,
      '5/uwsgi_spoolfile_on_x',
      packet(
        { foo: 'bar', __proto__x: 'y', body: 'a key', spooler_task_name: 'a lie', żółw: '🐢' },
        Buffer.from([0, 255]),
      ),
      1_000_000_000,
    )
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => {
        const { vars, body, signal, ...rest } = { name: task.name, path: task.path, spooler: task.spooler, priority: task.priority, at: task.at, attempt: task.attempt, cwd: process.cwd() }
        JOURNAL(JSON.stringify({ env: Object.entries(env), prototype: Object.getPrototypeOf(env), rest, vars: task.vars.map(pair => pair.map(String)), body: task.body.toString('hex'), aborted: task.signal.aborted }))
        return task.SPOOL_OK
      }`,
      ini: { 'spooler-ordered': true },
    })
    await until('the task has run', () => daemon.journal().length === 1)
    const got = JSON.parse(daemon.journal()[0] ?? '')
    assert.deepEqual(Object.fromEntries(got.env), {
      foo: 'bar',
      __proto__x: 'y',
      żółw: '🐢',
      spooler_task_name: 'uwsgi_spoolfile_on_x',
      body: { type: 'Buffer', data: [0, 255] },
    })
    assert.equal(got.prototype, null)
    assert.deepEqual(got.rest, {
      name: 'uwsgi_spoolfile_on_x',
      path: join(spool, '5/uwsgi_spoolfile_on_x'),
      spooler: spool,
      priority: 5,
      at: '2001-09-09T01:46:40.000Z',
      attempt: 1,
      cwd: join(spool, '5'),
    })
    assert.deepEqual(
      got.vars.find(([key]: [string]) => key === 'body'),
      ['body', 'a key'],
    )
    assert.deepEqual([got.body, got.aborted], ['00ff', false])
  })

  it('gets a body key as an ordinary key if no body follows the packet', async () => {
    const spool = spoolDirectory()
    drop(spool, 'x', packet({ body: 'text' }))
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL(env.body + ' ' + task.body); return task.SPOOL_OK }`,
    })
    await until('the task has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), ['text undefined'])
  })

  it('gets a body of 40 MiB whole', async () => {
    const spool = spoolDirectory()
    drop(spool, 'x', packet({ a: 'b' }, Buffer.alloc(40 * 1024 * 1024, 'x')))
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL(env.body.length + ' ' + env.body.every(byte => byte === 120) + ' ' + (env.body === task.body)); return task.SPOOL_OK }`,
    })
    await until('the task has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), ['41943040 true true'])
  })

  it('logs through task.log under the task’s name, between the lines of its run', async () => {
    const spool = spoolDirectory()
    const names = ['a1', 'a2', 'a3', 'a4', 'a5']
    for (const name of names) drop(spool, name)
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { task.log('hello there'); return task.SPOOL_OK }`,
      ini: { 'spooler-ordered': true },
    })
    await daemon.waitFor('done with task a5')
    const line = [...daemon.output.matchAll(/^\[spooler .* pid: \d+\] (.*\ba\d.*)$/gm)].map(
      ([, line]) => line,
    )
    assert.deepEqual(
      line,
      names.flatMap(name => [
        `managing request ${name} ...`,
        `${name}: hello there`,
        `done with task ${name} after 0 seconds`,
      ]),
    )
  })

  it('starts each task in spooler-chdir, even after a task that left that directory', async () => {
    const spool = spoolDirectory()
    const elsewhere = dirname(spool)
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL(process.cwd()); process.chdir('/'); return task.SPOOL_OK }`,
      ini: { 'spooler-chdir': elsewhere },
    })
    for (const name of ['a', 'b']) drop(spool, name)
    await until('both tasks have run', () => daemon.journal().length === 2)
    assert.deepEqual(daemon.journal(), [elsewhere, elsewhere])
  })

  it('runs 6,000 times at once in one process if spooler-concurrency allows that', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const handler = `import { existsSync } from 'node:fs'
      const isOpen = new Promise(open => setInterval(() => existsSync(${JSON.stringify(gate)}) && open(), 50))
      export default async (env, task) => {
        JOURNAL(task.name)
        await isOpen
        return task.SPOOL_OK
      }`
    for (let i = 0; i < 6500; i++) drop(spool)
    const daemon = await startDaemon({
      spool,
      handler,
      ini: { 'spooler-concurrency': 6000, 'spooler-quiet': true },
    })
    await until('6,000 tasks run', () => daemon.journal().length === 6000)
    writeFileSync(gate, '')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.equal(new Set(daemon.journal()).size, 6500)
  })

  for (const concurrency of [1, 2])
    it(`gets an AsyncLocalStorage that no other task has entered, with ${concurrency} at a time`, async () => {
      const spool = spoolDirectory()
      for (const name of ['a', 'b', 'c']) drop(spool, name)
      const daemon = await startDaemon({
        spool,
        handler: `import { AsyncLocalStorage } from 'node:async_hooks'
        const storage = new AsyncLocalStorage()
        export default (env, task) => {
          const before = storage.getStore()
          storage.enterWith(task.name)
          JOURNAL(task.name + ' ' + before)
          return task.name === 'b' ? task.SPOOL_OK : Promise.resolve().then(() => { JOURNAL('later ' + storage.getStore()); return task.SPOOL_OK })
        }`,
        ini: { 'spooler-ordered': true, 'spooler-concurrency': concurrency },
      })
      await until('all tasks have run', () => leftIn(spool).length === 0)
      assert.deepEqual(daemon.journal().sort(), [
        'a undefined',
        'b undefined',
        'c undefined',
        'later a',
        'later c',
      ])
    })

  it('has /dev/null as its standard input', async () => {
    const spool = spoolDirectory()
    drop(spool, 'x')
    const daemon = await startDaemon({
      spool,
      handler: `import { readFileSync } from 'node:fs'
      export default (env, task) => { JOURNAL('read ' + readFileSync(0).length); return task.SPOOL_OK }`,
    })
    await until('the task has run', () => daemon.journal()[0] === 'read 0')
  })
})

describe('what a handler answers', { concurrency: 3 }, () => {
  const kept: Array<[answer: string, line: RegExp]> = [
    ['-1', /^/],
    ['undefined', /returned undefined; expected SPOOL_OK \(-2\), SPOOL_RETRY \(-1\), SPOOL_IGNORE \(0\)/],
    ['"-2"', /returned "-2"; expected/],
    ['true', /returned true; expected/],
    ['5', /returned 5; expected/],
    ['({})', /returned an object \(Object\); expected/],
    ['Promise.resolve(null)', /returned null; expected/],
    ['(function* () {})()', /returned an object \(Generator\); expected/],
    ['0', /unable to find the spooler function, have you loaded it into the spooler process \?/],
  ]
  for (const [answer, line] of kept)
    it(`${answer} keeps the task`, async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({
        spool,
        handler: `export default (env, task) => { JOURNAL(task.name + task.attempt); return task.name === 'good' ? -2 : ${answer} }`,
        ini: { 'spooler-frequency': 1000 },
      })
      drop(spool, 'kept')
      await until('the task has run', () => daemon.journal().length === 1)
      await daemon.waitFor(line)
      drop(spool, 'good')
      await until(
        'the kept task alone is left',
        () => daemon.journal().length === 2 && leftIn(spool).length === 1,
      )
      assert.deepEqual(daemon.journal(), ['kept1', 'good1'])
    })

  it('SPOOL_RETRY runs the task again after one frequency with its attempt counted, even across a restart', async () => {
    const spool = spoolDirectory()
    const handler = `export default (env, task) => { JOURNAL(task.attempt + ' ' + Date.now()); return task.attempt < 3 ? task.SPOOL_RETRY : task.SPOOL_OK }`
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-frequency': 1 } })
    drop(spool, 'x')
    await until('the task was tried twice', () => daemon.journal().length === 2)
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const next = await startDaemon({ spool, handler, ini: { 'spooler-frequency': 1 } })
    await until('the task is done', () => leftIn(spool).length === 0)
    const runs = next.journal().map(line => line.split(' ').map(Number))
    assert.deepEqual(
      runs.map(([attempt]) => attempt),
      [1, 2, 3],
    )
    const times = runs.map(([, ms = 0]) => ms)
    for (const [i, ms] of times.slice(1).entries()) assert.ok(ms >= (times[i] ?? 0) + 1000, times.join(' '))
  })

  it('undefined is reported in one line, without a stack', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a')
    const daemon = await startDaemon({ spool, handler: 'export default () => undefined' })
    await daemon.waitFor(/failed, runs again in \d+ s: the handler returned undefined; expected .*\n/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /^ +at /m)
  })

  it('0 asks the next module in the order of the ini until one answers, synchronous or not', async () => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    const journal = join(directory, 'journal')
    const modules = [
      'env.n === "1" ? -2 : 0',
      'Promise.resolve(env.n === "2" ? -2 : 0)',
      'env.n === "3" ? -2 : 0',
    ].map((answer, i) => {
      const file = join(directory, `m${i}.mjs`)
      writeFileSync(
        file,
        `import { appendFileSync } from 'node:fs'
        export default env => { appendFileSync(${JSON.stringify(journal)}, 'm${i} ' + env.n + '\\n'); return ${answer} }`,
      )
      return file
    })
    for (const n of ['1', '2', '3', '4']) drop(spool, `t${n}`, packet({ n }))
    const daemon = await startDaemon({
      spool,
      isUnready: true,
      ini: { 'spooler-import': modules, 'spooler-ordered': true, 'spooler-frequency': 1000 },
    })
    await daemon.waitFor('unable to find the spooler function')
    assert.deepEqual(daemon.journal(), [
      'm0 1',
      'm0 2',
      'm1 2',
      'm0 3',
      'm1 3',
      'm2 3',
      'm0 4',
      'm1 4',
      'm2 4',
    ])
    assert.deepEqual(leftIn(spool), ['t4'])
  })

  it('an async 0 asks the next module, even after a module has replaced the global Promise', async () => {
    const spool = spoolDirectory()
    const modules = [
      `const Own = Promise
      globalThis.Promise = class Bluebird {
        constructor(executor) { this.own = new Own(executor) }
        then(...listeners) { return Bluebird.resolve(this.own.then(...listeners)) }
        static resolve(value) { return value instanceof Bluebird ? value : new Bluebird(done => done(value)) }
        static all(values) { return Bluebird.resolve(Own.all(values)) }
      }
      export default async () => 0`,
      'export default async () => { console.log("asked"); return -2 }',
    ].map((text, i) => {
      const file = join(dirname(spool), `m${i}.mjs`)
      writeFileSync(file, text)
      return file
    })
    for (let i = 0; i < 3; i++) drop(spool)
    const daemon = await startDaemon({ spool, isUnready: true, ini: { 'spooler-import': modules } })
    await until('all tasks have run', () => daemon.output.match(/done with task/g)?.length === 3)
    assert.equal(daemon.output.match(/^asked$/gm)?.length, 3)
    assert.deepEqual(leftIn(spool), [])
  })
})

import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { BIN, ROOT, spoolDirectory } from '../helpers/workspace.js'

const OURS = [
  ...['loading', 'ready', 'unloadable', 'reports', 'claimed', 'run-began', 'run-ended'],
  ...['signal-news', 'signal-started', 'signal-ended', 'signal-returned', 'recycling', 'faulted', 'unfit'],
  ...[
    'cancelling',
    'recalled',
    'log',
    'output',
    'host-died',
    'host-revived',
    'ask',
    'deadline',
    'child-started',
  ],
  ...['child-ended', 'stored', 'drained', 'run-died', 'host-page', 'done-aside'],
]

const FOREIGN = [
  ...[null, 'ready', 7, [], {}, { type: null }, { hello: 'parent' }],
  { cmd: 'NODE_HANDLE_ACK' },
  { cmd: 'NODE_HANDLE', type: 'nothing' },
]
const FORGED = [
  ...OURS.map(type => ({ type })),
  { type: 'reports', done: [0, 1e12], packed: [], started: [], busyMs: 0 },
  { type: 'signal-started', number: 7 },
  { type: 'unfit', error: 'made up' },
  { type: 'host-died', detail: 'made up' },
]
/** Messages for process.send, one per task. */
const SENT = [...FOREIGN, ...FORGED].map(value => JSON.stringify(value))

describe('messages from user code to its parent process', { concurrency: 2 }, () => {
  it('by process.send reach nobody, are logged once per process, and harm no task', async () => {
    const spool = spoolDirectory()
    for (const [i, sent] of SENT.entries()) drop(spool, `task-${i}`, packet({ n: `${i}`, sent }))
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => new Promise((resolve, reject) => {
        JOURNAL(env.n)
        process.send(JSON.parse(env.sent), error => error ? reject(error) : resolve(task.SPOOL_OK))
      })`,
      ini: { drain: true, 'spooler-processes': 2 },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal().map(Number).sort(byNumber), [...SENT.keys()])
    const lines = daemon.output.match(/what a handler sends by process\.send reaches nobody/g) ?? []
    assert.ok(lines.length === 1 || lines.length === 2, daemon.output)
    assert.doesNotMatch(daemon.output, /made up|cannot|replacing/)
  })

  it('by a direct write to the channel crash that task alone, are logged, and do not end the daemon', async () => {
    const spool = spoolDirectory()
    const bad = [
      ...[
        null,
        7777,
        { type: 'reports' },
        { type: 'claimed' },
        { type: 'recalled' },
        { type: 'signal-news' },
      ],
      { type: 'reports', done: [0, 1e12], packed: [], started: [], busyMs: 0 }, // a range without an end
      { type: 'reports', done: [-1e12, 2e12], packed: [], started: [], busyMs: 0 },
      { type: 'signal-started', number: 7 }, // a signal that it was never given
      { type: 'recycling' },
      { cmd: 'NODE_HANDLE_ACK' },
    ]
    const acts = bad.map(value => `fs.writeSync(3, ${JSON.stringify(`${JSON.stringify(value)}\n`)})`)
    for (const i of acts.keys()) drop(spool, `bad-${i}`, packet({ n: `bad-${i}`, act: `${i}` }))
    const daemon = await startDaemon({
      spool,
      handler: `
        import fs from 'node:fs'
        import { setTimeout } from 'node:timers/promises'
        const acts = [${acts.map(act => `() => ${act}`).join(', ')}]
        export default async (env, task) => {
          JOURNAL(env.n + ' ' + process.pid)
          if (env.act === undefined) return task.SPOOL_OK
          acts[env.act]()
          await setTimeout(20_000) // until its process is killed
          return task.SPOOL_OK
        }`,
      ini: { 'spooler-max-crashes': 1, 'spooler-processes': 2 },
    })
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    const dead = await deadOf(spool)
    const reasons = [...dead.values()].map(({ reason }) => reason)
    assert.deepEqual(reasons, Array(bad.length).fill('crashes'), [...dead.keys()].join())
    const lines = daemon.output.match(
      /cannot continue, replacing it: what came from it cannot be dealt with/g,
    )
    assert.equal(lines?.length, bad.length, daemon.output)
    drop(spool, 'fine', packet({ n: 'fine' }))
    await until('another task runs', () => daemon.journal().some(line => line.startsWith('fine ')))
    assert.ok(daemon.isRunning)
  })

  it('about a signal that the worker was never given do not hold up --drain', async () => {
    const spool = spoolDirectory()
    drop(spool, 'task', packet({ n: 'task' }))
    const daemon = await startDaemon({
      spool,
      handler: `import fs from 'node:fs'
      export default (env, task) => {
        fs.writeSync(3, JSON.stringify({ type: 'signal-started', number: 7 }) + '\\n')
        return new Promise(() => {})
      }`,
      ini: { drain: true },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /drained: 0 done, 1 crashed/)
    assert.deepEqual(leftIn(spool), ['task'])
  })

  it('from a scaling algorithm end neither the daemon nor its root parent', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    giveAway(spool)
    const algorithm = join(dirname(spool), 'algorithm.mjs')
    const bad = JSON.stringify([
      null,
      'started',
      7,
      [],
      {},
      { failed: {} },
      { ask: null },
      { ask: 'everything' },
    ])
    writeFileSync(
      algorithm,
      `export default ({ target }) => {
        for (const each of ${bad}) process.send(each)
        console.log('all of it is sent')
        return { target, state: null, reason: 'it was sent' }
      }`,
    )
    const scaling = { 'spooler-processes': 2, 'spooler-cheaper': 1, 'spooler-cheaper-algo': algorithm }
    const ini = { uid: USER, gid: USER, 'master-as-root': true, 'spooler-cheaper-overload': 1, ...scaling }
    const daemon = await startDaemon({ spool, ini })
    await daemon.waitFor(/all of it is sent[\s\S]*all of it is sent/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
  })

  it('from a handler that doctor loads do not mislead doctor', async () => {
    const spool = spoolDirectory()
    const [ini, handler] = ['app.ini', 'handler.mjs'].map(name => join(dirname(spool), name)) as [
      string,
      string,
    ]
    writeFileSync(
      handler,
      `process.send(null); process.send('ready'); export default (env, task) => task.SPOOL_OK`,
    )
    writeIni(ini, { spooler: spool, 'spooler-import': handler })
    const doctor = new TestProcess(process.execPath, [BIN, 'doctor', ini])
    assert.equal(await doctor.code(), 0, doctor.output)
    assert.match(doctor.output, /handlers: .* they can be loaded/)
  })

  for (const [mode, send, around] of [
    ['processes', 'process.send(value)', `writeSync(3, 'null\\n')`],
    [
      'threads',
      'parentPort.postMessage(value)',
      'Object.getPrototypeOf(parentPort).postMessage.call(parentPort, null)',
    ],
  ] as const)
    it(`from ${mode} of an application do not end the application, and are logged`, async () => {
      const { program, said, spool } = application(
        `import { writeSync } from 'node:fs'
        import { parentPort } from 'node:worker_threads'
        tasks.task('send', value => { ${send} })
        tasks.task('around', { maxRetries: 0 }, async () => {
          ${around}
          await new Promise(resolve => setTimeout(resolve, 20_000))
        })`,
        `for (const value of ${JSON.stringify([...FOREIGN, ...FORGED])}) await app.schedule('send', value)
        await app.schedule('around')
        await app.schedule('say', 'at last')
        await app.start({ mode: '${mode}', stopWhenEmpty: true, block: true })`,
      )
      const running = new TestProcess(process.execPath, [program])
      assert.equal(await running.code(), 0, running.output)
      assert.match(running.output, /what a handler sends by \S+ reaches nobody/)
      assert.deepEqual(said(), ['at last'])
      assert.deepEqual(leftIn(spool), [])
    })

  it('from a task that runs in the process of an application reach the parent of that application', async () => {
    const { program, spool } = application(
      `tasks.task('send', value => process.send(value))`,
      `for (const value of [null, { type: 'reports' }]) await app.schedule('send', value)
      await app.start({ mode: 'in-process', stopWhenEmpty: true, block: true })
      process.disconnect()`,
    )
    const child = fork(program, { stdio: 'ignore' })
    const got: unknown[] = []
    child.on('message', value => got.push(value))
    const [code] = await once(child, 'exit')
    assert.equal(code, 0)
    assert.deepEqual(got, [null, { type: 'reports' }])
    assert.deepEqual(leftIn(spool), [])
  })
})

function byNumber(a: number, b: number): number {
  return a - b
}

/** A program that runs its tasks itself. */
function application(tasks: string, text: string) {
  const spool = spoolDirectory()
  const inIts = (name: string) => join(dirname(spool), name)
  const [module, program, journal] = [inIts('tasks.mjs'), inIts('program.mjs'), inIts('said')]
  writeFileSync(journal, '')
  writeFileSync(
    module,
    `import { appendFileSync } from 'node:fs'
    import { Tasks } from 'spoold'
    export const tasks = new Tasks()
    tasks.task('say', line => appendFileSync(${JSON.stringify(journal)}, line + '\\n'))
    ${tasks}`,
  )
  writeFileSync(
    program,
    `import { Spoold } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
    const app = new Spoold(${JSON.stringify({ spooler: spool, tasks: module, sync: false })})
    ${text}`,
  )
  return { program, spool, said: () => readFileSync(journal, 'utf8').split('\n').filter(Boolean) }
}

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import {
  AbortTask,
  events,
  RetryTask,
  Spoold,
  type SpooldOptions,
  type TaskEvent,
  Tasks,
} from '#src/index.js'
import { InProcessPort } from '#src/runtime/supervisor/in-process-port.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'

const opened: Spoold[] = []

afterEach(async () => {
  for (const app of opened.splice(0)) await app.stop()
})

function application(run: (arg: unknown) => unknown, options: Partial<SpooldOptions> = {}) {
  const tasks = new Tasks()
  const task = tasks.task('task', (arg: unknown) => run(arg))
  const app = new Spoold({ spooler: 'memory:', tasks, ...options })
  opened.push(app)
  return { app, task }
}

describe('lifecycle events', () => {
  it('go to the listeners of an application, and to those of all or of one namespace', async t => {
    const told: string[] = []
    const listen = (who: string) => (event: TaskEvent) =>
      told.push(`${who} ${event.namespace} ${event.task.args[0]}`)
    const [all, shop] = [listen('all'), listen('shop')]
    t.after(() => events.off('task-finished', all).off('task-finished', shop))
    const one = application(() => {}, { namespace: 'shop' })
    const two = application(() => {})
    one.app.on('task-finished', listen('app')).once('task-started', listen('first'))
    events.on('task-finished', all).on('task-finished', shop, { namespace: 'shop' })
    await Promise.all([one.app.start(), two.app.start()])
    for (const { task, who } of [
      { task: one.task, who: 1 },
      { task: two.task, who: 2 },
      { task: one.task, who: 3 },
    ]) {
      const before = told.length
      await task.schedule(who)
      await until('the task has ended', () => told.slice(before).some(line => line.startsWith('all ')))
    }
    assert.deepEqual(told, [
      ...['first shop 1', 'app shop 1', 'all shop 1', 'shop shop 1'],
      'all default 2',
      ...['app shop 3', 'all shop 3', 'shop shop 3'],
    ])
  })

  it('carry what was thrown with its causes, and the content of a thrown object that is no error', async () => {
    const told: Error[] = []
    const cause = new RangeError('too far', { cause: new TypeError('no number') })
    const thrown: unknown[] = [
      new AbortTask('no use', { cause }),
      new RetryTask({ reason: 'again', cause }),
      new Error('wrong', { cause }),
      { code: 5, why: { deep: ['a'] } },
      new AbortTask('no cause'),
    ]
    const { app, task } = application(i => {
      throw thrown[Number(i)]
    })
    app.on('task-failed', ({ error }) => told.push(error))
    await app.start()
    for (const i of thrown.keys()) {
      await task.schedule(i)
      await until('the task has failed', () => told.length === i + 1)
    }
    assert.deepEqual(
      told.map(({ message }) => message),
      [
        'no use',
        'again',
        'wrong',
        "a handler threw an object (Object): { code: 5, why: { deep: [ 'a' ] } }",
        'no cause',
      ],
    )
    for (const { cause } of told.slice(0, 3)) {
      assert.ok(cause instanceof Error && cause.cause instanceof Error)
      const names = [cause.name, cause.message, cause.cause.name, cause.cause.message]
      assert.deepEqual(names, ['RangeError', 'too far', 'TypeError', 'no number'])
      assert.match(cause.stack ?? '', /events\.test/)
    }
    assert.deepEqual([told[3]?.cause, told[4]?.cause], [undefined, undefined])
  })

  it('are refused if the event is unknown or the listener is no function', () => {
    const { app } = application(() => {})
    assert.throws(
      () => app.on('task-ended' as never, () => {}),
      /no event task-ended; expected one of task-started, /,
    )
    assert.throws(() => events.on('task-failed', 'log' as never), /expected a function/)
    assert.throws(() => application(() => {}, { namespace: '_x' }), /namespace must be .* got "_x"/)
  })

  it('reach the other listeners even if one throws or rejects, which is logged', async () => {
    const lines: string[] = []
    const ended: unknown[] = []
    const log = (line: string) => lines.push(line)
    const { app, task } = application(() => {}, { logger: { info() {}, warn: log, error: log } })
    app
      .on('task-started', () => {
        throw new Error('a thrower')
      })
      .on('task-finished', async () => {
        throw new Error('a rejecter')
      })
      .on('task-finished', event => ended.push(event.task.args[0]))
    await app.start()
    await task.schedule(1)
    await task.schedule(2)
    await until('both tasks have ended', () => ended.length === 2 && lines.length === 4)
    assert.deepEqual(ended, [1, 2])
    assert.deepEqual(lines.slice().sort(), [
      ...Array(2).fill('a listener of task-finished failed: a rejecter'),
      ...Array(2).fill('a listener of task-started failed: a thrower'),
    ])
  })

  it('report a process that dies: its task finishes, it terminates, and the next process says the outcome', async () => {
    const directory = workspace()
    const module = join(directory, 'tasks.mjs')
    writeFileSync(
      module,
      `import { currentTask, Tasks } from 'spoold'
      export const tasks = new Tasks()
      const die = () => { if (currentTask().retries === 0) process.kill(process.pid, 'SIGKILL') }
      let others = 0
      tasks.task('beside', { maxRetries: 2 }, () => others++ || new Promise(end => setTimeout(end, 500)))
      tasks.task('after', { maxRetries: 2 }, () => others > 0 && die())
      tasks.task('once', die)
      tasks.task('again', { maxRetries: 2 }, die)`,
    )
    const app = new Spoold({ spooler: join(directory, 'spool'), tasks: module })
    opened.push(app)
    const told: string[] = []
    for (const name of ['task-started', 'task-finished'] as const)
      app.on(name, ({ task, worker }) => told.push(`${name} ${task.name} ${task.status} ${worker}`))
    for (const name of ['task-failed', 'task-retried'] as const)
      app.on(name, ({ task, error }) => told.push(`${name} ${task.name} ${error.name}: ${error.message}`))
    for (const name of ['worker-started', 'worker-terminated'] as const)
      app.on(name, ({ worker, queue }) => told.push(`${name} ${worker} ${queue}`))
    await app.start({ mode: 'processes' })
    await app.schedule('once')
    await until('the failure is reported', () => told.some(line => line.startsWith('task-failed')))
    await app.stop()
    assert.deepEqual(told, [
      'worker-started default-1 default',
      'task-started once 3 default-1',
      'task-finished once 0 default-1',
      'worker-terminated default-1 default',
      'worker-started default-2 default',
      'task-failed once WorkerDied: its process was killed by SIGKILL',
      'worker-terminated default-2 default',
    ])
    told.length = 0
    await app.start({ mode: 'processes' })
    await app.schedule('again')
    await until('the task has run again', () => told.some(line => line.startsWith('task-finished again 4')))
    const ofTask = told.filter(line => line.includes(' again '))
    assert.deepEqual(
      ofTask.map(line => line.replace(/ default-\d$/, '')),
      [
        'task-started again 3',
        'task-finished again 0',
        'task-retried again WorkerDied: its process was killed by SIGKILL',
        'task-started again 3',
        'task-finished again 4',
      ],
    )
    await app.stop()
    told.length = 0
    await app.start({ mode: 'processes', concurrency: 2 })
    await app.schedule('beside')
    await until('the first task runs', () => told.some(line => line.startsWith('task-started beside')))
    await app.schedule('after')
    await until('both tasks have run again', () => told.filter(line => / 4 default-/.test(line)).length === 2)
    const of = (name: string) =>
      told.filter(line => line.includes(` ${name} `)).map(line => line.split(' ')[0])
    assert.deepEqual(of('beside'), ['task-started', 'task-finished', 'task-started', 'task-finished'])
  })

  it('cost no messages while nobody listens', async t => {
    const types: string[] = []
    const { listen, send } = InProcessPort.prototype
    t.after(() => Object.assign(InProcessPort.prototype, { listen, send }))
    InProcessPort.prototype.listen = function ({ heard, garbled }) {
      listen.call(this, {
        garbled,
        heard(message) {
          types.push(message.type)
          heard(message)
        },
      })
    }
    InProcessPort.prototype.send = function (message) {
      types.push(message.type)
      send.call(this, message)
    }
    let runs = 0
    const { app, task } = application(() => runs++)
    const ran = async (count: number) => {
      const before = runs
      for (let i = 0; i < count; i++) await task.schedule(i)
      await until('the tasks have run', () => runs === before + count)
    }
    const told = () => types.filter(type => type === 'follow' || type.startsWith('run-')).length
    await app.start()
    await ran(20)
    assert.equal(told(), 0)
    let ended = 0
    const count = () => ended++
    app.on('task-finished', count)
    await ran(5)
    await until('the listener has heard all', () => ended === 5)
    assert.equal(told(), 11)
    app.off('task-finished', count)
    await ran(1) // this task may begin before the message that nobody listens
    const before = told()
    await ran(10)
    assert.equal(told(), before)
  })
})

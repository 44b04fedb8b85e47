import assert from 'node:assert/strict'
import { once } from 'node:events'
import { realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import {
  currentTask,
  Spoold,
  type SpooldError,
  type SpooldOptions,
  type StartOptions,
  Tasks,
} from '#src/index.js'
import { Maintenance } from '#src/runtime/supervisor/maintenance.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { INDEX, program } from '../helpers/program.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const opened: Spoold[] = []

afterEach(async () => {
  for (const app of opened.splice(0)) await app.stop({ mercyMs: 1000 })
})

/** An application with one task, which calls `run`. */
function application(run: (arg: unknown) => unknown, options: Partial<SpooldOptions> = {}) {
  const tasks = new Tasks({ retryDelay: 0 })
  const task = tasks.task('task', (arg: unknown) => run(arg))
  const app = new Spoold({ spooler: 'memory:', sync: false, tasks, ...options })
  opened.push(app)
  return { app, tasks, task }
}

const isRefused = (code: string, message: RegExp) => (error: SpooldError) => {
  assert.equal(error.code, code)
  assert.match(error.message, message)
  return true
}

const STATE = `({
  cwd: process.cwd(), umask: process.umask(), title: process.title,
  listeners: process.eventNames().filter(name => !['newListener', 'removeListener'].includes(name)).map(name => [String(name), process.listenerCount(name)]),
})`

describe('an application that runs its tasks in its own process', () => {
  it('keeps its directory, umask, title and signals, prints nothing, and ends when it has stopped', async () => {
    const { ended } = program(`
      import { Spoold, Tasks } from ${INDEX}
      const states = [${STATE}]
      const tasks = new Tasks()
      tasks.task('look', async () => { states.push(${STATE}); await null; states.push(${STATE}) })
      tasks.task('fail', { queue: 'other' }, () => { throw new Error('no') })
      const app = new Spoold({ spooler: 'spool', queues: { other: 'spool2' }, tasks })
      await app.start({ concurrency: 2 })
      states.push(${STATE})
      await app.schedule('look')
      await app.schedule('fail')
      while (states.length < 4) await new Promise(resolve => setTimeout(resolve, 5))
      await app.stop()
      states.push(${STATE})
      console.log(JSON.stringify(states))`)
    const { code, stdout, stderr } = await ended
    assert.deepEqual([code, stderr], [0, ''])
    const states = JSON.parse(stdout) as object[]
    assert.equal(states.length, 5)
    for (const state of states) assert.deepEqual(state, states[0])
  })

  it('ends even if it is stopped while it starts', async () => {
    const { child, ended } = program(`
      import { Spoold, Tasks } from ${INDEX}
      const app = new Spoold({ spooler: 'spool', tasks: new Tasks() })
      const started = app.start()
      await app.stop()
      await started
      console.log('stopped')`)
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000)
    assert.deepEqual(await ended, { code: 0, stdout: 'stopped\n', stderr: '' })
    clearTimeout(late)
  })

  it('with block, stops at SIGTERM after its running task has ended', async () => {
    const { child, ended } = program(`
      import { Spoold, Tasks } from ${INDEX}
      const tasks = new Tasks()
      tasks.task('slow', async () => {
        process.stdout.write('begin ')
        await new Promise(resolve => setTimeout(resolve, 300))
        process.stdout.write('end ')
      })
      const app = new Spoold({ spooler: 'spool', tasks })
      await app.schedule('slow')
      await app.start({ block: true })
      console.log('stopped', process.listenerCount('SIGTERM'), process.listenerCount('SIGINT'))`)
    await once(child.stdout, 'data')
    child.kill('SIGTERM')
    assert.deepEqual(await ended, { code: 0, stdout: 'begin end stopped 0 0\n', stderr: '' })
  })

  it('with stopWhenEmpty, stops when nothing is due, even if a task is for later', async () => {
    const ran: unknown[] = []
    const { app, task } = application(arg => ran.push(arg))
    for (let i = 0; i < 5; i++) await task.schedule(i)
    await task.scheduleAt('+1h', 'later')
    await app.start({ stopWhenEmpty: true, block: true })
    assert.deepEqual(ran, [0, 1, 2, 3, 4])
  })

  it('adds no further symbols to the promises of the program, however often it starts and stops', async () => {
    const marks: number[] = []
    for (let i = 0; i < 4; i++) {
      const { app, task } = application(() => {})
      await task.schedule(i)
      await app.start({ stopWhenEmpty: true, block: true })
      marks.push(Object.getOwnPropertySymbols(Promise.resolve()).length)
    }
    assert.equal(marks.at(-1), marks[0])
  })

  it('aborts the signal of a task at its deadline, and that of a running task before the mercy of a stop ends', async () => {
    const seen: string[] = []
    const begun: unknown[] = []
    const waited: number[] = []
    let since = 0
    const { app, task } = application(async what => {
      begun.push(what)
      const signal = currentTask()?.signal
      await new Promise(resolve => signal?.addEventListener('abort', resolve))
      seen.push(`${what}: ${signal?.reason.message}`)
      waited.push(performance.now() - since)
    })
    await app.start({ deadline: '300ms' })
    since = performance.now() // a busy machine begins later
    await task.schedule('deadline')
    await until('the task has ended', () => waited.length === 1)
    assert.ok(Number(waited[0]) >= 295, `${waited[0]} ms`)
    await app.stop()
    await app.start()
    await task.schedule('mercy')
    await until('the task runs', () => begun.length === 2)
    await app.stop({ mercyMs: 400 })
    assert.deepEqual(seen, [
      'deadline: this task has to end: its deadline ends',
      'mercy: this task has to end: the mercy of a stop ends',
    ])
  })

  it('takes a deadline and a mercy that are longer than any timer', async () => {
    let [isAborted, hasBegun] = [false, false]
    let end = () => {}
    const { app, task } = application(async () => {
      currentTask()?.signal.addEventListener('abort', () => (isAborted = true))
      hasBegun = true
      await new Promise<void>(resolve => (end = resolve))
    })
    await app.start({ deadline: '365d' })
    await task.schedule('long')
    await until('the task runs', () => hasBegun)
    let hasStopped = false
    const stop = app.stop({ mercyMs: Number.POSITIVE_INFINITY }).then(() => (hasStopped = true))
    // a timer of too many milliseconds fires after one
    await new Promise(resolve => setTimeout(resolve, 50))
    assert.deepEqual([isAborted, hasStopped], [false, false])
    end()
    await stop
    await assert.rejects(
      app.stop({ mercyMs: Number.NaN }),
      /mercyMs must be milliseconds, or Infinity, got NaN/,
    )
  })

  it('lets a task that ignores the mercy of a stop run to its end, and does not run it again', async () => {
    const spooler = spoolDirectory()
    let end = () => {}
    let runs = 0
    const { app, task } = application(
      () => {
        runs++
        return new Promise<void>(resolve => {
          end = resolve
        })
      },
      { spooler },
    )
    await app.start()
    await task.schedule(1)
    await until('the task runs', () => runs === 1)
    await app.stop({ mercyMs: 50 })
    await app.start()
    await app.stop()
    assert.deepEqual([runs, leftIn(spooler).length], [1, 1])
    end()
    await until('the task is done', () => leftIn(spooler).length === 0)
  })

  it('knows the current task in each run, and none outside of runs', async () => {
    const names: Array<unknown> = []
    const { app, task } = application(async arg => {
      names.push(currentTask()?.args[0])
      await new Promise(resolve => setTimeout(resolve, 20))
      names.push([arg, currentTask()?.args[0]])
      setImmediate(() => names.push('after'))
    })
    await app.start({ concurrency: 2 })
    await Promise.all([task.schedule('a'), task.schedule('b')])
    assert.equal(currentTask(), undefined)
    await until('both tasks run', () => names.length === 2)
    assert.equal(currentTask(), undefined)
    await until('both tasks have ended', () => names.length === 6)
    assert.deepEqual(names.filter(Array.isArray).sort(), [
      ['a', 'a'],
      ['b', 'b'],
    ])
  })

  it('runs tasks that are registered later, and takes the tasks that its tasks schedule', async () => {
    const ran: string[] = []
    const elsewhere = new Tasks()
    const { app, tasks, task } = application(async () => {
      await elsewhere.schedule('late')
    })
    await app.start()
    tasks.task('late', () => ran.push('late'))
    elsewhere.task('late', () => ran.push('not this one'))
    await task.schedule(1)
    await until('the late task has run', () => ran.length === 1)
    assert.deepEqual(ran, ['late'])
    await assert.rejects(elsewhere.schedule('late'), isRefused('DESTINATION_MISSING', /three ways/))
  })

  it('in memory, shares no task with another application, even if their tasks have one name', async () => {
    const ran: string[] = []
    const one = application(arg => ran.push(`one ${arg}`))
    const two = application(arg => ran.push(`two ${arg}`))
    const three = application(arg => ran.push(`three ${arg}`), { spooler: spoolDirectory() })
    const all = [one, two, three]
    await Promise.all(all.map(({ task }, i) => task.schedule(i + 1)))
    for (const { app } of all) await app.start({ stopWhenEmpty: true, block: true })
    assert.deepEqual(ran, ['one 1', 'two 2', 'three 3'])
  })

  it('runs each task once when it shares a directory with another application and a daemon', async () => {
    const spooler = spoolDirectory()
    const ran: string[] = []
    const run = (by: string) => (arg: unknown) => {
      ran.push(`${by} ${arg}`)
      return new Promise(resolve => setTimeout(resolve, 5))
    }
    const [one, two] = [application(run('one'), { spooler }), application(run('two'), { spooler })]
    const daemon = await startDaemon({
      spool: spooler,
      handler: `import { Tasks } from 'spoold'
        export const tasks = new Tasks()
        tasks.task('task', arg => { JOURNAL(arg); return new Promise(resolve => setTimeout(resolve, 5)) })`,
    })
    await Promise.all([one.app.start(), two.app.start()])
    await Promise.all(Array.from({ length: 300 }, (_, i) => one.task.schedule(i)))
    await until('all tasks have run', () => leftIn(spooler).length === 0)
    const by = (name: string) => ran.filter(line => line.startsWith(name)).map(line => line.slice(4))
    const counts = [by('one'), by('two'), daemon.journal()]
    assert.deepEqual(
      counts
        .flat()
        .map(Number)
        .sort((a, b) => a - b),
      Array.from({ length: 300 }, (_, i) => i),
    )
    assert.ok(
      counts.every(each => each.length > 0),
      counts.map(each => each.length).join(),
    )
    daemon.child.kill('SIGTERM')
    await daemon.code()
  })

  it('sweeps its directories as a daemon does while it runs, and sweeps nothing in memory', async t => {
    const spooler = spoolDirectory()
    const calls: unknown[] = []
    const { start, stop } = Maintenance.prototype
    t.after(() => Object.assign(Maintenance.prototype, { start, stop }))
    Maintenance.prototype.start = function (spools) {
      calls.push(...spools.map(({ spool, isOwn, graceMs }) => [spool, isOwn, graceMs]))
      start.call(this, spools)
    }
    Maintenance.prototype.stop = function () {
      calls.push('stop')
      stop.call(this)
    }
    for (const options of [{ spooler }, {}]) {
      const { app } = application(() => {}, options)
      await app.start()
      await app.stop()
    }
    assert.deepEqual(calls, [[realpathSync(spooler), true, 3_600_000], 'stop', 'stop'])
  })

  it('logs to its logger what a daemon logs, even if the logger throws', async () => {
    const lines: string[] = []
    const logger = {
      info: (line: string) => lines.push(line),
      warn: () => assert.fail('a warning'),
      error(line: string) {
        lines.push(line)
        throw new Error('the logger')
      },
    }
    const { app, task } = application(
      arg => {
        if (arg === 'fail') throw new Error('on purpose')
        currentTask()?.log('hello')
      },
      { logger },
    )
    await app.start()
    await task.schedule('fail')
    await task.schedule('log')
    await until('both tasks have ended', () => lines.some(line => line.includes('done with task')))
    await app.stop()
    assert.match(
      lines.join('\n'),
      /managing request task-1.*task task-1 \(task\) is buried.*on purpose.*hello/s,
    )
    assert.ok(lines.every(line => !line.includes('pid: 0')))
  })
})

describe('a start is refused', () => {
  const queues = { mail: spoolDirectory(), far: '127.0.0.1:1' }
  const refusals: Array<[string, Partial<SpooldOptions>, StartOptions, string, RegExp]> = [
    [
      'of tasks that are functions, in the mode processes',
      { spooler: spoolDirectory() },
      { mode: 'processes' },
      'START_FAILED',
      /functions cannot be sent to another process.*\.\/tasks\.js.*task, registered at .*in-process\.test/,
    ],
    ['of a spool in memory, in the mode processes', {}, { mode: 'processes' }, 'START_FAILED', /memory/],
    ['of a queue without a spool', { queues }, { queue: 'post' }, 'QUEUE_UNKNOWN', /post/],
    [
      'of a queue that goes to the socket of a daemon',
      { spooler: spoolDirectory(), queues },
      { queue: 'far' },
      'START_FAILED',
      /far goes to the socket/,
    ],
    [
      'in an unknown mode',
      {},
      { mode: 'fast' as never },
      'TASK_INVALID',
      /in-process, threads, processes, got "fast"/,
    ],
    ['with no worker', {}, { workers: 0 }, 'TASK_INVALID', /workers must be a whole number from 1, got 0/],
    ['with an invalid deadline', {}, { deadline: 'soon' }, 'TASK_INVALID', /deadline must be seconds/],
    ['with an unknown option', {}, { worker: 1 } as never, 'TASK_INVALID', /there is no option worker/],
  ]
  for (const [what, options, start, code, message] of refusals)
    it(what, async () => {
      const spooler = what.includes('without') ? { spooler: spoolDirectory() } : {}
      const { app } = application(() => {}, { ...spooler, ...options })
      await assert.rejects(app.start(start), isRefused(code, message))
      await app.start({ stopWhenEmpty: true, block: true }) // the refused start has left nothing behind
    })

  it('of a queue that runs already, while another queue may start with other options', async () => {
    const ran: string[] = []
    const { app, tasks } = application(() => ran.push('default'))
    tasks.task('mail', { queue: 'mail' }, () => ran.push('mail'))
    await app.start({ queue: 'mail' })
    await app.schedule('task', 1)
    await app.schedule('mail')
    await until('the task of the queue mail has run', () => ran.length === 1)
    await assert.rejects(app.start(), isRefused('START_FAILED', /the queue mail is already running/))
    await app.start({ queue: 'default', concurrency: 3 })
    await until('the task of the default queue has run', () => ran.length === 2)
    assert.deepEqual(ran, ['mail', 'default'])
  })

  it('if the module of tasks cannot be loaded', async () => {
    const directory = workspace()
    writeFileSync(join(directory, 'tasks.mjs'), 'throw new Error("not today")')
    const app = new Spoold({ spooler: join(directory, 'spool'), tasks: join(directory, 'tasks.mjs') })
    for (const mode of ['in-process', 'threads', 'processes'] as const)
      await assert.rejects(
        app.start({ mode }),
        isRefused('HANDLER_UNLOADABLE', /tasks\.mjs could not be loaded.*not today/s),
      )
    await assert.rejects(app.schedule('any'), isRefused('HANDLER_UNLOADABLE', /not today/))
    assert.deepEqual(leftIn(dirname(join(directory, 'spool', 'x'))), [])
  })
})

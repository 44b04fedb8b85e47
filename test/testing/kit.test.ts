import assert, { AssertionError } from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { fake, inline, type KitTasks, type TestKit } from '#src/api/testing/index.js'
import {
  AbortTask,
  currentTask,
  RetryTask,
  Spoold,
  SpooldError,
  TaskBatch,
  TaskStatus,
  Tasks,
} from '#src/index.js'

const HOUR_MS = 3_600_000
const kits: TestKit[] = []
afterEach(() => {
  for (const kit of kits.splice(0)) kit.restore()
})

function kept(kit: TestKit): TestKit {
  kits.push(kit)
  return kit
}

/** Returns an application whose spool does not exist. */
function application() {
  const ran: string[] = []
  const tasks = new Tasks({ maxRetries: 2, backoff: 'fixed', retryDelay: '5m' })
  const sendMail = tasks.task('send-mail', (to: string, options: { cc?: string[] } = {}) => {
    ran.push(`${to} ${JSON.stringify(options)} ${currentTask()?.retries}`)
  })
  const fail = tasks.task('fail', async (what: string) => {
    ran.push(what)
    if (what === 'abort') throw new AbortTask('no such customer')
    if (what === 'at') throw new RetryTask({ at: new Date(Date.now() + HOUR_MS) })
    throw new RangeError(what)
  })
  const spoold = new Spoold({ spooler: '/nonexistent/spool', tasks })
  return { ran, tasks, sendMail, fail, spoold }
}

const outcomes = async (kit: TestKit, options = {}) =>
  (await kit.drain(options)).map(({ task, outcome }) => `${task.name} ${outcome}`)

function messageOf(assertion: () => void): string {
  try {
    assertion()
  } catch (error) {
    assert.ok(error instanceof AssertionError)
    assert.match(error.stack ?? '', /^[^\n]*[\s\S]*?\n {4}at [^\n]*kit\.test\.[jt]s/)
    assert.doesNotMatch(
      error.stack ?? '',
      /at [^\n]*testing\/(kit|assertions)\.js/,
      'the stack begins in the test',
    )
    return error.message
  }
  return 'it passed'
}

describe('a kit of tasks on Redis', () => {
  it('takes the place of Redis without a connection', async () => {
    const tasks = new Tasks({ spooler: 'redis://127.0.0.1:1/0/nowhere' })
    const tokens: unknown[] = []
    const send = tasks.task('send', async () => void tokens.push(currentTask()?.fencingToken))
    const kit = kept(fake(tasks))
    await send.schedule()
    kit.assertScheduled(send)
    assert.deepEqual(await outcomes(kit), ['send succeeded'])
    assert.deepEqual(tokens, [undefined])
  })
})

describe('a kit that is fake', () => {
  it('collects tasks with the checks of a real spool, and runs none until drain', async () => {
    const { ran, tasks, sendMail, fail, spoold } = application()
    const kit = kept(fake(spoold))
    await sendMail.schedule('joe', { cc: ['jane'] })
    await spoold.schedule('send-mail', 'jack')
    await tasks.scheduleBatch(new TaskBatch().schedule(fail, 'abort').scheduleAt(sendMail, '+1h', 'jim'))
    await assert.rejects(sendMail.schedule(...([] as unknown as [string])), { code: 'ARGUMENTS_INVALID' })
    await assert.rejects(spoold.schedule('send-mail', 1n), { code: 'ARGUMENTS_INVALID' })
    await assert.rejects(spoold.schedule('send-fax'), { code: 'TASK_UNKNOWN' })
    assert.deepEqual(
      kit.scheduled('send-mail').map(({ args, status, maxRetries }) => [args, status, maxRetries]),
      [
        [['joe', { cc: ['jane'] }], TaskStatus.QUEUED, 2],
        [['jack'], TaskStatus.QUEUED, 2],
        [['jim'], TaskStatus.WAITING, 2],
      ],
    )
    assert.deepEqual(
      [kit.scheduled().length, kit.waiting().length, kit.scheduled(fail).length, ran],
      [4, 4, 1, []],
    )
    assert.deepEqual(await outcomes(kit), ['send-mail succeeded', 'send-mail succeeded', 'fail failed'])
    assert.deepEqual(ran, ['joe {"cc":["jane"]} 0', 'jack {} 0', 'abort'])
    assert.deepEqual(
      kit.waiting().map(({ args }) => args),
      [['jim']],
    )
    assert.equal(kit.scheduled().length, 4, 'what was scheduled stays')
  })

  it('gives each run a copy of the arguments that went through JSON', async () => {
    const { tasks } = application()
    const list = [1]
    const change = tasks.task('change', (given: number[]) => void given.push(2))
    const kit = kept(fake(tasks))
    await change.schedule(list)
    list.push(9)
    assert.deepEqual(await outcomes(kit), ['change succeeded'])
    assert.deepEqual([list, kit.scheduled(change)[0]?.args], [[1, 9], [[1]]])
  })

  it('runs retries and tasks for later as the clock advances, or all at once', async () => {
    const { ran, sendMail, fail, spoold } = application()
    const kit = kept(fake(spoold))
    await fail.schedule('again')
    await sendMail.scheduleAt(new Date(Date.now() + HOUR_MS), 'later')
    const [first] = await kit.drain()
    assert.deepEqual([first?.outcome, first?.task.retries], ['retried', 1])
    kit.advance('4m')
    assert.deepEqual(await outcomes(kit), [])
    kit.advance(61)
    assert.deepEqual(await outcomes(kit), ['fail retried'])
    assert.deepEqual(kit.waiting('fail')[0]?.retries, 2)
    const began = Date.now()
    assert.deepEqual(await outcomes(kit, { future: true }), ['fail failed', 'send-mail succeeded'])
    assert.ok(Date.now() - began > HOUR_MS * 0.9, 'the clock was advanced to the time of the task')
    assert.deepEqual(ran, ['again', 'again', 'again', 'later {} 0'])
    assert.deepEqual(
      kit.failed().map(({ task, error }) => [task.status, String(error)]),
      [[TaskStatus.FAILED, 'RangeError: again']],
    )
  })

  it('takes the time that RetryTask names on the clock that the task sees', async () => {
    const { fail, spoold } = application()
    const kit = kept(fake(spoold))
    kit.travelTo(new Date('2040-01-01T12:00:00Z'))
    const { at } = await fail.schedule('at')
    assert.equal(at.toISOString().slice(0, 16), '2040-01-01T12:00')
    const [run] = await kit.drain()
    assert.deepEqual([run?.outcome, run?.task.at.toISOString().slice(0, 16)], ['retried', '2040-01-01T13:00'])
    kit.advance('59m')
    assert.deepEqual(await kit.drain(), [])
    kit.advance('61s')
    assert.equal((await kit.drain()).length, 1)
  })

  it('runs the tasks that tasks schedule, and stops after maxRuns if there is no end', async () => {
    const tasks = new Tasks()
    const count = tasks.task('count', async (n: number) => {
      if (n > 0) await count.schedule(n - 1)
    })
    const endless = tasks.task('endless', async () => void (await endless.schedule()))
    const kit = kept(fake(tasks))
    await count.schedule(3)
    assert.equal((await kit.drain()).length, 4)
    await endless.schedule()
    await assert.rejects(kit.drain({ maxRuns: 50 }), /drain: 50 runs, and endless still waits/)
    kit.clear()
    assert.deepEqual([kit.scheduled(), kit.waiting(), await kit.drain()], [[], [], []])
  })

  it('forgets failures and ids, too, with clear', async () => {
    const { sendMail, fail, spoold } = application()
    const kit = kept(fake(spoold))
    await fail.schedule('abort')
    await sendMail.with({ id: 'one' }).schedule('joe')
    await kit.drain()
    assert.equal(kit.failed().length, 1)
    kit.clear()
    assert.deepEqual(kit.failed(), [])
    assert.equal((await sendMail.with({ id: 'one' }).schedule('joe')).status, TaskStatus.QUEUED)
  })

  it('calls middleware, and stores a task once per id', async () => {
    const { sendMail, tasks, ran } = application()
    const heard: string[] = []
    tasks.middleware({
      enqueue: async (call, next) => {
        heard.push(`enqueue ${call.name}`)
        return next()
      },
      run: async (task, next) => {
        heard.push(`run ${task.id}`)
        await next()
      },
    })
    const kit = kept(fake(tasks))
    await sendMail.with({ id: 'one' }).schedule('joe')
    assert.equal((await sendMail.with({ id: 'one' }).schedule('joe')).status, TaskStatus.NOT_SET)
    await kit.drain()
    assert.deepEqual([heard, ran], [['enqueue send-mail', 'enqueue send-mail', 'run one'], ['joe {} 0']])
    assert.equal(currentTask(), undefined)
  })
})

describe('a kit that is inline', () => {
  it('runs a task before schedule resolves, within other tasks too, and rejects with what the task throws', async () => {
    const { ran, tasks, sendMail, fail } = application()
    const both = tasks.task('both', async (to: string) => {
      await sendMail.schedule(to)
      ran.push('both')
    })
    const kit = kept(inline(tasks))
    await both.schedule('joe')
    assert.deepEqual(ran, ['joe {} 0', 'both'])
    await assert.rejects(fail.schedule('no'), new RangeError('no'))
    await assert.rejects(
      tasks.scheduleBatch(new TaskBatch().schedule(sendMail, 'a').schedule(fail, 'no')),
      RangeError,
    )
    assert.deepEqual(ran.slice(2), ['no', 'a {} 0', 'no'])
    assert.equal(kit.waiting('fail').length, 2, 'their retries wait')
  })

  it('stores a task once per id: a task that waits for its retry does not run for a second call', async () => {
    const { ran, tasks, fail } = application()
    const kit = kept(inline(tasks))
    await assert.rejects(fail.with({ id: 'one' }).schedule('no'), RangeError)
    kit.advance('10m') // the retry is due, and waits for drain
    assert.equal((await fail.with({ id: 'one' }).schedule('no')).status, TaskStatus.NOT_SET)
    assert.deepEqual(ran, ['no'])
  })

  it('collects tasks that are for later', async () => {
    const { ran, tasks, sendMail } = application()
    const kit = kept(inline(tasks))
    await sendMail.scheduleAt('+10m', 'joe')
    assert.deepEqual([ran, kit.waiting().length], [[], 1])
    kit.advance('10m')
    assert.deepEqual(await outcomes(kit), ['send-mail succeeded'])
  })
})

describe('the assertions of a kit', () => {
  it('pass if the tasks were scheduled', async () => {
    const { tasks, sendMail, fail } = application()
    const kit = kept(fake(tasks))
    kit.assertNothingScheduled()
    kit.assertNotScheduled(fail)
    const at = new Date(Date.now() + HOUR_MS)
    await sendMail.schedule('joe', { cc: [] })
    await sendMail.schedule('joe', { cc: [] })
    await sendMail.scheduleAt(at, 'jane')
    kit.assertScheduled(sendMail)
    kit.assertScheduled('send-mail', ['joe', { cc: [] }], { times: 2, queue: 'default' })
    kit.assertScheduled(sendMail, ['jane'], { at })
    kit.assertScheduled(fail, ['x'], { times: 0 })
  })

  it('say how the closest task differs, with a stack that begins in the test', async () => {
    const { tasks, sendMail, fail } = application()
    const kit = kept(fake(tasks))
    assert.equal(
      messageOf(() => kit.assertScheduled('send-mail', ['joe'])),
      'send-mail was never scheduled like this, expected at least once; nothing was scheduled',
    )
    await fail.schedule('x')
    await sendMail.schedule('jane', { cc: ['jim'] })
    await sendMail.schedule('joe', { cc: ['jim', 'jack'] })
    const message = messageOf(() => kit.assertScheduled(sendMail, ['joe', { cc: ['jim'] }]))
    assert.match(message, /^send-mail was scheduled 2 times, but not like this; the closest one:\n/)
    assert.match(message, /^\+ +'jack'$/m)
    assert.doesNotMatch(message, /jane/)
    assert.match(
      messageOf(() =>
        kit.assertScheduled(sendMail, ['jane', { cc: ['jim'] }], { at: new Date('2040-01-01') }),
      ),
      /^\+ +at: '20\d\d-[^\n]+\n- +at: '2040-01-01T00:00:00.000Z'/m,
    )
    assert.match(
      messageOf(() => kit.assertScheduled(sendMail, undefined, { queue: 'mail' })),
      /^\+ +queue: 'default'\n- +queue: 'mail'/m,
    )
    assert.equal(
      messageOf(() => kit.assertScheduled(sendMail, undefined, { times: 1 })),
      'send-mail was scheduled 2 times, expected once; scheduled: fail, send-mail (2)',
    )
    assert.equal(
      messageOf(() => kit.assertNotScheduled('fail')),
      'expected no fail, but scheduled: fail; the first has the arguments ["x"]',
    )
    assert.match(
      messageOf(() => kit.assertNothingScheduled()),
      /^expected that nothing was scheduled, but scheduled: fail, send-mail \(2\)/,
    )
  })
})

describe('a kit', () => {
  it('is the only one of its tasks until restore, which gives back their spools and the real clock', async () => {
    const { tasks, sendMail, spoold } = application()
    const realDate = globalThis.Date
    const kit = kept(fake(spoold))
    assert.throws(
      () => fake(spoold),
      (error: unknown) =>
        error instanceof SpooldError &&
        /have a test kit already, made at .*kit\.test\.[jt]s:\d+: call/.test(error.message),
    )
    kit.advance('1d')
    assert.ok(Date.now() > realDate.now() + 80_000_000)
    assert.ok(new Date() > new realDate(realDate.now() + 80_000_000))
    assert.ok(new Date() instanceof Date && new Date(5).getTime() === 5 && typeof Date() === 'string')
    kit.restore()
    assert.equal(globalThis.Date, realDate)
    await assert.rejects(sendMail.schedule('joe'), { code: 'SPOOL_UNUSABLE' })
    const inner = kept(inline(tasks))
    await spoold.schedule(sendMail, 'joe')
    inner.assertScheduled(sendMail, ['joe'])
  })

  it('refuses values that are no tasks, tasks that it does not have, and wrong times', () => {
    assert.throws(() => fake({} as KitTasks), /kit\.test\.[jt]s:\d+: expected Tasks, got/)
    const { tasks } = application()
    const kit = kept(fake(tasks))
    assert.throws(() => kit.scheduled(() => {}), { code: 'TASK_UNKNOWN' })
    assert.throws(() => kit.advance('soon'), { code: 'ARGUMENTS_INVALID' })
  })
})

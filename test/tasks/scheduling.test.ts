import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import vm from 'node:vm'
import { argumentsOf } from '#src/formats/protocol/named.js'
import { parseVars, toDictionary } from '#src/formats/protocol/vars.js'
import {
  BatchError,
  Spoold,
  SpooldError,
  TaskBatch,
  TaskStatus,
  Tasks,
  type TasksOptions,
} from '#src/index.js'
import { mostArguments } from '#src/runtime/tasks/arguments.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const refused = (code: string, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof SpooldError, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, message)
  return true
}

/** Returns the stored tasks, as their packets say. */
function storedIn(spool: string) {
  return leftIn(spool).map(name => {
    const file = readFileSync(join(spool, name))
    const end = 4 + file.readUInt16LE(1)
    const vars = parseVars(file.toString('latin1'), 4, end)
    assert.ok(!('fault' in vars))
    const { task, id, at, queue } = toDictionary(vars)
    return { task, id, at, queue, ...argumentsOf(vars, () => file.subarray(end)) }
  })
}

function registry(options: TasksOptions = {}) {
  const spooler = spoolDirectory()
  const tasks = new Tasks({ spooler, sync: false, ...options })
  const ran: unknown[] = []
  const add = tasks.task('add', (a: number, b: number) => {
    ran.push([a, b])
    return a + b
  })
  return { spooler, tasks, add, ran }
}

describe('a task', () => {
  it('can still be called as a function, and has its name', () => {
    const { add, ran } = registry()
    assert.equal(add(5, 3), 8)
    assert.deepEqual([add.name, add.length, ran], ['add', 2, [[5, 3]]])
  })

  it('can be scheduled by itself, its function or its name, through its registry or an application', async () => {
    const { spooler, tasks, add } = registry()
    const fn = (a: number) => a
    tasks.add(fn, { name: 'plain' })
    const spoold = new Spoold({ spooler: spoolDirectory(), sync: false, tasks })
    await add.schedule(1, 2)
    await tasks.schedule(add, 3, 4)
    await tasks.schedule('add', 5, 6)
    await tasks.schedule(fn, 7)
    await spoold.schedule(add, 8, 9)
    await spoold.schedule('plain', 10)
    const stored = storedIn(spooler).map(({ task, args }) => [task, args])
    assert.deepEqual(
      stored.sort((a, b) => Number(a[1]?.[0]) - Number(b[1]?.[0])),
      [
        ['add', [1, 2]],
        ['add', [3, 4]],
        ['add', [5, 6]],
        ['plain', [7]],
        ['add', [8, 9]],
        ['plain', [10]],
      ],
      'tasks go where their registry says, whichever application schedules them',
    )
  })

  it('is returned frozen when it is scheduled, with the UUID of its packet', async () => {
    const { spooler, add } = registry({ maxRetries: 2 })
    const before = Date.now()
    const task = await add.schedule(1, 2)
    const { id, at, ...rest } = task
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.deepEqual(rest, {
      status: TaskStatus.QUEUED,
      name: 'add',
      queue: 'default',
      maxRetries: 2,
      retries: 0,
      args: [1, 2],
      kwargs: {},
    })
    assert.ok(at.getTime() >= before && at.getTime() <= Date.now())
    assert.ok(Object.isFrozen(task) && Object.isFrozen(task.args) && Object.isFrozen(task.kwargs))
    assert.deepEqual(
      storedIn(spooler).map(each => each.id),
      [id],
    )
  })

  it('waits until its time, rounded up to a second, and never starts before it', async () => {
    const { spooler, add } = registry()
    const handler = `
      import { Tasks } from 'spoold'
      export const tasks = new Tasks()
      tasks.task('add', (a, b) => JOURNAL(String(Date.now())))`
    const daemon = await startDaemon({ spool: spooler, handler })
    const at = new Date(Date.now() + 2000)
    at.setMilliseconds(900) // rounded down, it would start 900 ms too early
    await add.scheduleAt(at, 1, 2)
    await until('the task has run', () => leftIn(spooler).length === 0)
    const [startedMs, ...more] = daemon.journal().map(Number)
    assert.ok(startedMs !== undefined && startedMs >= at.getTime(), `${startedMs} < ${at.getTime()}`)
    assert.deepEqual(more, [])
  })

  it('is stored with its time, rounded up to a second, and not at all with an invalid one', async () => {
    const { spooler, tasks, add } = registry()
    const at = new Date(Date.now() + 3_600_000)
    at.setMilliseconds(1)
    const task = await add.scheduleAt(at, 1, 2)
    assert.equal(task.status, TaskStatus.WAITING)
    assert.equal(task.at.getTime(), Math.ceil(at.getTime() / 1000) * 1000)
    assert.equal(Number(storedIn(spooler)[0]?.at) * 1000, task.at.getTime())
    for (const wrong of [new Date(Number.NaN), Number.NaN, undefined as unknown as Date])
      await assert.rejects(
        tasks.scheduleAt(add, wrong, 1, 2),
        refused('ARGUMENTS_INVALID', /at must be a valid Date/),
      )
    assert.equal(leftIn(spooler).length, 1)
  })

  it('is refused if the arguments of scheduleAt are mixed up, and the error says how to call it', async () => {
    const { spooler, tasks, add } = registry()
    const mixed = tasks as unknown as { scheduleAt(...args: unknown[]): Promise<unknown> }
    const byTask = add as unknown as typeof mixed
    const isNoTime = (got: string, call: string) =>
      refused('ARGUMENTS_INVALID', new RegExp(`^at must be .*, got ${got}; expected scheduleAt\\(${call}`))
    await assert.rejects(mixed.scheduleAt('+1h', 'add', 1, 2), isNoTime('"add"', 'TASK, TIME'))
    await assert.rejects(mixed.scheduleAt(new Date(), add, 1, 2), isNoTime('a function', 'TASK, TIME'))
    await assert.rejects(mixed.scheduleAt(add, 'joe', '+1h'), isNoTime('"joe"', 'TASK, TIME'))
    await assert.rejects(byTask.scheduleAt('joe', '+1h'), isNoTime('"joe"', 'TIME, '))
    const batch = new TaskBatch() as unknown as { scheduleAt(...args: unknown[]): TaskBatch }
    assert.throws(() => batch.scheduleAt('+1h', add, 1, 2), isNoTime('a function', 'TASK, TIME'))
    assert.deepEqual(leftIn(spooler), [])
  })

  it('is stored once for each id that the caller gives', async () => {
    const { spooler, add } = registry()
    const one = await add.with({ spooler, id: 'mail 1' }).schedule(1, 2)
    const two = await add.with({ spooler, id: 'mail 1' }).schedule(1, 2)
    assert.deepEqual(
      [one.id, one.status, two.id, two.status],
      ['mail 1', TaskStatus.QUEUED, 'mail 1', TaskStatus.NOT_SET],
    )
    assert.equal(leftIn(spooler).length, 1)
  })
})

describe('an unknown option', () => {
  it('is refused where it is given, in a call, a batch or a task, and so is anything else than a TaskBatch', async () => {
    const { spooler, tasks, add } = registry()
    const known = 'expected one of spooler, socket, sync, priority, id'
    for (const call of [() => add.with({ at: 5 } as never), () => tasks.with({ at: 5 } as never)])
      assert.throws(
        call,
        refused('REQUEST_INVALID', new RegExp(`no option at .*; ${known}; a time is for scheduleAt`)),
      )
    assert.throws(
      () => new TaskBatch({ maxRetries: 1 } as never),
      refused('REQUEST_INVALID', new RegExp(`no option maxRetries .*; ${known}, allOrNothing$`)),
    )
    for (const options of [null, 5])
      assert.throws(
        () => tasks.task('other', options as never, () => {}),
        refused('TASK_INVALID', /^task other: expected an object of options, got (null|5)/),
      )
    for (const scheduler of [tasks, add])
      await assert.rejects(
        scheduler.scheduleBatch([[add, 1, 2]] as never),
        refused('ARGUMENTS_INVALID', /^expected a TaskBatch, got an array/),
      )
    assert.equal(leftIn(spooler).length, 0)
  })
})

describe('arguments', () => {
  it('that are large are stored whole, whatever their characters, up to 1 MiB of JSON', async () => {
    const { spooler, tasks } = registry()
    const echo = tasks.task('echo', (text: string) => text)
    const texts = [
      'x'.repeat(63_000),
      'x'.repeat(66_000),
      'ü€'.repeat(30_000),
      '\\"'.repeat(100_000),
      'x'.repeat(1_048_572),
    ]
    for (const text of texts) await echo.schedule(text)
    const lengths = storedIn(spooler).map(({ args }) => String(args[0]).length)
    assert.deepEqual(
      lengths.sort((a, b) => a - b),
      texts.map(({ length }) => length).sort((a, b) => a - b),
    )
    await assert.rejects(
      echo.schedule('x'.repeat(1_048_573)),
      refused('ARGUMENTS_INVALID', /take 1048577 bytes as JSON; 1048576 is the limit/),
    )
  })

  const cyclic: unknown[] = []
  cyclic.push({ cyclic })
  let deep: unknown = 1
  for (let i = 0; i < 300; i++) deep = [deep]
  const wrong: Array<[what: string, value: unknown, message: RegExp]> = [
    ['a cycle', cyclic, /args\[0\]\[0\]\.cyclic contains itself/],
    ['a BigInt', { n: 1n }, /args\[0\]\.n is a BigInt/],
    ['undefined', [undefined], /args\[0\]\[0\] is undefined/],
    ['a hole', new Array(1), /args\[0\]\[0\] is undefined/],
    ['a function', () => {}, /args\[0\] is a function/],
    ['a symbol', Symbol('x'), /args\[0\] is Symbol\(x\)/],
    ['NaN', Number.NaN, /args\[0\] is NaN/],
    ['Infinity', [Number.POSITIVE_INFINITY], /args\[0\]\[0\] is Infinity/],
    ['a Date', new Date(0), /args\[0\] is a Date, .*toISOString/],
    ['a Map', new Map(), /args\[0\] is an object \(Map\)/],
    ['bytes', Buffer.from('x'), /args\[0\] is an object \(Buffer\)/],
    ['too much depth', deep, /more than 200 objects deep/],
  ]
  for (const [what, value, message] of wrong)
    it(`with ${what} are refused, and nothing is stored`, async () => {
      const { spooler, tasks } = registry()
      tasks.task('echo', (text: unknown) => text)
      await assert.rejects(tasks.schedule('echo', value), refused('ARGUMENTS_INVALID', message))
      assert.deepEqual(leftIn(spooler), [])
    })

  const counts: Array<[fn: (...args: never[]) => unknown, right: number[], wrong: number[]]> = [
    [() => 1, [0], [1]],
    [(a: number, b: number) => [a, b], [2], [0, 1, 3]],
    [(a: number, b = 1) => [a, b], [1, 2, 3], [0]],
    [(a: number, ...b: number[]) => [a, b], [1, 2, 9], [0]],
    [async (a: { b: number }) => a, [1], [0, 2]],
    [
      function (this: unknown, _a: number) {
        // biome-ignore lint/complexity/noArguments: what is tested
        return arguments
      },
      [1, 2],
      [0],
    ],
    [((a: number) => a).bind(null), [1, 2], [0]],
  ]
  for (const [i, [fn, right, bad]] of counts.entries())
    it(`are counted: ${fn}`, async () => {
      const { spooler, tasks } = registry()
      tasks.add(fn, { name: `f${i}` })
      for (const n of right) await tasks.schedule(`f${i}`, ...new Array(n).fill(1))
      for (const n of bad)
        await assert.rejects(
          tasks.schedule(`f${i}`, ...new Array(n).fill(1)),
          refused('ARGUMENTS_INVALID', new RegExp(`task f${i}: expected .*, got ${n}`)),
        )
      assert.equal(leftIn(spooler).length, right.length)
    })

  it('that only TypeScript knows to be optional may be left out if the option required says so', async () => {
    const { spooler, tasks } = registry()
    const send = (to: string, cc?: string) => [to, cc]
    const mail = tasks.task('mail', { required: 1 }, send)
    const none = tasks.add(send, { name: 'none', required: 0 })
    await mail.schedule('joe')
    await mail.schedule('joe', 'jane')
    await none.with({}).schedule(...([] as unknown as [string]))
    await assert.rejects(
      tasks.schedule('mail'),
      refused(
        'ARGUMENTS_INVALID',
        /task mail: expected 1 to 2 arguments, got 0; .* cc = null, or .* required: 0/,
      ),
    )
    await assert.rejects(tasks.schedule('mail', 1, 2, 3), refused('ARGUMENTS_INVALID', /got 3/))
    assert.equal(leftIn(spooler).length, 3)
    for (const required of [3, -1, 1.5, 'one'])
      assert.throws(
        () => tasks.task('other', { required } as never, send),
        refused('TASK_INVALID', /task other: required must be /),
      )
    assert.throws(
      () => new Tasks({ required: 1 } as never),
      refused('TASK_INVALID', /there is no option required/),
    )
  })

  it('are counted without what comments and texts between the parameters contain', () => {
    const functions: ReadonlyArray<readonly [(...args: never[]) => unknown, number]> = [
      ['async (to, // 1) the address\n subject = "hello") => {}', Number.POSITIVE_INFINITY],
      ['(to /* :) = */, cc // , bcc = 1\n) => {}', 2],
      ['function /* ( */ send(to) { return (to) }', 1],
      ['(to, cc = ")") => {}', Number.POSITIVE_INFINITY],
      ['({ "a)": to }, cc) => {}', Number.POSITIVE_INFINITY],
      ['({ to, cc }, [bcc]) => {}', 2],
      ['async to => {}', 1],
      ['(...all) => {}', Number.POSITIVE_INFINITY],
    ].map(([source, most]) => [vm.runInThisContext(`(${source})`), Number(most)] as const)
    for (const [fn, most] of functions) assert.equal(mostArguments(fn), most, String(fn))
  })

  it('with a number that JavaScript cannot hold are refused, because other languages can send one', () => {
    const argumentsAre = (args: string, body?: string) => {
      const bytes = packet({ task: 'x', args })
      const vars = parseVars(bytes.toString('latin1'), 4, bytes.length)
      assert.ok(!('fault' in vars))
      return argumentsOf(vars, () => (body === undefined ? undefined : Buffer.from(body))).args
    }
    for (const [args, number] of [
      ['[3889108265204450030]', '3889108265204450030'],
      ['[{"id":[-9007199254740993]}]', '-9007199254740993'],
      ['[1e400]', '1e400'],
      ['["\\"", 12345678901234567891]', '12345678901234567891'],
    ] as const)
      assert.throws(
        () => argumentsAre(args),
        refused('ARGUMENTS_INVALID', new RegExp(`got ${number}: schedule it as text`)),
      )
    assert.throws(
      () => argumentsAre('@body', '{"args":[3889108265204450030]}'),
      refused('ARGUMENTS_INVALID', /got 3889/),
    )
    assert.throws(
      () => argumentsAre('@body', `{"args":["${'x'.repeat(2 ** 24)}",3889108265204450030]}`),
      refused('ARGUMENTS_INVALID', /got 3889/),
    )
    assert.deepEqual(argumentsAre('["3889108265204450030 \\" 1e400", 1152921504606846976, 0.5]'), [
      '3889108265204450030 " 1e400',
      2 ** 60,
      0.5,
    ])
  })

  it('are checked by a schema of zod or valibot, and stored as given', async () => {
    const { spooler, tasks } = registry()
    const names = ['zod', 'valibot'] // by variable: their types are for test/tasks/types
    const [z, v] = await Promise.all(names.map(name => import(name)))
    tasks.task('zod', { schema: z.tuple([z.email(), z.coerce.number()]) }, () => {})
    tasks.task('valibot', { schema: v.tuple([v.pipe(v.string(), v.email()), v.number()]) }, () => {})
    for (const name of names) {
      await tasks.schedule(name, 'joe@example.com', 7)
      await assert.rejects(
        tasks.schedule(name, 'joe', 7),
        refused('ARGUMENTS_INVALID', new RegExp(`task ${name}: args\\[0\\]: Invalid email`, 'i')),
      )
      await assert.rejects(
        tasks.schedule(name),
        refused('ARGUMENTS_INVALID', new RegExp(`task ${name}: args`)),
      )
    }
    await tasks.schedule('zod', 'joe@example.com', '7')
    assert.deepEqual(
      storedIn(spooler)
        .map(({ task, args }) => [task, ...args])
        .sort(),
      [
        ['valibot', 'joe@example.com', 7],
        ['zod', 'joe@example.com', 7],
        ['zod', 'joe@example.com', '7'],
      ],
      'stored as given: the schema runs once more before the function',
    )
  })
})

describe('a registry', () => {
  it('refuses to schedule a task that it does not have', async () => {
    const { spooler, tasks } = registry()
    await assert.rejects(tasks.schedule('nope'), refused('TASK_UNKNOWN', /expected one of add, got "nope"/))
    await assert.rejects(
      tasks.schedule(() => {}),
      refused('TASK_UNKNOWN', /got the function/),
    )
    await assert.rejects(new Tasks().schedule('x'), refused('TASK_UNKNOWN', /no task is registered/))
    assert.deepEqual(leftIn(spooler), [])
  })

  it('refuses a second task of a name and says where both are, however the registries are combined', () => {
    const here =
      /two tasks are named add: one at .*scheduling\.test\.[jt]s:\d+, one at .*scheduling\.test\.[jt]s:\d+/
    const { tasks } = registry()
    assert.throws(() => tasks.task('add', () => {}), refused('TASK_INVALID', here))
    const other = registry().tasks
    assert.throws(() => tasks.use(other), refused('TASK_INVALID', here))
    const late = new Tasks()
    tasks.use(late)
    assert.throws(() => late.add(() => {}, { name: 'add' }), refused('TASK_INVALID', here))
    assert.throws(() => new Spoold({ spooler: 'x', tasks: [tasks, other] }), refused('TASK_INVALID', here))
  })

  for (const name of ['', '_x', 'a b', 'a\nb', 'x'.repeat(201), 7])
    it(`refuses the name ${JSON.stringify(name).slice(0, 20)}`, () => {
      assert.throws(
        () => new Tasks().task(name as string, () => {}),
        refused('TASK_INVALID', /a task's name must be/),
      )
    })

  it('refuses unknown options, and wrong values of known ones', () => {
    const wrong: Array<[options: object, message: RegExp]> = [
      [{ concurrency: 4 }, /there is no option concurrency; expected one of queue, maxRetries/],
      [{ maxRetries: -1 }, /maxRetries must be a whole number from 0, or Infinity, got -1/],
      [{ maxRetries: 1.5 }, /got 1.5/],
      [{ backoff: 'linear' }, /backoff must be 'none', 'fixed' or 'exponential', got "linear"/],
      [{ retryDelay: 'soon' }, /retryDelay must be seconds, or text such as '5m', got "soon"/],
      [{ queue: '_x' }, /queue must be/],
      [{ queue: 'a=b' }, /queue must be/],
    ]
    for (const [options, message] of wrong) {
      assert.throws(() => new Tasks().task('x', options, () => {}), refused('TASK_INVALID', message))
      assert.throws(() => new Tasks(options), refused('TASK_INVALID', message))
    }
    assert.throws(
      () => new Tasks().task('x', { schema: {} as never }, () => {}),
      refused('TASK_INVALID', /~standard/),
    )
    assert.throws(
      () => new Tasks().task('x', {}, 7 as never),
      refused('TASK_INVALID', /expected a function, got 7/),
    )
  })

  it('refuses a maxConcurrency that is no whole number from 1, or that comes without maxRetries', () => {
    for (const maxConcurrency of [0, -1, 1.5, '3', Number.POSITIVE_INFINITY])
      assert.throws(
        () => new Tasks().task('x', { maxConcurrency: maxConcurrency as number, maxRetries: 1 }, () => {}),
        refused('TASK_INVALID', /maxConcurrency must be a whole number from 1/),
      )
    const needs = refused('TASK_INVALID', /task x: maxConcurrency needs a maxRetries from 1/)
    assert.throws(() => new Tasks().task('x', { maxConcurrency: 1 }, () => {}), needs)
    assert.throws(
      () => new Tasks({ maxRetries: 3 }).task('x', { maxConcurrency: 1, maxRetries: 0 }, () => {}),
      needs,
    )
    assert.throws(() => new Tasks().add(() => {}, { name: 'x', maxConcurrency: 1 }), needs)
    new Tasks({ maxRetries: 3 }).task('x', { maxConcurrency: 1 }, () => {})
    new Tasks().task('x', { maxConcurrency: 1, maxRetries: Number.POSITIVE_INFINITY }, () => {})
    assert.throws(
      () => new Tasks({ maxConcurrency: 1 } as object),
      refused('TASK_INVALID', /new Tasks: there is no option maxConcurrency/),
    )
  })

  it('passes its defaults to the registries that it uses, while the options of a task take precedence', async () => {
    const queues = { mail: spoolDirectory(), bulk: spoolDirectory() }
    const outer = new Tasks({ queue: 'mail', maxRetries: 5 })
    const inner = new Tasks({ maxRetries: 1 })
    const own = inner.task('own', { maxRetries: Number.POSITIVE_INFINITY, queue: 'bulk' }, () => {})
    const inherits = inner.task('inherits', () => {})
    new Spoold({ queues, sync: false, tasks: outer.use(inner) })
    const of = ({ queue, maxRetries }: { queue: string; maxRetries: number }) => [queue, maxRetries]
    assert.deepEqual(of(await own.schedule()), ['bulk', Number.POSITIVE_INFINITY])
    assert.deepEqual(of(await inherits.schedule()), ['mail', 1])
    assert.deepEqual([storedIn(queues.mail)[0]?.queue, storedIn(queues.bulk)[0]?.queue], ['mail', 'bulk'])
  })

  it('that is attached to two applications warns, and schedules to the second one', async () => {
    const warnings: string[] = []
    const hear = ({ message }: Error) => warnings.push(message)
    process.on('warning', hear)
    const tasks = new Tasks()
    const noop = tasks.task('noop', () => {})
    const second = spoolDirectory()
    new Spoold({ spooler: spoolDirectory(), tasks })
    new Spoold({ spooler: second, sync: false, tasks })
    await noop.schedule()
    await new Promise(resolve => setImmediate(resolve))
    process.off('warning', hear)
    assert.equal(leftIn(second).length, 1)
    assert.equal(warnings.length, 1)
    assert.match(warnings[0] ?? '', /scheduling\.test\.[jt]s:\d+: these tasks were attached before/)
    assert.throws(() => tasks.use(new Tasks().use(tasks)), refused('TASK_INVALID', /cannot use itself/))
  })
})

describe('where tasks go', () => {
  it('has to be said in one of three ways, all of which the error names', async () => {
    const noop = new Tasks().task('noop', () => {})
    await assert.rejects(
      noop.schedule(),
      refused('DESTINATION_MISSING', /new Spoold\(.*option spooler.*SPOOLD_ENQUEUE_TO=/),
    )
  })

  it('can be said in SPOOLD_ENQUEUE_TO, by queue', async () => {
    const [spooler, mail] = [spoolDirectory(), spoolDirectory()]
    const tasks = new Tasks()
    const [plain, mailed, lost] = [
      tasks.task('plain', () => {}),
      tasks.task('mailed', { queue: 'mail' }, () => {}),
      tasks.task('lost', { queue: 'lost' }, () => {}),
    ]
    process.env.SPOOLD_ENQUEUE_TO = `${spooler},mail=${mail}`
    try {
      await plain.schedule()
      await mailed.schedule()
      await assert.rejects(
        lost.schedule(),
        refused('QUEUE_UNKNOWN', /queue lost, those of default, mail are known/),
      )
      process.env.SPOOLD_ENQUEUE_TO = `${spooler},=x`
      await assert.rejects(
        plain.schedule(),
        refused('DESTINATION_MISSING', /expected a directory, a daemon's address/),
      )
    } finally {
      delete process.env.SPOOLD_ENQUEUE_TO
    }
    assert.deepEqual([leftIn(spooler).length, leftIn(mail).length], [1, 1])
  })

  it('has to include a spool for the queue of the task', async () => {
    const tasks = new Tasks({ queue: 'mail' })
    const noop = tasks.task('noop', () => {})
    new Spoold({ spooler: spoolDirectory(), queues: { bulk: 'x' }, tasks })
    await assert.rejects(
      noop.schedule(),
      refused('QUEUE_UNKNOWN', /the queue mail, those of bulk are known; give it one in/),
    )
    for (const options of [
      {},
      { spool: 'x' },
      { spooler: 'x', tasks: 7 },
      { queues: { a: '' } },
      { queues: { _a: 'x' } },
    ])
      assert.throws(
        () => new Spoold(options as never),
        refused('TASK_INVALID', /scheduling\.test\.[jt]s:\d+: /),
      )
  })
})

describe('a TaskBatch', () => {
  it('is stored in its order, and only once', async () => {
    const { spooler, tasks, add } = registry()
    const batch = new TaskBatch()
    for (let i = 0; i < 150; i++) batch.schedule(add, i, i)
    batch.scheduleAt('add', '+1h', 150, 150)
    assert.equal(batch.size, 151)
    const stored = await tasks.scheduleBatch(batch)
    const ofTask = new TaskBatch().schedule('add', 1, 2).schedule(add, 3, 4)
    assert.deepEqual(
      (await add.scheduleBatch(ofTask)).map(({ name, args }) => [name, args]),
      [
        ['add', [1, 2]],
        ['add', [3, 4]],
      ],
    )
    await assert.rejects(add.scheduleBatch(ofTask), refused('BATCH_USED', /make a new TaskBatch/))
    await assert.rejects(
      add.scheduleBatch(new TaskBatch().schedule('nowhere')),
      refused('TASK_UNKNOWN', /expected one of .*add.* got "nowhere"/),
    )
    assert.deepEqual(
      stored.map(({ args }) => args[0]),
      Array.from({ length: 151 }, (_, i) => i),
    )
    assert.equal(stored.at(-1)?.status, TaskStatus.WAITING)
    assert.equal(new Set(storedIn(spooler).map(({ id }) => id)).size, 153)
    await assert.rejects(tasks.scheduleBatch(batch), refused('BATCH_USED', /make a new TaskBatch/))
    assert.throws(() => batch.schedule(add, 1, 1), refused('BATCH_USED', /make a new TaskBatch/))
    assert.equal(leftIn(spooler).length, 153)
  })

  it('is checked before any of its tasks is stored', async () => {
    const { spooler, tasks, add } = registry()
    tasks.task('lost', { queue: 'lost' }, () => {})
    tasks.task(
      'strict',
      {
        schema: {
          '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
        },
      },
      () => {},
    )
    const bad: Array<[code: string, add: (batch: TaskBatch) => TaskBatch]> = [
      ['TASK_UNKNOWN', batch => batch.schedule('nope')],
      ['ARGUMENTS_INVALID', batch => batch.schedule('add', 1)],
      ['ARGUMENTS_INVALID', batch => batch.schedule('strict')],
    ]
    for (const [code, spoil] of bad)
      await assert.rejects(
        tasks.scheduleBatch(spoil(new TaskBatch().schedule(add, 1, 1))),
        refused(code, /./),
      )
    assert.throws(
      () => new TaskBatch().scheduleAt('add', new Date(Number.NaN), 1, 1),
      refused('ARGUMENTS_INVALID', /at must be a valid Date/),
    )
    assert.deepEqual(leftIn(spooler), [])
  })

  it('goes to the spool of each task’s queue, and fails with a BatchError if nobody accepts it', async () => {
    const [one, two] = [spoolDirectory(), workspace()]
    const tasks = new Tasks()
    const a = tasks.task('a', () => {})
    const b = tasks.task('b', { queue: 'b' }, (_text: string) => {})
    new Spoold({ spooler: one, queues: { b: join(two, 'spool') }, sync: false, tasks })
    await tasks.scheduleBatch(new TaskBatch().schedule(b, '1').schedule(a).schedule(b, '2'))
    assert.deepEqual([leftIn(one).length, leftIn(join(two, 'spool')).length], [1, 2])
    const id = 'x'.repeat(10)
    const failing = new TaskBatch({ socket: join(two, 'nobody.sock') }).schedule(a)
    await assert.rejects(tasks.scheduleBatch(failing), BatchError)
    await tasks.scheduleBatch(new TaskBatch({ id }).schedule(a))
    assert.equal(leftIn(one).length, 2)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Middleware, Spoold, SpooldError, TaskBatch, Tasks } from '#src/index.js'
import { leftIn } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Returns an application with two registries, and middleware that notes when it is entered and left. */
function onion() {
  const spooler = spoolDirectory()
  const heard: string[] = []
  const layer = (name: string): Middleware => ({
    enqueue: async (call, next) => {
      heard.push(`${name} enqueues ${call.name}`)
      const task = await next()
      heard.push(`${name} has ${task.name} ${leftIn(spooler).length}`)
      return task
    },
  })
  const inner = new Tasks().middleware(layer('inner'))
  const outer = new Tasks().middleware(layer('first'), layer('second')).use(inner)
  const add = inner.task('add', (a: number, b: number) => a + b)
  const plain = outer.task('plain', () => {})
  const spoold = new Spoold({ spooler, sync: false, tasks: outer }).middleware(layer('app'))
  return { spooler, heard, inner, outer, add, plain, spoold }
}

const refused = (code: string, message: RegExp) => (error: unknown) =>
  error instanceof SpooldError && error.code === code && message.test(error.message)

describe('middleware around scheduling', () => {
  it('wraps a call in layers: application, outer registry, inner registry, each in its order', async () => {
    const { add, plain, heard } = onion()
    await add.schedule(1, 2)
    const names = ['app', 'first', 'second', 'inner']
    assert.deepEqual(heard.splice(0), [
      ...names.map(name => `${name} enqueues add`),
      ...names.reverse().map(name => `${name} has add 1`),
    ])
    await plain.scheduleAt('+1h')
    assert.deepEqual(
      heard.filter(line => line.includes('enqueues')),
      ['app enqueues plain', 'first enqueues plain', 'second enqueues plain'],
    )
  })

  it('sees the call and may change it, and the changes are checked', async () => {
    const { add, inner, spooler } = onion()
    const seen: unknown[] = []
    let changes: object = { args: [5, 6], at: '+1h', options: { id: 'mine' } }
    inner.middleware({
      enqueue: async (call, next) => {
        seen.push(call)
        return next(changes)
      },
    })
    const { id, args, status } = await add.schedule(1, 2)
    assert.deepEqual([id, args, status], ['mine', [5, 6], 1])
    assert.deepEqual(seen, [{ name: 'add', args: [1, 2], at: undefined, options: {} }])
    changes = { args: [1n, 2] }
    await assert.rejects(add.schedule(1, 2), refused('ARGUMENTS_INVALID', /BigInt/))
    changes = { at: new Date(Number.NaN) }
    await assert.rejects(add.schedule(1, 2), refused('ARGUMENTS_INVALID', /valid Date/))
    assert.equal(leftIn(spooler).length, 1)
  })

  it('passes its error to the caller, stores nothing without next(), and has to return a task', async () => {
    const { add, inner, plain, spooler } = onion()
    const task = await plain.schedule()
    let enqueue: Middleware['enqueue'] = async () => Promise.reject(new RangeError('too many'))
    inner.middleware({ enqueue: (call, next) => (enqueue as NonNullable<typeof enqueue>)(call, next) })
    await assert.rejects(add.schedule(1, 2), new RangeError('too many'))
    enqueue = async () => task
    assert.equal(await add.schedule(1, 2), task)
    assert.equal(leftIn(spooler).length, 1)
    enqueue = (async (_call: unknown, next: () => Promise<unknown>) => void (await next())) as never
    await assert.rejects(
      add.schedule(1, 2),
      refused('TASK_INVALID', /of task add: enqueue must return a task/),
    )
    enqueue = async (_call, next) => {
      await next()
      return next()
    }
    await assert.rejects(add.schedule(1, 2), refused('TASK_INVALID', /of task add called next\(\) twice/))
    assert.equal(leftIn(spooler).length, 3, 'both were stored, once')
  })

  it('runs around each task of a batch, and one refusal keeps all of them from being stored', async () => {
    const { add, plain, outer, inner, spooler, heard } = onion()
    const task = await plain.schedule()
    heard.length = 0
    const stored = await outer.scheduleBatch(
      new TaskBatch().schedule(add, 1, 2).schedule(plain).schedule(add, 3, 4),
    )
    assert.deepEqual(
      stored.map(({ name, args }) => [name, ...args]),
      [['add', 1, 2], ['plain'], ['add', 3, 4]],
    )
    assert.equal(heard.filter(line => line === 'inner has add 4').length, 2, 'all are stored when one is')
    inner.middleware({
      enqueue: async (call, next) => {
        if (call.args[0] === 0) throw new RangeError('zero')
        return call.args[0] === 9 ? task : next()
      },
    })
    const refusedBatch = new TaskBatch().schedule(add, 1, 1).schedule(plain).schedule(add, 0, 0)
    await assert.rejects(outer.scheduleBatch(refusedBatch), new RangeError('zero'))
    const wrongBatch = new TaskBatch().schedule(add, 1, 1).schedule('add', 1)
    await assert.rejects(outer.scheduleBatch(wrongBatch), refused('ARGUMENTS_INVALID', /got 1/))
    assert.equal(leftIn(spooler).length, 4)
    const some = await outer.scheduleBatch(new TaskBatch().schedule(add, 9, 9).schedule(add, 7, 7))
    assert.deepEqual([some[0], some[1]?.args], [task, [7, 7]])
    assert.equal(leftIn(spooler).length, 5)
  })

  it('has to be an object of functions enqueue and run', () => {
    for (const wrong of [undefined, {}, { enqueue: 7 }, { around: () => {} }, () => {}])
      assert.throws(
        () => new Tasks().middleware(wrong as never),
        refused('TASK_INVALID', /middleware\.test\.[jt]s:\d+: expected middleware \{ enqueue, run \}/),
      )
  })
})

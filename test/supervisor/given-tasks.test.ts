import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Marks } from '#src/runtime/ipc/marks.js'
import { GivenTasks } from '#src/runtime/supervisor/given-tasks.js'

const refsIn = (tasks: ReadonlyArray<{ readonly ref: string }>) => tasks.map(({ ref }) => ref)

/** Returns the tasks of a worker as its master sees them, and the marks as the worker sees them. */
function openTasks({ concurrency = 1, areLeased = false } = {}) {
  const memory = new ArrayBuffer(Marks.BYTES)
  const worker = new Marks({ memory })
  return { given: new GivenTasks(new Marks({ memory }), concurrency, areLeased), worker }
}

describe('GivenTasks', () => {
  it('withdraws all tasks that the worker has not taken, and the worker cannot take them any more', () => {
    const { given, worker } = openTasks()
    given.give(['a', 'b', 'c'])
    assert.ok(given.hasAhead)
    assert.equal(worker.take(0), true)
    assert.deepEqual(given.withdraw(false), ['b', 'c'])
    assert.deepEqual([given.refs, given.hasAhead], [['a'], false])
    assert.deepEqual([worker.take(1), worker.take(2)], [false, false])
    assert.deepEqual(given.withdraw(true), [])
  })

  it('leaves the first task to a worker that has taken none, unless all are withdrawn', () => {
    const { given, worker } = openTasks()
    given.give(['a', 'b', 'c'])
    assert.deepEqual(given.withdraw(true), ['b', 'c'])
    assert.deepEqual(given.withdraw(false), ['a'])
    assert.deepEqual([given.size, worker.take(0)], [0, false])
  })

  it('gives later tasks other numbers than those that were withdrawn', () => {
    const { given, worker } = openTasks()
    given.give(['a', 'b'])
    given.withdraw(false)
    assert.deepEqual(given.give(['a', 'b', 'c']), [2, 3])
    assert.deepEqual([worker.take(0), worker.take(2)], [false, true])
  })

  it('leaves out the numbers whose marks are those of tasks that the worker still has', () => {
    const { given } = openTasks()
    given.give(['long', 'a'])
    given.end(1)
    const others = Array.from({ length: Marks.BYTES - 2 }, (_, i) => `${i}`)
    given.give(others)
    for (const [i] of others.entries()) given.end(2 + i)
    assert.deepEqual(given.give(['b', 'c']), [Marks.BYTES + 1, 2])
    assert.deepEqual(given.refs, ['long', 'b', 'c'])
  })

  it('gives tasks to a worker in which other code has written to all marks', () => {
    const { given } = openTasks()
    const marks = given.marks
    for (let number = 0; number < Marks.BYTES; number++) marks.begin(number)
    assert.deepEqual(given.give(['a', 'b']), [0, 2])
  })

  it('counts a task as begun from when the worker begins it until it is settled', () => {
    const { given, worker } = openTasks()
    given.give(['a', 'b'])
    worker.take(0)
    assert.deepEqual([given.of(0)?.isTaken, refsIn(given.begun)], [true, []])
    worker.begin(0)
    assert.deepEqual(refsIn(given.begun), ['a'])
    worker.end(0)
    assert.deepEqual([refsIn(given.begun), given.isSettling], [['a'], true])
    worker.over(0, true)
    assert.deepEqual([refsIn(given.begun), given.isSettling, given.refs], [[], false, ['a', 'b']])
    assert.deepEqual([given.end(0)?.ref, given.refs], ['a', ['b']])
  })

  it('is not settling while a handler runs, because a blocked worker cannot finish that', () => {
    const { given, worker } = openTasks({ concurrency: 2 })
    given.give(['a', 'b'])
    for (const number of [0, 1]) {
      worker.take(number)
      worker.begin(number)
      worker.start(number)
    }
    worker.end(0)
    assert.equal(given.isSettling, false)
    worker.end(1)
    assert.equal(given.isSettling, true)
  })

  it('counts of the tasks that an interpreter was sent together only the first one as running', () => {
    const { given, worker } = openTasks()
    given.give(['a', 'b', 'c'])
    for (const number of [0, 1, 2]) {
      worker.take(number)
      worker.begin(number)
    }
    assert.deepEqual([refsIn(given.begun), refsIn(given.running)], [['a', 'b', 'c'], ['a']])
    worker.over(0, true)
    assert.deepEqual(refsIn(given.running), ['b'])
  })

  it('counts as running what was announced, and others up to the concurrency', () => {
    const { given, worker } = openTasks({ concurrency: 2 })
    given.give(['a', 'b', 'c', 'd'])
    for (const number of [0, 1, 2, 3]) {
      worker.take(number)
      worker.begin(number)
    }
    given.heard(3)
    given.start(3)
    given.heard(4)
    const running = given.running.map(({ ref, beganAt }) => [ref, beganAt])
    assert.deepEqual(running, [
      ['a', 4],
      ['b', 4],
      ['d', 3],
    ])
    assert.equal(given.besides(new Set([0])), 2)
  })

  it('counts only announced claims as begun if they are leases', () => {
    const { given, worker } = openTasks({ areLeased: true })
    given.give(['ticket', 'ticket', 'ticket'])
    worker.take(0)
    worker.begin(0)
    assert.deepEqual(given.begun, [])
    given.claimed([[0, { name: 'job', lease: 'lock' }]])
    assert.deepEqual(
      given.begun.map(({ name, lease }) => [name, lease]),
      [['job', 'lock']],
    )
    assert.deepEqual(given.leases, ['lock'])
    given.end(0)
    assert.deepEqual([given.leases, given.begun], [[], []])
  })

  it('withdraws nothing, and counts all as begun, where no memory can be shared', () => {
    const given = new GivenTasks(new Marks(), 1)
    const worker = new Marks()
    given.give(['a', 'b'])
    assert.deepEqual([given.withdraw(false), worker.take(1)], [[], true])
    assert.deepEqual([refsIn(given.begun), refsIn(given.running)], [['a', 'b'], ['a']])
    given.end(0)
    assert.deepEqual(refsIn(given.begun), ['b'])
  })

  it('knows what a worker had begun after the memory is given back', () => {
    const { given, worker } = openTasks()
    given.give(['a', 'b'])
    worker.take(0)
    worker.begin(0)
    given.marks.close()
    assert.deepEqual([refsIn(given.begun), given.refs], [['a'], ['a', 'b']])
  })

  it('tells once what a silent worker has done or kept, and counts it no more', () => {
    const { given, worker } = openTasks()
    given.give(['done', 'kept', 'running', 'ahead'])
    for (const number of [0, 1, 2]) worker.take(number)
    worker.over(0, true)
    worker.over(1, false)
    worker.begin(2)
    assert.deepEqual(given.takeOver(), { done: ['done'], kept: ['kept'] })
    assert.deepEqual(given.takeOver(), { done: [], kept: [] })
    assert.deepEqual([given.size, given.refs, given.named('done')], [2, ['running', 'ahead'], undefined])
    assert.deepEqual(refsIn(given.done), ['done'])
    assert.deepEqual([given.end(0)?.isOver, given.end(1)?.isOver, given.size], [true, true, 2])
  })

  it('does not tell what refs are over if they stand for any task', () => {
    const { given, worker } = openTasks({ areLeased: true })
    given.give(['ticket'])
    worker.take(0)
    worker.over(0, true)
    assert.deepEqual([given.takeOver(), given.size], [{ done: [], kept: [] }, 1])
  })

  it('tells a cancellation that its task was withdrawn', () => {
    const { given } = openTasks()
    given.give(['a'])
    const kinds: string[] = []
    const watcher = { answered() {}, reported: (kind: string) => void kinds.push(kind) }
    Object.assign(given.of(0) ?? {}, { watcher })
    given.withdraw(false)
    assert.deepEqual(kinds, ['untouched'])
  })
})

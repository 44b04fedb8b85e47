import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Given, GivenTasks } from '#src/runtime/supervisor/given-tasks.js'

const refsIn = (tasks: ReadonlyArray<{ readonly ref: string }>) => tasks.map(({ ref }) => ref)

const shown = (tasks: readonly Given[]) =>
  tasks.map(({ ref, name, lease, beganAt }) => ({ ref, name, lease, beganAt }))

/** For `confirmed`: all withdrawn tasks are with other workers by now. */
const withOthers = () => false

describe('GivenTasks', () => {
  it('keeps a withdrawn task that had begun, unless another worker has it', () => {
    const given = new GivenTasks(4)
    given.give(['a', 'b', 'c', 'd'])
    given.start(0)
    assert.deepEqual(given.recall(false), ['b', 'c', 'd'])
    assert.deepEqual(
      given.confirmed([0, 1, 2], ref => ref !== 'c'),
      { kept: ['b'], dropped: [] },
    )
    assert.deepEqual([given.left, given.size], [['a', 'b'], 3])
  })

  it('withdraws all tasks that are not started but the one that may run, and forgets them once that is confirmed', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b', 'c'])
    assert.ok(given.hasAhead)
    assert.deepEqual(given.recall(true), ['b', 'c'])
    assert.deepEqual([given.size, given.hasAhead, given.left], [1, false, ['a']])
    assert.deepEqual(given.recall(true), [])
    given.end(0)
    assert.equal(given.size, 0)
    given.confirmed([], withOthers)
    assert.equal(given.end(1), undefined)
  })

  it('does not treat a task that another worker found locked as begun if claims are leases and none was announced', () => {
    const given = new GivenTasks(1, true)
    given.give(['a', 'b'])
    given.recall(true)
    assert.equal(given.takeBack('b'), true)
    assert.deepEqual(given.begun, [])
    given.claimed([[1, { name: 'second', lease: 'y' }]])
    assert.deepEqual(
      given.begun.map(({ name }) => name),
      ['second'],
    )
  })

  it('treats only announced tasks as begun if its claims are leases', () => {
    const given = new GivenTasks(2, true)
    given.give(['a', 'b', 'c'])
    assert.deepEqual(refsIn(given.begun), [])
    given.claimed([[0, { name: 'first', lease: 'x' }]])
    given.start(0)
    assert.deepEqual(
      given.begun.map(({ name }) => name),
      ['first'],
    )
    given.end(0)
    assert.deepEqual(given.begun, [])
    given.claimed([[2, { name: 'third', lease: 'z' }]])
    assert.deepEqual(
      given.begun.map(({ name }) => name),
      ['third'],
    )
  })

  it('reports a withdrawn task that had already begun as running elsewhere', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b', 'c'])
    given.recall(true)
    given.end(0)
    given.heard(7)
    assert.equal(given.start(1), 'b')
    given.heard(8)
    assert.deepEqual([given.size, given.runningSince, given.left], [1, 7, []])
    assert.deepEqual(shown(given.begun), [{ ref: 'b', name: 'b', lease: undefined, beganAt: 7 }])
    given.confirmed([1], withOthers)
    assert.deepEqual([given.size, given.runningSince], [1, 7])
    assert.equal(given.end(1)?.isRecalled, true)
    assert.deepEqual([given.size, given.runningSince], [0, undefined])
  })

  it('treats the confirmation of a task as its start if no start was reported', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b'])
    given.recall(true)
    given.end(0)
    given.heard(8)
    given.confirmed([1], withOthers)
    assert.deepEqual([given.size, given.runningSince], [1, 8])
  })

  it('does not treat the confirmation of a task as its start if a start was reported before', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b'])
    given.heard(3)
    given.start(0)
    given.recall(true)
    given.heard(8)
    given.confirmed([0], withOthers)
    assert.equal(given.runningSince, 3)
    assert.equal(given.begun[0]?.beganAt, 3)
  })

  it('drops the task that seemed to run first if the worker confirms that it had begun none', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b', 'c'])
    given.end(0) // reported, and then its process had to wait for a processor before it began the next
    assert.deepEqual(given.recall(true), ['c'])
    assert.deepEqual(given.confirmed([], withOthers).dropped, ['b'])
    assert.deepEqual([given.size, given.runningSince], [0, undefined])
  })

  it('keeps a task that the worker confirms as begun', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b'])
    given.recall(true)
    assert.deepEqual(given.confirmed([0], withOthers).dropped, [])
    assert.deepEqual(given.left, ['a'])
  })

  it('treats a withdrawn task as running when another worker finds it locked', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b', 'c'])
    given.recall(true)
    given.heard(4)
    assert.equal(given.takeBack('x'), false)
    assert.equal(given.takeBack('c'), true)
    assert.deepEqual([given.runningSince, given.of(2)?.isRecalled], [4, false])
    assert.deepEqual(
      given.confirmed([2], withOthers).dropped,
      ['a'],
      'the task that seemed to run first had not begun',
    )
    assert.equal(given.end(2)?.ref, 'c')
  })

  it('treats a started task as ended once its file is gone', () => {
    const given = new GivenTasks(4)
    given.give(['a', 'b', 'c', 'd'])
    given.start(0)
    given.start(1)
    assert.deepEqual(given.recall(true), ['c', 'd'])
    assert.equal(given.besides(new Set([2])), 2)
    const states = ['gone', 'locked', 'locked', 'due'] as const
    const found = given.unclear.map((each, i) => [each, states[i] ?? 'due'] as const)
    assert.deepEqual(given.looked(new Map(found)), { begun: ['c'], freed: ['a'] })
    assert.deepEqual(refsIn(given.begun), ['b', 'c'])
    assert.deepEqual([given.besides(new Set([2])), given.size], [1, 2])
  })

  it('drops a task that was found locked if the worker confirms that it had not begun: others had locked it', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b'])
    given.recall(true)
    given.end(0)
    given.takeBack('b')
    assert.deepEqual(given.confirmed([], withOthers).dropped, ['b'])
    assert.deepEqual([given.size, given.runningSince], [0, undefined])
  })

  it('reports that exactly the tasks with leases may have begun, whichever was given first', () => {
    const given = new GivenTasks(1, true)
    given.give(['a', 'b', 'c'])
    given.claimed([[2, { name: 'job', lease: 'lock' }]])
    given.heard(4)
    assert.deepEqual(shown(given.begun), [{ ref: 'c', name: 'job', lease: 'lock', beganAt: 4 }])
  })

  it('reports that started tasks may have begun, and others up to the concurrency', () => {
    const given = new GivenTasks(2)
    given.give(['a', 'b', 'c'])
    given.heard(3)
    given.start(1)
    given.heard(4)
    assert.deepEqual(given.claimed([[0, { name: 'name of a', lease: 'of a' }]]), ['a'])
    assert.deepEqual(shown(given.begun), [
      { ref: 'b', name: 'b', lease: undefined, beganAt: 3 },
      { ref: 'a', name: 'name of a', lease: 'of a', beganAt: 4 },
    ])
    assert.deepEqual(given.left, ['a', 'b', 'c'])
  })

  it('counts all withdrawn tasks as possibly marked until the worker confirms which had begun', () => {
    const given = new GivenTasks(4)
    given.give(['a', 'b', 'c'])
    given.start(0)
    assert.deepEqual(given.recall(false), ['b', 'c'])
    assert.deepEqual(refsIn(given.had), ['a', 'b', 'c'])
    given.confirmed([1], withOthers)
    assert.deepEqual(refsIn(given.had), ['a', 'b'])
  })

  it('keeps the leases of claimed tasks, even of withdrawn ones, until they are reported', () => {
    const given = new GivenTasks(1)
    given.give(['a', 'b', 'c'])
    given.recall(true)
    const notice = (number: number) => ({ name: `task ${number}`, lease: `lease ${number}` })
    given.claimed([0, 1].map(number => [number, notice(number)]))
    assert.deepEqual(given.leases, ['lease 0', 'lease 1'])
    given.confirmed([0, 1], withOthers)
    assert.equal(given.start(1), 'task 1')
    given.end(0)
    assert.deepEqual(given.leases, ['lease 1'])
    given.end(1)
    assert.deepEqual(given.leases, [])
  })

  it('tells equal refs apart by their numbers', () => {
    const given = new GivenTasks(1)
    given.give(['ticket', 'ticket', 'ticket'])
    assert.deepEqual(given.left, ['ticket', 'ticket', 'ticket'])
    assert.equal(given.recall(true).length, 2)
    given.confirmed([0, 1], withOthers)
    assert.equal(given.begun.length, 2)
    assert.equal(given.had.length, 2)
    assert.equal(given.end(1)?.isRecalled, true)
    assert.deepEqual(refsIn(given.had), ['ticket'])
  })
})

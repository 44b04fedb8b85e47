import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { dispatch, type Source } from '#src/runtime/supervisor/dispatcher.js'
import type { WorkerProcess } from '#src/runtime/supervisor/worker-process.js'
import { Pace } from '#src/runtime/supervisor/workload.js'

interface State {
  readonly isOpen?: boolean
  readonly paceMs?: number
  readonly outstanding?: number
  readonly following?: number
  readonly concurrency?: number
  /** How many more tasks it has marks for. */
  readonly room?: number
  /** For how long its oldest task has run. */
  readonly ranMs?: number
  /** How many tasks are ready; 1,000 by default. */
  readonly ready?: number
}

/** Returns a worker in this state, and what it is given. */
function workerIn(worker: State) {
  const {
    isOpen = true,
    paceMs,
    outstanding = 0,
    following = 0,
    concurrency = 1,
    ranMs,
    room = 65_536,
  } = worker
  const given: Array<readonly string[]> = []
  const signals: number[] = []
  const state = {
    isOpen,
    work: {
      outstanding,
      following,
      concurrency,
      tasks: { room },
      pace: { ms: paceMs },
      runningSince: ranMs === undefined ? undefined : performance.now() - ranMs,
    },
    run: (refs: readonly string[]) => void given.push(refs),
    signal: (number: number) => void signals.push(number),
  }
  return { worker: state as unknown as WorkerProcess, given, signals }
}

function sourceOf(count: number, more: Partial<Source> = {}): Source {
  const refs = Array.from({ length: count }, (_, i) => `t${i}`)
  return {
    get ready() {
      return refs.length
    },
    due: limit => refs.splice(0, limit),
    batchMs: undefined,
    isByArrival: true,
    isShrinking: false,
    give: (worker, given) => worker.run(given, []),
    signalFor: () => undefined,
    ...more,
  }
}

/** Returns how many refs are in each batch that a worker in this state is given of a long backlog. */
function batchesOf(state: State): number[] {
  const { worker, given } = workerIn(state)
  dispatch([worker], sourceOf(state.ready ?? 1000))
  return given.map(({ length }) => length)
}

const FAST = { paceMs: 1 }
/** Its tasks take so long that it has only one ahead. */
const STEADY = { paceMs: 50 }
const SLOW = { paceMs: 51 }

describe('a worker is given', () => {
  for (const [what, state, expected] of [
    ['one task if its pace is unknown', {}, [1]],
    ['as many tasks as it can run at once if its pace is unknown', { concurrency: 4 }, [4]],
    ['two batches of 20 ms if it is fast', FAST, [20, 20]],
    ['two batches of 5 ms if it is fast and few tasks wait', { ...FAST, ready: 999 }, [5, 5]],
    ['batches of at most 512 tasks if it is very fast', { paceMs: 0.01, ready: 2000 }, [512, 512]],
    ['no more tasks than it has marks for', { concurrency: 4, room: 3 }, [3]],
    ['another batch if it is fast and has one batch', { ...FAST, outstanding: 20 }, [20]],
    ['nothing if it is fast and has more than one batch', { ...FAST, outstanding: 21 }, []],
    [
      'two batches of 5 ms, and tasks to run beside the first one, if it is fast and has concurrency',
      { ...FAST, concurrency: 4 },
      [5, 5, 3],
    ],
    [
      'another batch if it is fast, has concurrency, and has one batch ahead',
      { ...FAST, concurrency: 4, outstanding: 11 },
      [5],
    ],
    [
      'nothing if it is fast, has concurrency, and has more than one batch ahead',
      { ...FAST, concurrency: 4, outstanding: 12 },
      [],
    ],
    [
      'one task ahead if it is fast, but its oldest task takes longer',
      { ...FAST, outstanding: 1, ranMs: 30 },
      [1],
    ],
    [
      'nothing ahead if it is fast, but its oldest task has become slow',
      { ...FAST, outstanding: 1, ranMs: 51 },
      [],
    ],
    ['one task ahead if its tasks take 50 ms', { ...STEADY, outstanding: 1, ranMs: 1 }, [1]],
    ['nothing if its tasks take 50 ms and it has one ahead', { ...STEADY, outstanding: 2, ranMs: 1 }, []],
    ['one task to run and one ahead if its tasks take 50 ms and it is idle', STEADY, [1, 1]],
    [
      'nothing ahead if its tasks take 50 ms and only one task waits, which another worker might run',
      { ...STEADY, outstanding: 1, ready: 1 },
      [],
    ],
    [
      'one task more than it can run at once if its tasks take 50 ms',
      { ...STEADY, concurrency: 4, outstanding: 3, ranMs: 1 },
      [2],
    ],
    ['nothing ahead if it is slow', { ...SLOW, outstanding: 1, ranMs: 1 }, []],
    ['as many tasks as it has room for if it is slow', { ...SLOW, concurrency: 4, outstanding: 1 }, [3]],
    [
      'as many tasks as it has room for, not counting its tasks that wait for others',
      { ...SLOW, concurrency: 4, outstanding: 3, following: 2 },
      [3],
    ],
    [
      'nothing if it is not open, because it drains, is silent or lost its interpreter',
      { ...FAST, isOpen: false },
      [],
    ],
  ] as const)
    it(what, () => assert.deepEqual(batchesOf(state), expected))

  it('tasks in turn with the others, the idle worker first', () => {
    const [one, two] = [workerIn(FAST), workerIn({ ...FAST, outstanding: 2 })]
    dispatch([two.worker, one.worker], sourceOf(3))
    assert.deepEqual([one.given, two.given], [[['t0', 't2']], [['t1']]])
    const [fast, slow] = [workerIn(FAST), workerIn(SLOW)]
    dispatch([fast.worker, slow.worker], sourceOf(6))
    assert.deepEqual([fast.given, slow.given], [[['t0', 't2', 't3', 't4', 't5']], [['t1']]])
  })

  it('nothing ahead of slow tasks, and 2 ms of few fast ones, if new tasks may be more urgent', () => {
    const [steady, fast] = [workerIn({ ...STEADY, outstanding: 1, ranMs: 1 }), workerIn(FAST)]
    dispatch([steady.worker], sourceOf(999, { isByArrival: false }))
    dispatch([fast.worker], sourceOf(999, { isByArrival: false }))
    assert.deepEqual([steady.given.length, fast.given.map(({ length }) => length)], [0, [2, 2]])
  })

  it('nothing ahead while the pool shrinks', () => {
    const { worker, given } = workerIn({ ...STEADY, outstanding: 1, ranMs: 1 })
    dispatch([worker], sourceOf(1000, { isShrinking: true }))
    assert.deepEqual(given, [])
  })

  it('a signal before any task, in the place of a task', () => {
    const { worker, given, signals } = workerIn(SLOW)
    dispatch([worker], sourceOf(1, { signalFor: () => 17 }))
    assert.deepEqual([signals, given], [[17], []])
  })
})

describe('the pace of a worker', () => {
  it('is that of later tasks as long as the worker finds no others', () => {
    const pace = new Pace()
    pace.note(10, 0, 0, 1000)
    assert.equal(pace.ms, 0.01)
    pace.note(50, 1, 0, 9)
    assert.equal(pace.ms, 50)
    pace.note(1, 0, 0, 100)
    assert.equal(pace.ms, 0.01)
    pace.note(50, 1)
    assert.equal(pace.ms, 50)
  })
})

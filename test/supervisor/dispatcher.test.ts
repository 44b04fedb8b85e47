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
  /** For how long its oldest task has run. */
  readonly ranMs?: number
  /** How many tasks are ready; 1,000 by default. */
  readonly ready?: number
}

/** Returns a worker in this state, and what it is given. */
function workerIn({ isOpen = true, paceMs, outstanding = 0, following = 0, concurrency = 1, ranMs }: State) {
  const given: Array<readonly string[]> = []
  const signals: number[] = []
  const state = {
    isOpen,
    work: {
      outstanding,
      following,
      concurrency,
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

describe('what a worker is given', () => {
  for (const [what, state, expected] of [
    ['one, of whose pace nothing is known, one task', {}, [1]],
    ['one with concurrency, of whose pace nothing is known, as many', { concurrency: 4 }, [4]],
    ['a fast one two batches of 20 ms', FAST, [20, 20]],
    ['a fast one two batches of 5 ms where few wait', { ...FAST, ready: 999 }, [5, 5]],
    ['a very fast one no batch of more than 512', { paceMs: 0.01, ready: 2000 }, [512, 512]],
    ['a fast one that has one batch another', { ...FAST, outstanding: 20 }, [20]],
    ['a fast one that has more than a batch nothing', { ...FAST, outstanding: 21 }, []],
    [
      'a fast one with concurrency two batches of 5 ms more than run beside the first task',
      { ...FAST, concurrency: 4 },
      [5, 5, 3],
    ],
    ['such a one that has a batch ahead another', { ...FAST, concurrency: 4, outstanding: 11 }, [5]],
    ['such a one that has more than that nothing', { ...FAST, concurrency: 4, outstanding: 12 }, []],
    ['a fast one whose oldest task takes longer one ahead', { ...FAST, outstanding: 1, ranMs: 30 }, [1]],
    [
      'a fast one whose oldest task has become slow nothing ahead',
      { ...FAST, outstanding: 1, ranMs: 51 },
      [],
    ],
    ['one whose tasks take up to 50 ms one ahead', { ...STEADY, outstanding: 1, ranMs: 1 }, [1]],
    ['such a one that has one ahead nothing', { ...STEADY, outstanding: 2, ranMs: 1 }, []],
    ['such a one that is idle one to run and one ahead', STEADY, [1, 1]],
    ['such a one nothing ahead where others might run it', { ...STEADY, outstanding: 1, ready: 1 }, []],
    [
      'such a one with concurrency one more than it can run',
      { ...STEADY, concurrency: 4, outstanding: 3, ranMs: 1 },
      [2],
    ],
    ['a slow one nothing ahead', { ...SLOW, outstanding: 1, ranMs: 1 }, []],
    ['a slow one as many as it has room for', { ...SLOW, concurrency: 4, outstanding: 1 }, [3]],
    [
      'those that wait for others take no room',
      { ...SLOW, concurrency: 4, outstanding: 3, following: 2 },
      [3],
    ],
    ['one that drains, is silent or lost its interpreter nothing', { ...FAST, isOpen: false }, []],
  ] as const)
    it(what, () => assert.deepEqual(batchesOf(state), expected))

  it('is dealt in turn, to the idle worker first', () => {
    const [one, two] = [workerIn(FAST), workerIn({ ...FAST, outstanding: 2 })]
    dispatch([two.worker, one.worker], sourceOf(3))
    assert.deepEqual([one.given, two.given], [[['t0', 't2']], [['t1']]])
    const [fast, slow] = [workerIn(FAST), workerIn(SLOW)]
    dispatch([fast.worker, slow.worker], sourceOf(6))
    assert.deepEqual([fast.given, slow.given], [[['t0', 't2', 't3', 't4', 't5']], [['t1']]])
  })

  it('is nothing ahead of slow tasks, and 2 ms of few fast ones, if new tasks may be more urgent', () => {
    const [steady, fast] = [workerIn({ ...STEADY, outstanding: 1, ranMs: 1 }), workerIn(FAST)]
    dispatch([steady.worker], sourceOf(999, { isByArrival: false }))
    dispatch([fast.worker], sourceOf(999, { isByArrival: false }))
    assert.deepEqual([steady.given.length, fast.given.map(({ length }) => length)], [0, [2, 2]])
  })

  it('is nothing ahead while the pool shrinks', () => {
    const { worker, given } = workerIn({ ...STEADY, outstanding: 1, ranMs: 1 })
    dispatch([worker], sourceOf(1000, { isShrinking: true }))
    assert.deepEqual(given, [])
  })

  it('is a signal before any task, in the place of a task', () => {
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

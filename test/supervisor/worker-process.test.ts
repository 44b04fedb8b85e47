import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { Marks } from '#src/runtime/ipc/marks.js'
import type { MasterMessage, WorkerMessage } from '#src/runtime/ipc/messages.js'
import type { PackedReports } from '#src/runtime/ipc/reports.js'
import { type WorkerListener, WorkerProcess } from '#src/runtime/supervisor/worker-process.js'
import { CLAIMS_DEFAULTS } from '../helpers/engine.js'

const HARAKIRI_MS = 1000

function nothing(): void {}

const NO_LISTENER: WorkerListener = {
  ...{ signalled: nothing, reported: nothing, cancelling: nothing, claimed: nothing },
  ...{ opened: nothing, deadline: nothing, areLeased: false },
}

/** Returns the master's side of a worker that is ready. The test says what the worker says. */
function readyWorker() {
  const sent: MasterMessage[] = []
  let say: (message: WorkerMessage) => void = nothing
  const memory = new ArrayBuffer(Marks.BYTES)
  const worker: WorkerProcess = new WorkerProcess(
    {
      worker: {
        ...CLAIMS_DEFAULTS,
        ...{
          spool: '/spool',
          ordered: false,
          strictNames: false,
          targets: [],
          queues: [],
          concurrency: 1,
          maxTasks: 0,
        },
        ...{ signalAsTask: false, harakiriMs: HARAKIRI_MS, startTimeoutMs: 0, chdir: null, title: null },
        ...{ isListenedTo: false, isDetailed: false, hide: [], chain: [] },
        memory: { rssBytes: 0, vszBytes: 0, minAgeMs: 0 },
      },
      openPort: () => ({
        pid: 1,
        hasOwnProcess: true,
        marks: new Marks({ memory }),
        whenExited: new Promise(nothing),
        listen({ heard }) {
          say = heard
        },
        send: message => void sent.push(message),
        kill: nothing,
      }),
      answer: ({ id }) => ({ type: 'answer', id, values: [] }),
    },
    NO_LISTENER,
    new Emitter(),
  )
  say({ type: 'ready', news: [], concurrency: 1 })
  return { worker, sent, marks: new Marks({ memory }), say: (message: WorkerMessage) => say(message) }
}

/** Returns a report that `count` tasks are done, from the number `first` on. */
const done = (first: number, count: number): PackedReports => ({
  ...{ type: 'reports', done: [first, count], packed: [], started: [], busyMs: 1 },
})

describe('a worker from which tasks were withdrawn', () => {
  it('is given nothing until it has answered, whatever else it reports', () => {
    const { worker, say, marks } = readyWorker()
    worker.run(['a', 'b', 'c'], [])
    marks.take(0)
    assert.deepEqual(worker.withdraw(false), ['b', 'c'])
    say(done(0, 1))
    assert.deepEqual([worker.work.outstanding, worker.isOpen], [0, false])
    say({ type: 'recalled' })
    assert.equal(worker.isOpen, true)
  })

  it('has a deadline only for the task that it has taken', () => {
    const { worker, say, marks } = readyWorker()
    worker.run(['a', 'b', 'c'], [])
    marks.take(0)
    worker.withdraw(false)
    assert.ok(worker.deadlineAt(HARAKIRI_MS) <= performance.now() + HARAKIRI_MS)
    say(done(0, 1))
    assert.equal(worker.deadlineAt(HARAKIRI_MS), Number.POSITIVE_INFINITY)
  })

  it('is asked once to hand tasks back, and has nothing ahead after that', () => {
    const { worker, sent } = readyWorker()
    worker.run(['a', 'b'], [])
    assert.equal(worker.work.hasAhead, true)
    assert.deepEqual(worker.withdraw(false), ['b'])
    assert.equal(worker.work.hasAhead, false)
    assert.deepEqual(worker.withdraw(true), ['a'])
    assert.deepEqual(
      sent.map(({ type }) => type),
      ['open', 'run', 'recall'],
    )
  })
})

describe('a deadline that a task has set itself', () => {
  it('ends at most its own length after it was heard of, however long this process was stopped before', () => {
    const { worker, say } = readyWorker()
    worker.run(['a'], [])
    say({ type: 'deadline', afterMs: 500 })
    worker.postpone(60_000)
    assert.ok(worker.deadlineAt(0) <= performance.now() + 500)
  })
})

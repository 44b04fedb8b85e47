import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import type { MasterMessage, WorkerMessage } from '#src/runtime/ipc/messages.js'
import { Outbox, type PackedReports } from '#src/runtime/ipc/reports.js'
import { type WorkerListener, WorkerProcess } from '#src/runtime/supervisor/worker-process.js'
import { CLAIMS_DEFAULTS } from '../helpers/engine.js'

const HARAKIRI_MS = 1000

function nothing(): void {}

const NO_LISTENER: WorkerListener = {
  ...{ signalled: nothing, reported: nothing, cancelling: nothing, claimed: nothing },
  ...{ opened: nothing, deadline: nothing, areLeased: false },
  recalled: (worker, begun) => void worker.work.recalled(begun, () => false),
}

/** Returns the master's side of a worker that is ready. The test says what the worker says. */
function readyWorker() {
  const sent: MasterMessage[] = []
  let say: (message: WorkerMessage) => void = nothing
  const opened: number[] = []
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
        whenExited: new Promise(nothing),
        listen({ heard }) {
          say = heard
        },
        send: message => void sent.push(message),
        kill: nothing,
      }),
      answer: ({ id }) => ({ type: 'answer', id, values: [] }),
    },
    { ...NO_LISTENER, opened: () => void opened.push(worker.work.outstanding) },
    new Emitter(),
  )
  say({ type: 'ready', news: [], concurrency: 1 })
  return { worker, sent, opened, say: (message: WorkerMessage) => say(message) }
}

/** Returns a report that `count` tasks are done, from the number `first` on. */
const done = (first: number, count: number): PackedReports => ({
  ...{ type: 'reports', done: [first, count], packed: [], started: [], busyMs: 1 },
})

describe('a worker from which tasks were withdrawn', () => {
  it('is given nothing until it has confirmed the withdrawal, whatever else it reports', () => {
    const { worker, say } = readyWorker()
    worker.run(['a', 'b', 'c'], [])
    assert.deepEqual(worker.recall(), ['b', 'c'])
    say(done(0, 1))
    assert.deepEqual([worker.work.outstanding, worker.isOpen], [0, false])
    say({ type: 'recalled', begun: [] })
    assert.equal(worker.isOpen, true)
  })

  it('has a deadline as long as it may begin one of these tasks', () => {
    const { worker, say } = readyWorker()
    worker.run(['a', 'b', 'c'], [])
    worker.recall()
    say(done(0, 1))
    assert.ok(worker.deadlineAt(HARAKIRI_MS) <= performance.now() + HARAKIRI_MS)
    say({ type: 'recalled', begun: [] })
    assert.equal(worker.deadlineAt(HARAKIRI_MS), Number.POSITIVE_INFINITY)
  })

  it('answers for the task that it had begun by then, and has a deadline for it', () => {
    const { worker, say } = readyWorker()
    worker.run(['a', 'b', 'c'], [])
    worker.recall()
    say(done(0, 1))
    say({ type: 'recalled', begun: [1] })
    assert.deepEqual([worker.work.outstanding, worker.isOpen], [1, true])
    assert.ok(worker.deadlineAt(HARAKIRI_MS) < Number.POSITIVE_INFINITY)
    say(done(1, 1))
    assert.equal(worker.work.outstanding, 0)
  })

  it('may be given more as soon as it has released the task that it had claimed by then', () => {
    const { worker, say, opened } = readyWorker()
    worker.run(['a', 'b', 'c'], [])
    worker.recall()
    say(done(0, 1))
    say({ type: 'recalled', begun: [1] }) // it waits to begin `b`, which is given to another worker by now
    const outbox = new Outbox(false)
    outbox.add(1, { ref: 'b', kind: 'untouched', ranMs: 0 })
    say(outbox.take([], 0))
    assert.deepEqual(opened, [1, 0])
  })

  it('is asked once to hand tasks back, and has nothing ahead after that', () => {
    const { worker, sent } = readyWorker()
    worker.run(['a', 'b'], [])
    assert.equal(worker.work.hasAhead, true)
    worker.recall()
    assert.equal(worker.work.hasAhead, false)
    assert.deepEqual(
      sent.map(({ type }) => type),
      ['open', 'run', 'recall'],
    )
  })
})

describe('a worker that has said that it is drained', () => {
  it('is not to blame for tasks that were sent to it meanwhile', () => {
    const { worker, say } = readyWorker()
    worker.run(['a'], [])
    assert.equal(worker.work.tasks.had.length, 1)
    say({ type: 'drained' })
    assert.deepEqual(worker.work.tasks.had, [])
    assert.deepEqual(worker.work.tasks.left, ['a'])
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

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { Histogram } from '#src/base/task/histogram.js'
import type { Report, ReportKind } from '#src/base/task/report.js'
import { Hide } from '#src/formats/protocol/hide.js'
import { Collector } from '#src/runtime/stats/collector.js'
import type { DaemonSnapshot, SpoolSnapshot } from '#src/runtime/stats/snapshot.js'
import type { WorkerStats } from '#src/runtime/supervisor/worker-pool.js'

const SPOOL = 'memory:collected'
const FEED = {
  ready: 3,
  busy: 2,
  unseen: 1,
  unseenSinceMs: null,
  later: 0,
  held: 0,
  unreadable: 0,
  waiting: 1,
  elsewhere: 0,
  isWhole: true,
  tasks: 6,
  countedAtMs: null,
  priorities: [{ priority: null, due: 3 }],
  prioritiesLeftOut: 0,
  parked: {},
  oldestDueMs: 1000,
  nextDueMs: null,
  slotQueues: [],
  look: null,
}
const WORKER: WorkerStats = {
  pid: process.pid,
  state: 'ready',
  isLone: false,
  concurrency: 1,
  spawnedAtMs: 1,
  ran: 5,
  busyMs: 7,
  paceMs: null,
  outstanding: 2,
  running: [{ ref: '5/\xe9t\xe9', sinceMs: 2 }],
  signals: [],
}
const DAEMON = {
  pid: 1,
  version: '1.2.3',
  state: 'running',
  startedAtMs: 1,
  isQuiet: false,
  host: 'h',
  uid: 0,
  gid: 0,
  directory: '/',
  files: ['app.ini'],
  rssBytes: 1,
} as const

const WHOLE = { mayReadPayload: true }

function collect() {
  const events = new Emitter()
  let taken = 0
  const collector = new Collector(events, {
    daemon: () => DAEMON,
    spools() {
      taken++
      return [{ spool: SPOOL, feed: FEED, pool: POOL }]
    },
    leadershipOf: () => null,
    schedules: async () => [],
    sockets: () => [],
    hide: () => new Hide([]),
  })
  return { events, collector, taken: () => taken }
}
const first = ({ spools }: DaemonSnapshot): SpoolSnapshot => spools[0] ?? assert.fail('no spool')
const report = (kind: ReportKind): Report => ({ ref: 'x', kind, ranMs: 1 })

const SIZE = { algorithm: null, minimum: 1, maximum: 1, reason: null, isByHand: false }
const POOL = { wanted: 1, present: 1, delayed: 0, size: SIZE, workers: [WORKER] }

describe('the collector', () => {
  it('counts how runs ended, and the share of those that failed', async () => {
    const { events, collector } = collect()
    const told = { spool: SPOOL, pid: 1, known: new Set<string>() }
    const kinds = [
      'ok',
      'retry',
      'error',
      'error',
      'ignore',
      'buried',
      'set-aside',
      'unsettled',
      'gone',
      'later',
    ] as const
    events.emit('tasks-reported', { ...told, done: Array(13).fill('x'), reports: kinds.map(report) })
    events.emit('worker-died', {
      spool: SPOOL,
      pid: 1,
      code: 1,
      signal: null,
      running: ['x'],
      isReplaced: true,
    })
    events.emit('worker-died', { spool: SPOOL, pid: 1, code: 1, signal: null, running: [], isReplaced: true })
    events.emit('worker-overran', { spool: SPOOL, pid: 1 })
    const { totals, rates } = first(await collector.snapshotFor(WHOLE))
    const { done, retried, errors, ignored, buried, setAside, unsettled, crashes, overran } = totals
    assert.deepEqual(
      { done, retried, errors, ignored, buried, setAside, unsettled, crashes, overran },
      {
        done: 14,
        retried: 1,
        errors: 2,
        ignored: 1,
        buried: 1,
        setAside: 1,
        unsettled: 1,
        crashes: 2,
        overran: 1,
      },
    )
    assert.ok(Math.abs((rates.failedShare ?? 0) - 6 / 20) < 0.001, `${rates.failedShare}`)
    assert.ok(rates.done.m1 > 0 && rates.failed.m15 > 0)
  })

  it('distinguishes running tasks from those that only wait in a worker, and names tasks as text', async () => {
    const { tasks, processes } = first(await collect().collector.snapshotFor(WHOLE))
    const { due, unseen, running, waiting, stored } = tasks
    assert.deepEqual([due, unseen, running, waiting, stored], [2, 2, 1, 1, 6])
    const [worker = assert.fail()] = processes.workers
    assert.deepEqual(worker.running, [{ task: '5/\ufffdt\ufffd', ref: '5/\xe9t\xe9', sinceMs: 2 }])
    assert.ok((worker.rssBytes ?? 0) > 1_000_000)
  })

  it('counts run times from the start on', async () => {
    const { events, collector } = collect()
    const { sinceMs, ran: before } = first(await collector.snapshotFor(WHOLE)).times
    assert.equal(before.count, 0)
    assert.ok(Math.abs(sinceMs - Date.now()) < 60_000)
    const [ran, waited] = [new Histogram(), new Histogram()]
    for (const ms of [1, 2, 900]) ran.add(ms * 1000)
    waited.add(5)
    events.emit('run-times', { spool: SPOOL, ran: ran.pack(), waited: waited.pack() })
    const { times } = first(await collectAgain(collector))
    assert.deepEqual([times.ran.count, times.ran.sumMicros, times.waited.count], [3, 903_000, 1])
    assert.equal(
      times.ran.buckets.reduce((sum, [, count]) => sum + count, 0),
      3,
    )
    assert.ok(times.ran.p50Micros >= 2000 && times.ran.p50Micros < 3100, `${times.ran.p50Micros}`)
  })

  it('takes one snapshot for all who ask at once', async () => {
    const { collector, taken } = collect()
    const all = await Promise.all(Array.from({ length: 100 }, () => collector.snapshotFor(WHOLE)))
    assert.equal(new Set(all).size, 1)
    assert.equal(taken(), 1)
  })

  it('gives snapshots that are plain JSON', async () => {
    const snapshot = await collect().collector.snapshotFor(WHOLE)
    assert.deepEqual(JSON.parse(JSON.stringify(snapshot)), snapshot)
  })
})

/** Returns a new snapshot, because those who ask within a moment share one. */
async function collectAgain(collector: Collector): Promise<DaemonSnapshot> {
  const before = await collector.snapshotFor(WHOLE)
  for (;;) {
    const snapshot = await collector.snapshotFor(WHOLE)
    if (snapshot !== before) return snapshot
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}

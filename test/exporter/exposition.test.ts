import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { exposition, fullName } from '#src/doors/exporter/exposition.js'
import { METRICS } from '#src/doors/exporter/metrics.js'
import { dialectFor } from '#src/doors/exporter/servers.js'
import type { DaemonSnapshot, SpoolSnapshot } from '#src/runtime/stats/snapshot.js'
import { skipUnless } from '../helpers/requires.js'
import { FIXTURES } from '../helpers/workspace.js'

const snapshot: DaemonSnapshot = JSON.parse(readFileSync(join(FIXTURES, 'stats', 'snapshot.json'), 'utf8'))
const [spool = assert.fail('no spool')] = snapshot.spools
const withSpool = (change: Partial<SpoolSnapshot>): DaemonSnapshot => ({
  ...snapshot,
  spools: [{ ...spool, ...change }],
})
const text = (from = snapshot, dialect: Parameters<typeof exposition>[2] = 'prometheus') =>
  exposition(METRICS, from, dialect)
const linesOf = (all: string, start: string) => all.split('\n').filter(line => line.startsWith(start))
const tasks = (change: Partial<SpoolSnapshot['tasks']>) => withSpool({ tasks: { ...spool.tasks, ...change } })

const HOSTILE = 'a"b\\c\nspooler_fake 1\r\u0000 é\ud800'

describe('the metrics of a snapshot', () => {
  it('are accepted by promtool, whatever the spool is called', { skip: skipUnless('promtool') }, () => {
    for (const from of [
      snapshot,
      withSpool({ directory: HOSTILE, look: null, disk: null, leadership: null }),
    ])
      assert.equal(
        execFileSync('promtool', ['check', 'metrics'], { input: text(from), encoding: 'utf8' }),
        '',
      )
  })

  it('escape label values', () => {
    const lines = linesOf(text(withSpool({ directory: HOSTILE })), 'spooler_workers_wanted')
    assert.deepEqual(lines, ['spooler_workers_wanted{spool="a\\"b\\\\c\\nspooler_fake 1\r\u0000 é\ud800"} 2'])
    assert.deepEqual(linesOf(text(withSpool({ directory: HOSTILE })), 'spooler_fake'), [])
  })

  it('have cumulative buckets, none of which counts a longer run', () => {
    const ran = {
      ...spool.times.ran,
      count: 6,
      sumMicros: 4e9,
      buckets: [
        [12, 1], // below all bounds
        [256, 1],
        [384, 1], // half-way between two bounds
        [1024, 2],
        [2 ** 32, 1], // beyond all
      ] as const,
    }
    const all = text(withSpool({ times: { ...spool.times, ran } }))
    const of = (le: string) =>
      Number(
        linesOf(all, `spooler_run_duration_seconds_bucket{spool="/srv/sp",le="${le}"}`)[0]?.split(' ')[1],
      )
    assert.deepEqual(['0.000256', '0.000512', '0.001024', '2147.483648', '+Inf'].map(of), [2, 3, 5, 5, 6])
    assert.deepEqual(linesOf(all, 'spooler_run_duration_seconds_sum'), [
      'spooler_run_duration_seconds_sum{spool="/srv/sp"} 4000',
    ])
  })

  it('name few priorities and count the others together, however many a stranger makes', () => {
    const priorities = [
      { priority: '5', due: 1 },
      { priority: '05', due: 2 },
      ...Array.from({ length: 1000 }, (_, i) => ({ priority: String(i + 100), due: 1 })),
      { priority: null, due: 3 },
    ]
    assert.deepEqual(linesOf(text(tasks({ priorities })), 'spooler_due_tasks{'), [
      'spooler_due_tasks{spool="/srv/sp",priority="5"} 1',
      'spooler_due_tasks{spool="/srv/sp",priority="other"} 1002',
      'spooler_due_tasks{spool="/srv/sp",priority="none"} 3',
    ])
  })

  it('leave out the age of the oldest due task if it is unknown, and give 0 if nothing is due', () => {
    const ageOf = (change: Partial<SpoolSnapshot['tasks']>) =>
      linesOf(text(tasks(change)), 'spooler_oldest_due_age_seconds{').map(line =>
        Number(line.split(' ').at(-1)),
      )
    assert.deepEqual(ageOf({ due: 0, oldestDueMs: null }), [0])
    assert.deepEqual(ageOf({ due: 3, oldestDueMs: null }), [])
    assert.deepEqual(ageOf({ due: 3, oldestDueMs: snapshot.atMs - 90_500 }), [90.5])
    assert.deepEqual(ageOf({ due: 3, oldestDueMs: snapshot.atMs + 5000 }), [0], 'a clock that was set back')
  })

  it('follow OpenMetrics in names of families, units and the end, if that is the format', () => {
    const open = text(snapshot, 'openmetrics')
    assert.ok(open.endsWith('\n# EOF\n'))
    assert.deepEqual(linesOf(open, '# TYPE spooler_runs'), ['# TYPE spooler_runs counter'])
    assert.deepEqual(linesOf(open, '# TYPE spooler_build'), ['# TYPE spooler_build info'])
    assert.deepEqual(linesOf(open, '# UNIT spooler_disk_free'), ['# UNIT spooler_disk_free_bytes bytes'])
    assert.ok(linesOf(open, 'spooler_runs_total{').length > 0)
    assert.deepEqual(linesOf(text(), '# UNIT'), [])
  })

  it('have the labels that they are documented with', () => {
    for (const metric of METRICS)
      for (const { labels } of metric.samples(snapshot))
        assert.deepEqual(Object.keys(labels), metric.labels, fullName(metric))
  })
})

describe('the format of an answer', () => {
  it('is OpenMetrics only if the client prefers it', () => {
    const prometheus =
      'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'
    assert.equal(dialectFor(prometheus), 'openmetrics')
    assert.equal(dialectFor('Application/OpenMetrics-Text; Version=1.0.0; q=0.5, text/plain'), 'prometheus')
    assert.equal(dialectFor('application/openmetrics-text; version=0.0.1'), 'prometheus')
    assert.equal(dialectFor('*/*'), 'prometheus')
    assert.equal(dialectFor(undefined), 'prometheus')
    assert.equal(dialectFor('application/openmetrics-text;q=x'), 'prometheus')
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Output } from '#src/doors/cli/output.js'
import { screenOf } from '#src/doors/cli/status/screen.js'
import type { DaemonStatus, SpoolStatus } from '#src/doors/cli/status/spool-status.js'
import { judge, thresholdsOf, worst } from '#src/doors/cli/status/thresholds.js'
import { readDaemonFacts, readSnapshot } from '#src/runtime/stats/read-snapshot.js'
import { daemonSnapshot, NO_TIMES, spoolSnapshot } from '../helpers/snapshots.js'

const AT = 1_800_000_000_000
const SPOOL = spoolSnapshot({
  tasks: {
    due: 500,
    running: 2,
    waiting: 10,
    stored: 512,
    priorities: [{ priority: null, due: 500 }],
    oldestDueMs: AT - 300_000,
  },
  rates: { failedShare: 0.04 },
  dead: { count: 3, byReason: { crashes: 3 }, oldestMs: AT, newestMs: AT },
})
const { atMs, daemon } = daemonSnapshot(AT)
const STATUS: DaemonStatus = { source: 'daemon', atMs, daemon, ...SPOOL, schedules: [] }
const withTasks = (tasks: Partial<DaemonStatus['tasks']>): DaemonStatus => ({
  ...STATUS,
  tasks: { ...STATUS.tasks, ...tasks },
})
const levelOf = (options: Parameters<typeof thresholdsOf>[0], status: SpoolStatus = STATUS) =>
  judge(status, thresholdsOf(options)).level

describe('thresholds of status', () => {
  it('are exceeded only by more; one number means critical, two mean warning and critical', () => {
    const levels = ['500', '499', '499,500', '498,499', '500,501'].map(maxDue => levelOf({ maxDue }))
    assert.deepEqual(levels, ['OK', 'CRITICAL', 'WARNING', 'CRITICAL', 'OK'])
    assert.deepEqual(
      ['5m', '299s', '1m,10m'].map(maxAge => levelOf({ maxAge })),
      ['OK', 'CRITICAL', 'WARNING'],
    )
    assert.deepEqual(
      ['3', '0', '0,5'].map(maxDead => levelOf({ maxDead })),
      ['OK', 'CRITICAL', 'WARNING'],
    )
    assert.deepEqual(
      ['4%', '3.9', '1%,5%'].map(maxFailureRate => levelOf({ maxFailureRate })),
      ['OK', 'CRITICAL', 'WARNING'],
    )
  })

  it('count tasks beyond the window, too, and answer UNKNOWN if their number is not known', () => {
    const beyond = { isWhole: false, countedAtMs: AT }
    assert.equal(levelOf({ maxDue: '900' }, withTasks({ ...beyond, stored: 1012 })), 'CRITICAL')
    assert.equal(levelOf({ maxDue: '1000' }, withTasks({ ...beyond, stored: 1012 })), 'OK')
    assert.equal(levelOf({ maxDue: '900' }, withTasks({ ...beyond, stored: null })), 'UNKNOWN')
    assert.equal(
      levelOf({ maxDue: '400' }, withTasks({ ...beyond, stored: null })),
      'CRITICAL',
      'the tasks inside the window alone are too many',
    )
    assert.equal(levelOf({ maxAge: '1h' }, withTasks({ oldestDueMs: null })), 'UNKNOWN')
    assert.equal(levelOf({ maxAge: '1h' }, withTasks({ due: 0, stored: 0, oldestDueMs: null })), 'OK')
    assert.equal(
      levelOf({ maxDead: '9' }, { ...STATUS, dead: { ...STATUS.dead, isWhole: false } }),
      'UNKNOWN',
    )
  })

  it('answer WARNING if no daemon answers, and UNKNOWN if the spool cannot be asked', () => {
    const { source: _, daemon: __, ...rest } = STATUS
    const alone = (because: string | null): SpoolStatus => ({
      ...rest,
      source: 'directory',
      because,
      states: {},
    })
    assert.equal(levelOf({}, alone(null)), 'WARNING')
    assert.equal(levelOf({}, alone('EACCES')), 'UNKNOWN')
    assert.equal(levelOf({ maxDue: '1' }, alone('EACCES')), 'CRITICAL')
    assert.equal(levelOf({ maxFailureRate: '1' }, alone(null)), 'UNKNOWN')
    assert.equal(levelOf({}, { source: 'none', directory: '/s', because: 'it is gone' }), 'UNKNOWN')
    assert.equal(worst(['OK', 'UNKNOWN', 'WARNING']), 'UNKNOWN')
    assert.equal(worst(['UNKNOWN', 'CRITICAL', 'OK']), 'CRITICAL')
  })

  it('appear with their figures in the performance data', () => {
    const options = { maxDue: '1,2', maxAge: '10m', maxDead: '0', maxFailureRate: '5%' }
    assert.deepEqual(judge(STATUS, thresholdsOf(options)).performance, [
      'due=500;1;2;0',
      'age=300s;;600;0',
      'dead=3;;0;0',
      'failure_rate=4%;;5;0',
    ])
  })

  it('are refused if they are no number, age or share', () => {
    for (const maxDue of ['', 'x', '-1', '5,1', '1,2,3', '1.5'])
      assert.throws(() => thresholdsOf({ maxDue }), { code: 'USAGE' }, maxDue)
    for (const maxAge of ['10', 'soon'])
      assert.throws(() => thresholdsOf({ maxAge }), { code: 'USAGE' }, maxAge)
    for (const maxFailureRate of ['101%', 'half', '-1%'])
      assert.throws(() => thresholdsOf({ maxFailureRate }), { code: 'USAGE' }, maxFailureRate)
  })
})

describe('the screen of status', () => {
  it('has at most 80 columns, whatever there is to say', () => {
    const worker = {
      pid: 4_194_303,
      state: 'ready',
      isLone: false,
      concurrency: 1,
      spawnedAtMs: AT,
      ran: 123_456_789,
      paceMs: 1,
      outstanding: 1,
      running: [{ task: 'x'.repeat(300), sinceMs: AT }],
      signals: [],
      rssBytes: 10 ** 9,
    } as const
    const long: DaemonStatus = {
      ...withTasks({
        due: 10 ** 9,
        stored: null,
        isWhole: false,
        nextDueMs: AT + 1,
        parked: { paused: 10 ** 6, slot: 10 ** 6, alone: 3 },
        priorities: Array.from({ length: 100 }, (_, i) => ({ priority: String(i), due: 10 ** 6 })),
        prioritiesLeftOut: 5,
      }),
      processes: {
        wanted: 100,
        present: 99,
        delayed: 3,
        size: SPOOL.processes.size,
        workers: Array(100).fill(worker),
      },
      disk: { freeBytes: 10 ** 15, totalBytes: 10 ** 15, freeInodes: 1, totalInodes: 3 },
      look: {
        everyMs: 30_000,
        hints: 'events',
        watched: 1,
        refused: 9,
        isSuspended: false,
        looks: 1,
        lastAtMs: AT,
        lastMs: 123_456,
        lastFullMs: 1,
      },
      times: { sinceMs: AT, ran: { ...NO_TIMES, count: 1, p99Micros: 10 ** 9 }, waited: NO_TIMES },
    }
    const lines = [...screenOf(long)]
    assert.deepEqual(
      lines.filter(line => line.length > 80),
      [],
    )
    assert.ok(lines.length < 60, `${lines.length} lines`)
    assert.ok(lines.some(line => line.includes('at least 1,000,000,000 due')))
    assert.ok(lines.some(line => line.includes('and 84 more')))
  })

  it('prints no byte of a name that a terminal would obey', () => {
    const evil = '\x1b[2J\r\n'
    const lines = [
      ...screenOf({
        ...STATUS,
        directory: evil,
        daemon: { ...daemon, host: evil, version: evil, files: [evil] },
        dead: { ...STATUS.dead, byReason: { [evil]: 1 } },
      }),
    ]
    let text = ''
    const print = (printed: string) => {
      text += printed
    }
    new Output({ stdout: print, stderr: print, isWatched: false }).lines(lines)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
    assert.doesNotMatch(text, /[\x00-\x09\x0b-\x1f\x7f]/)
    assert.equal(text.split('\n').length - 1, lines.length)
  })
})

describe('a snapshot from a socket', () => {
  const { source: _, atMs: __, daemon: ___, ...spool } = STATUS
  const snapshot = { version: 1, atMs, daemon, spools: [spool], schedules: [], sockets: [] }

  it('is accepted if it is valid', () =>
    assert.deepEqual(readSnapshot(JSON.parse(JSON.stringify(snapshot))), snapshot))

  it('is refused if any of its values has another type', () => {
    const paths: Array<readonly string[]> = []
    const visit = (value: unknown, path: readonly string[]) => {
      if (typeof value !== 'object' || value === null) return void paths.push(path)
      for (const [key, each] of Object.entries(value)) visit(each, [...path, key])
    }
    for (const part of ['version', 'atMs'] as const) visit(snapshot[part], [part])
    for (const part of ['pid', 'version', 'state', 'host', 'files'] as const)
      visit(daemon[part], ['daemon', part])
    for (const part of ['directory', 'tasks', 'rates', 'dead'] as const)
      visit(spool[part], ['spools', '0', part])
    for (const path of paths) {
      const copy = structuredClone(snapshot)
      const last = path.at(-1) ?? ''
      const parent = path.slice(0, -1).reduce<unknown>((at, key) => Reflect.get(at as object, key), copy)
      Reflect.set(parent as object, last, { evil: true })
      assert.equal(readSnapshot(copy), undefined, path.join('.'))
    }
    for (const value of [null, [], 'x', { version: 2 }, { ...snapshot, version: 2 }])
      assert.equal(readSnapshot(value), undefined)
  })

  it('tells which daemon answers, whatever its version is', () => {
    assert.deepEqual(readDaemonFacts({ version: 2, daemon }), daemon)
    assert.equal(readDaemonFacts({ version: 1, daemon: { ...daemon, pid: 'x' } }), undefined)
  })
})

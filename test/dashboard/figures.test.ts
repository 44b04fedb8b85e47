import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { concernsOf } from '#src/doors/dashboard/models/attention.js'
import { History } from '#src/doors/dashboard/models/history.js'
import { showBytes } from '#src/doors/dashboard/models/shown-bytes.js'
import { bytesText, fromNowText, rateText, spanText } from '#src/doors/dashboard/views/text.js'
import { daemonSnapshot, type SpoolFigures, spoolSnapshot } from '../helpers/snapshots.js'

describe('the history of a dashboard', () => {
  const history = new History()
  const add = (seconds: number, figures: SpoolFigures) =>
    history.add(daemonSnapshot(seconds * 1000, spoolSnapshot(figures)))

  it('has the rates per second between two snapshots', () => {
    add(10, { totals: { done: 100 } })
    add(15, { totals: { done: 150, errors: 5 }, tasks: { due: 7 } })
    const [sample] = history.of('/spool').samples
    assert.deepEqual([sample?.done, sample?.failed, sample?.due, sample?.atMs], [10, 1, 7, 15_000])
  })

  it('says why the number of processes changed, the latest change first', () => {
    const size = (reason: string) => ({ algorithm: 'spare', minimum: 1, maximum: 9, reason, isByHand: false })
    add(20, { totals: { done: 150 }, processes: { wanted: 3, size: size('7 tasks are due') } })
    add(25, { totals: { done: 150 }, processes: { wanted: 2, size: size('nothing is due') } })
    assert.deepEqual(
      history.of('/spool').changes.map(({ from, to, reason }) => [from, to, reason]),
      [
        [3, 2, 'nothing is due'],
        [1, 3, '7 tasks are due'],
      ],
    )
  })

  it('goes on at once after the clock was set back, and drops the samples that now lie in the future', () => {
    const history = new History()
    const add = (seconds: number, done: number, wanted = 1) =>
      history.add(daemonSnapshot(seconds * 1000, spoolSnapshot({ totals: { done }, processes: { wanted } })))
    for (const at of [100, 105, 110, 115]) add(at, 0)
    add(107, 50, 2)
    add(112, 70, 2)
    const { samples, changes } = history.of('/spool')
    assert.deepEqual(
      samples.map(({ atMs, done }) => [atMs, done]),
      [
        [105_000, 0],
        [112_000, 4],
      ],
    )
    assert.deepEqual(
      changes.map(({ atMs, from, to }) => [atMs, from, to]),
      [[107_000, 1, 2]],
    )
  })

  it('keeps an hour, takes no snapshot twice, and forgets a spool that is gone', () => {
    for (let at = 30; at < 30 + 5 * 1000; at += 5) add(at, { totals: { done: 150 } })
    const { samples } = history.of('/spool')
    assert.deepEqual([samples.length, samples.at(-1)?.atMs], [720, 5_025_000])
    add(5025, {})
    assert.equal(history.of('/spool').samples.length, 720)
    assert.equal(history.of('/spool').samples.at(-1)?.atMs, 5_025_000)
    history.add(daemonSnapshot(6_000_000, spoolSnapshot({ directory: '/other' })))
    assert.deepEqual(history.of('/spool'), { samples: [], changes: [] })
  })
})

describe('the concerns that a dashboard names', () => {
  const about = (figures: SpoolFigures) =>
    concernsOf(daemonSnapshot(1_000_000, spoolSnapshot(figures))).map(({ level, page, text }) => [
      level,
      page,
      text,
    ])

  it('are none for an idle spool', () => assert.deepEqual(about({}), []))

  it('come with the page that says more, the worst first', () => {
    const disk = { freeBytes: 1, totalBytes: 100, freeInodes: 50, totalInodes: 100 }
    assert.deepEqual(
      about({
        dead: { count: 2, isWhole: false },
        tasks: { oldestDueMs: 100_000, parked: { 'unknown-name': 1 } },
        rates: { failedShare: 0.5 },
        processes: { delayed: 2 },
        disk,
      }),
      [
        ['error', 'spool', 'the disk is nearly full: 1.0 % of it is free'],
        ['error', 'workers', '2 workers are started later, because others failed'],
        ['warning', 'waiting', 'a task has been due for 15 minutes'],
        ['warning', 'dead', '50 % of the runs of the last five minutes failed'],
        ['warning', 'parked', '1 task has a name that no handler knows'],
        ['info', 'dead', '2 or more dead letters'],
      ],
    )
  })

  it('include a lack of inodes and a pause, but not the tasks that the pause makes late', () => {
    const disk = { freeBytes: 50, totalBytes: 100, freeInodes: 1, totalInodes: 100 }
    assert.match(String(about({ disk })), /out of inodes/)
    const paused = { pauses: [{ pair: null, sinceMs: 0, untilMs: null }] }
    assert.deepEqual(about({ paused, tasks: { oldestDueMs: 1 } }), [['info', 'spool', 'paused: all tasks']])
  })
})

describe('bytes on a page', () => {
  it('are shown as JSON, text or hexadecimal', () => {
    assert.deepEqual(showBytes(Buffer.from('{"a":[1]}')), {
      kind: 'json',
      text: '{\n  "a": [\n    1\n  ]\n}',
      bytes: 9,
      isCut: false,
    })
    assert.deepEqual(showBytes(Buffer.from('{not json')).kind, 'text')
    const deep = `${'['.repeat(2500)}${'0,'.repeat(28_000)}0${']'.repeat(2500)}`
    assert.equal(showBytes(Buffer.from(deep)).text, deep) // indented, it would be 150 MB
    assert.equal(showBytes(Buffer.from(`[${'{},'.repeat(100)}[]]`)).kind, 'json')
    assert.equal(showBytes(Buffer.from('naïve')).text, 'naïve')
    const { kind, text } = showBytes(Buffer.from([0xff, 0x41, 0x0a]))
    assert.equal(kind, 'hex')
    assert.match(text, /^00000000 {2}ff 41 0a +\.A\.$/)
  })

  it('are cut between characters, and their whole number is given', () => {
    const long = Buffer.from('ü'.repeat(40_000))
    const shown = showBytes(long.subarray(0, 64 * 1024 - 1), long.length)
    assert.deepEqual([shown.kind, shown.isCut, shown.bytes], ['text', true, 80_000])
    assert.ok(!shown.text.includes('\ufffd'))
    const binary = showBytes(Buffer.alloc(10_000, 0xff))
    assert.deepEqual([binary.kind, binary.isCut, binary.text.split('\n').length], ['hex', true, 256])
  })
})

describe('figures on a page', () => {
  it('have one unit each', () => {
    assert.deepEqual([250, 3210, 59_000, 300_000, 7_200_000, 864_000_000].map(spanText), [
      '250 ms',
      '3.2 s',
      '59 s',
      '5 min',
      '2 h',
      '10 d',
    ])
    assert.deepEqual([12, 2048, 5_500_000].map(bytesText), ['12 B', '2 KiB', '5.2 MiB'])
    assert.deepEqual([0, 0.01, 1234.56].map(rateText), ['0/s', '36/h', '1,234.6/s'])
    assert.deepEqual(
      [fromNowText(0, 5000), fromNowText(9000, 5000), fromNowText(5, 5)],
      ['5 s ago', 'in 4 s', 'now'],
    )
  })
})

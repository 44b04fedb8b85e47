import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { NamedRuns } from '#src/base/task/report.js'
import { NamedCounters } from '#src/runtime/stats/named-counters.js'

const runs = (name: string, counts: Partial<NamedRuns> = {}): NamedRuns => ({
  ...{ name, slots: null, started: 0, done: 0, retried: 0, buried: 0, other: 0, ranMs: 0 },
  ...counts,
})

it('the runs of a process that is gone count as killed, once, so that no name has more runs than began', () => {
  const counters = new NamedCounters()
  counters.told(1, [runs('a', { started: 3, done: 1, slots: 4, ranMs: 10 })])
  counters.told(2, [runs('a', { started: 1, slots: 4 }), runs('b', { started: 2, done: 1, buried: 1 })])
  const [a, b] = counters.stats(new Set([1, 2]))
  assert.deepEqual([a?.name, a?.running, a?.slots, a?.started, a?.done], ['a', 3, 4, 4, 1])
  assert.deepEqual([b?.running, b?.done, b?.buried], [0, 1, 1])
  counters.told(1, [runs('a', { done: 1, retried: 1, slots: 4 })])
  const [after] = counters.stats(new Set([1]))
  assert.deepEqual([after?.running, after?.done, after?.retried, after?.killed], [0, 2, 1, 1])
  assert.ok((after?.rates.failed.m5 ?? 0) > 0)
  assert.deepEqual(counters.stats(new Set())[0]?.killed, 1, 'the kill is counted once')
})

it('the runs of a process that is gone count as killed when another process gets its pid', () => {
  const counters = new NamedCounters()
  counters.told(1, [runs('a', { started: 2 })])
  counters.began(1)
  counters.told(1, [runs('a', { started: 1 })])
  const [a] = counters.stats(new Set([1]))
  assert.deepEqual([a?.running, a?.killed, a?.started], [1, 2, 3])
})

it('a hundred names are told apart, and all others counted together', () => {
  const counters = new NamedCounters()
  for (let n = 0; n < 1000; n++) counters.told(1, [runs(`n${n}`, { started: 1, done: 1, slots: 1 })])
  const stats = counters.stats(new Set([1]))
  assert.equal(stats.length, 101)
  const others = stats.find(({ name }) => name === '')
  assert.deepEqual([others?.started, others?.done, others?.slots], [900, 900, null])
})

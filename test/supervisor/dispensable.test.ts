import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { dispensable } from '#src/runtime/supervisor/roster.js'
import type { WorkerProcess } from '#src/runtime/supervisor/worker-process.js'

/** `i3`: idle since 3; `b`: busy; `s`: still loads; `d`: drains. */
function workers(text: string): WorkerProcess[] {
  const states = { i: 'ready', b: 'ready', s: 'starting', d: 'draining' } as const
  return text.split(' ').map((word, place) => {
    const kind = word[0] as keyof typeof states
    const worker = {
      pid: place,
      state: states[kind],
      work: { outstanding: kind === 'b' ? 1 : 0, activity: { idleSince: Number(word.slice(1)) } },
    }
    return worker as unknown as WorkerProcess
  })
}

const CASES: ReadonlyArray<
  readonly [what: string, pool: string, excess: number, target: number, gone: number[]]
> = [
  ['the one that has been idle longest', 'i5 i3 i4', 1, 2, [1]],
  ['several, the one that has been idle longest first', 'i5 i3 i4', 2, 1, [1, 2]],
  ['the idle one and no busy one', 'b b i9', 2, 1, [2]],
  ['none if all are busy', 'b b', 1, 1, []],
  ['an idle one rather than one that still loads', 'i1 s i2', 1, 2, [0]],
  ['the one that still loads rather than the last that is ready', 'i1 s', 1, 1, [1]],
  ['one that still loads rather than the only idle one', 'i1 s s', 1, 2, [1]],
  ['all of them if none is to stay', 'i2 i1', 2, 0, [1, 0]],
  ['an idle one, and none that drains already', 'i1 d i2', 1, 1, [0]],
  ['the idle one rather than one that still loads, if a busy one is ready', 'b i1 s', 1, 2, [1]],
]

describe('a pool with too many workers dismisses', () => {
  for (const [what, pool, excess, target, gone] of CASES)
    it(what, () => {
      const pids = dispensable(workers(pool), excess, target).map(({ pid }) => pid)
      assert.deepEqual(pids, gone)
    })
})

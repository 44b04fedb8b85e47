// cspell:ignoreRegExp /'[bis]+'/g
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Snapshot } from '#src/runtime/supervisor/scaling/algorithm.js'
import { loadAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import { OPTIONS, remembering, SECOND, snapshot } from '../../helpers/scaling.js'

type Tick = readonly [states: string, target: number, given?: Partial<Snapshot>]
type Rules = Readonly<Record<string, readonly Tick[]>>

const times = (count: number, ...ticks: Tick[]): Tick[] => Array.from({ length: count }, () => ticks).flat()
const stepOf = (step: number) => ({ options: { ...OPTIONS, step } })

/** Two workers are to be idle, and ten ticks with more are too many. */
const SPARE2: Rules = {
  'spawns missing idle workers one at a time': [['bbi', 4]],
  'spawns as many at once as `step` says': [['bbb', 5, stepOf(4)]],
  'spawns no more than there is room for': [['bbbbbbbbb', 10, stepOf(4)]],
  'does not spawn when told not to': [['bbb', 3, { canSpawn: false }]],
  'is stable with as many idle workers as wanted': times(12, ['bii', 3]),
  'stops one worker after `idle` ticks with more idle ones': [
    ...times(9, ['biii', 4]),
    ['biii', 3],
    ...times(9, ['iii', 3]),
    ['iii', 2],
  ],
  'starts counting again when as many are idle as wanted': [
    ...times(9, ['biii', 4]),
    ['bbii', 4],
    ...times(9, ['biii', 4]),
    ['biii', 3],
  ],
  'does not spawn again while spawned workers still load': [
    ['bbss', 4],
    ['bbbs', 5],
  ],
  'does not count a worker that still loads as one too many': times(12, ['biis', 4]),
  'counts a delayed respawn as a worker that is coming': [['bb', 4, { delayed: 2 }]],
  'does not grow when all respawns are delayed': [['', 1, { delayed: 1 }]],
}

/** More than three waiting tasks are too many. */
const BACKLOG: Rules = {
  'spawns one when more than `overload` tasks wait': [['bb', 3, { backlog: 4 }]],
  'spawns as many at once as `step` says, and no more than there is room for': [
    ['bb', 6, { backlog: 4, ...stepOf(4) }],
    ['bbbbbbbb', 10, { backlog: 4, ...stepOf(4) }],
  ],
  'does not spawn when told not to, and stops none either': [['bbb', 3, { backlog: 4, canSpawn: false }]],
  'is stable when exactly `overload` tasks wait': [['bbb', 3, { backlog: 3 }]],
  'stops one worker at each tick while fewer tasks wait': [
    ['iiii', 3],
    ['iii', 2, { backlog: 2 }],
  ],
  'lowers the target if no task waits, although all workers are busy': [
    ['bbb', 2],
    ['bbb', 2, { target: 2 }],
  ],
  'keeps the minimum': [['ii', 2]],
  'does not grow when all respawns are delayed': [['', 2, { backlog: 9, delayed: 2 }]],
}

const after = (seconds: number) => ({ nowMicros: seconds * SECOND })

const CHEAP: Rules = {
  'has a worker for each task that waits or runs, up to the maximum': [
    ['', 3, { backlog: 3 }],
    ['bbb', 7, { backlog: 4, running: 3 }],
    ['bbb', 10, { backlog: 40, running: 3 }],
  ],
  'has a worker for a signal, too': [['', 1, { signals: 1 }]],
  'stops no worker while there is anything to do': [['iiib', 4, { running: 1 }]],
  'stops all workers when there has been nothing to do for a second': [
    ['iii', 3, after(1)],
    ['iii', 3, after(1.9)],
    ['iii', 0, after(2)],
  ],
  'starts counting again after a task': [
    ['iii', 3, after(1)],
    ['iib', 3, { running: 1, ...after(1.5) }],
    ['iii', 3, after(1.9)],
    ['iii', 3, after(2.8)],
    ['iii', 0, after(2.9)],
  ],
  'does not spawn when told not to': [['', 0, { backlog: 3, canSpawn: false }]],
}

for (const [name, rules] of Object.entries({ spare2: SPARE2, backlog: BACKLOG, cheap: CHEAP }))
  describe(name, () => {
    for (const [rule, ticks] of Object.entries(rules))
      it(rule, async () => {
        const decide = remembering(await loadAlgorithm(name))
        for (const [at, [states, target, given]] of ticks.entries()) {
          const decision = decide(snapshot(states, given))
          assert.equal(decision.target, target, `tick ${at + 1}, ${states}: ${decision.reason}`)
        }
      })
  })

describe('cheap', () => {
  it('says when it is to be asked again, so that an idle second does not take two ticks', async () => {
    const decide = remembering(await loadAlgorithm('cheap'))
    decide(snapshot('i', after(5)))
    assert.equal(decide(snapshot('i', after(5.25))).askAgainMicros, 0.75 * SECOND)
  })
})

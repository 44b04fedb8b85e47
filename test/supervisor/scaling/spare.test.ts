// cspell:ignoreRegExp /'[bis]+'/g
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Snapshot } from '#src/runtime/supervisor/scaling/algorithm.js'
import { manual, spare } from '#src/runtime/supervisor/scaling/uwsgi-algorithms.js'
import { OPTIONS, snapshot } from '../../helpers/scaling.js'

type Tick = readonly [states: string, target: number, given?: Partial<Snapshot>]

/** The rules of uWSGI 2.0.21: two workers are the minimum, and more than three ticks are an overload. */
const RULES: ReadonlyArray<readonly [rule: string, ticks: readonly Tick[]]> = [
  [
    'spawns one when all were busy for more than `overload` ticks',
    [
      ['bb', 2],
      ['bb', 2],
      ['bb', 2],
      ['bb', 3],
    ],
  ],
  [
    'starts counting again after it has spawned',
    [
      ['bb', 2],
      ['bb', 2],
      ['bb', 2],
      ['bb', 3],
      ['bbb', 3],
      ['bbb', 3],
      ['bbb', 3],
      ['bbb', 4],
    ],
  ],
  [
    'subtracts a tick with a free worker from the count, instead of starting again',
    [
      ['bb', 2],
      ['bb', 2],
      ['bi', 2],
      ['bb', 2],
      ['bb', 2],
      ['bb', 3],
    ],
  ],
  [
    'spawns as many at once as `step` says, and no more than there is room for',
    [
      ['bbb', 3, { options: { ...OPTIONS, step: 4 } }],
      ['bbb', 3],
      ['bbb', 3],
      ['bbb', 7, { options: { ...OPTIONS, step: 4 } }],
      ['bbbbbbb', 7],
      ['bbbbbbb', 7],
      ['bbbbbbb', 7],
      ['bbbbbbb', 10, { options: { ...OPTIONS, step: 4 } }],
    ],
  ],
  [
    'does not spawn when told not to, but goes on counting',
    [
      ['bb', 2, { canSpawn: false }],
      ['bb', 2, { canSpawn: false }],
      ['bb', 2, { canSpawn: false }],
      ['bb', 2, { canSpawn: false }],
      ['bb', 3],
    ],
  ],
  ['is stable with one free worker', [...Array(9)].map((): Tick => ['bbbi', 4])],
  [
    'stops one worker every `overload` ticks while more than one is free',
    [
      ['iiii', 4],
      ['iiii', 4],
      ['iiii', 3],
      ['iii', 3],
      ['iii', 3],
      ['iii', 2],
    ],
  ],
  ['keeps the minimum', [...Array(9)].map((): Tick => ['ii', 2])],
  [
    'starts counting idle ticks again after a tick with all busy',
    [
      ['biii', 4],
      ['biii', 4],
      ['bbbb', 4],
      ['biii', 4],
      ['biii', 4],
      ['biii', 3],
    ],
  ],
  ['does not count a worker that still loads as load', [...Array(9)].map((): Tick => ['bbs', 3])],
  ['does not count a delayed respawn as load', [...Array(9)].map((): Tick => ['b', 2, { delayed: 1 }])],
  ['does not grow when all respawns are delayed', [...Array(9)].map((): Tick => ['', 2, { delayed: 2 }])],
  [
    'stops no worker while none is idle',
    [
      ['ss', 4, { delayed: 2 }],
      ['ss', 4, { delayed: 2 }],
      ['ss', 4, { delayed: 2 }],
    ],
  ],
]

describe('spare', () => {
  for (const [rule, ticks] of RULES)
    it(rule, () => {
      let state: Parameters<typeof spare>[1]
      for (const [at, [states, target, given]] of ticks.entries()) {
        const decision = spare(snapshot(states, given), state)
        assert.equal(decision.target, target, `tick ${at + 1}, ${states}: ${decision.reason}`)
        state = decision.state
      }
    })
})

describe('manual', () => {
  it('leaves the target as people have set it', () => {
    for (const target of [2, 3, 9]) assert.equal(manual(snapshot('bb', { target })).target, target)
  })
})

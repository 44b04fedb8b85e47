import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Evidence, judge, type Trouble } from '../helpers/machines/verdict.js'

const evidence = (journal: string, more: Partial<Evidence> = {}): Evidence => ({
  ...{ troubles: [], dead: new Map(), isAlways: true, patience: 1 },
  journal: journal.split('\n').map(line => line.trim()),
  ...more,
})
const trouble = (what: Trouble['what'], from: number, to = from, ...pids: string[]): Trouble => ({
  ...{ what, from, to },
  pids: what === 'redis' ? undefined : pids,
})
const dead = (n: string, reason: string) => new Map([[n, reason]])

/** A violation, a journal that shows it, and further evidence. */
const WRONG: Array<readonly [string, string, Partial<Evidence>?]> = [
  ['often 1 was acknowledged, and is lost', 'stored often 1 - 0'],
  ['once 1 was acknowledged, and is lost', 'stored once 1 - 0\nbegin once 1 7 1'],
  [
    'often 1 was acknowledged, and is lost',
    'stored often 1 - 100',
    { isAlways: false, troubles: [trouble('redis', 3000)] },
  ],
  ['often 1 was acknowledged, and is lost', 'stored often 1 - 100', { troubles: [trouble('redis', 200)] }],
  [
    'once 1 began twice, in 7 and 8',
    'stored once 1 - 0\nbegin once 1 7 1\nbegin once 1 8 3\nend once 1 8 4',
    { troubles: [trouble('worker', 2, 2, '7'), trouble('redis', 2)] },
  ],
  [
    'often 1 began in 8 while it ran in 7',
    'stored often 1 - 0\nbegin often 1 7 1\nbegin often 1 8 2\nend often 1 7 3\nend often 1 8 4',
    { troubles: [trouble('worker', 2, 2, '8')] },
  ],
  [
    'often 1 ran again in 8 although it had ended',
    'stored often 1 - 0\nbegin often 1 7 1\nend often 1 7 2\nbegin often 1 8 3\nend often 1 8 4',
  ],
  [
    'often 1 ran again in 8 although it had ended',
    'stored often 1 - 0\nbegin often 1 7 1\nend often 1 7 2\nbegin often 1 8 9000\nend often 1 8 9001',
    { troubles: [trouble('worker', 5000, 5000, '7')] },
  ],
  [
    'often 1 was buried: crashes',
    'stored often 1 - 0\nbegin often 1 7 1',
    { dead: dead('1', 'crashes'), troubles: [trouble('worker', 2, 2, '7')] },
  ],
  [
    'once 1 was buried although nothing had happened to its run',
    'stored once 1 - 0\nbegin once 1 7 1\nend once 1 7 2',
    { dead: dead('1', 'outcome-unknown') },
  ],
  [
    'often 1 began again 6.0 s after its trouble: worker',
    'stored often 1 - 0\nbegin often 1 7 1\nbegin often 1 8 6002\nend often 1 8 6003',
    { troubles: [trouble('worker', 2, 2, '7')] },
  ],
  [
    'often 1 began again 36.0 s after its trouble: cut',
    'stored often 1 - 0\nbegin often 1 7 1\nbegin often 1 8 36002\nend often 1 8 36003',
    { troubles: [trouble('cut', 2, 40_000, '7')] },
  ],
]

const FEW_RUN = 'begin few 1 7 1\nbegin few 2 7 2\nbegin few 3 8 3\n'
WRONG.push(
  ['few 3 began beside 1 and 2', FEW_RUN],
  ['few 1 began with the token 4 after 5', 'fence few 1 5 1\nfence few 1 4 9'],
)

const RIGHT: ReadonlyArray<readonly [string, string, Partial<Evidence>?]> = [
  [
    'a task that a death cut short runs again within seconds',
    'stored often 1 - 0\nbegin often 1 7 1\nbegin often 1 8 5002\nend often 1 8 5003',
    { troubles: [trouble('worker', 2, 2, '7')] },
  ],
  [
    'a task that had ended when its connection was cut runs again',
    'stored often 1 - 0\nbegin often 1 7 1\nend often 1 7 9\nbegin often 1 8 20000\nend often 1 8 20009',
    { troubles: [trouble('cut', 5, 40_000, '7')] },
  ],
  [
    'an at-most-once task is buried after its daemon died',
    'stored once 1 - 0\nbegin once 1 7 1',
    { dead: dead('1', 'outcome-unknown'), troubles: [trouble('daemon', 2, 2, '7')] },
  ],
  [
    'a task that ended just before Redis died runs again',
    'stored once 1 - 0\nbegin once 1 7 5000\nend once 1 7 5100\nbegin once 1 8 7000\nend once 1 8 7001',
    { isAlways: false, troubles: [trouble('redis', 5200, 6000)] },
  ],
  [
    'a task that was stored in the last second of Redis is lost',
    'stored often 1 - 2500',
    { isAlways: false, troubles: [trouble('redis', 3000)] },
  ],
  [
    'a cut connection delays a recovery until it is restored',
    'stored often 1 - 0\nbegin often 1 7 10\nbegin often 1 8 9000\nend often 1 8 9003',
    { troubles: [trouble('worker', 20, 20, '7'), trouble('cut', 5, 30, '9')] },
  ],
  [
    'as many limited tasks run at once as may',
    'begin few 1 7 1\nbegin few 2 7 2\nend few 1 7 3\nbegin few 3 8 3',
  ],
  ['the slot of a dead worker is used again', FEW_RUN, { troubles: [trouble('worker', 3, 3, '7')] }],
  [
    'a second trouble delays the first recovery',
    'stored often 1 - 0\nbegin often 1 7 1\nbegin often 1 8 9000\nend often 1 8 9003',
    { troubles: [trouble('worker', 2, 2, '7'), trouble('redis', 3, 4000)] },
  ],
]

describe('the verdict on several machines', () => {
  for (const [violation, journal, more] of WRONG)
    it(`finds: ${violation}`, () => {
      assert.deepEqual(judge(evidence(journal, more)).violations, [violation])
    })
  for (const [name, journal, more] of RIGHT)
    it(`accepts: ${name}`, () => {
      assert.deepEqual(judge(evidence(journal, more)).violations, [])
    })
})

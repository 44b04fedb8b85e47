import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Evidence, judge } from '../helpers/soak/verdict.js'

const evidence = (journal: string, more: Partial<Evidence> = {}): Evidence => ({
  ...{ acknowledged: new Map(), dead: new Map(), pauses: [], limit: 1, tickMs: 1000, maxCrashes: 3 },
  journal: journal.split('\n').map(line => line.trim()),
  ...more,
})
const once = (n: string, kind = 'plain') => new Map([[n, kind]])

/** A violation, a journal that shows it, and further evidence. */
const WRONG: ReadonlyArray<readonly [string, string, Partial<Evidence>?]> = [
  ['plain a was acknowledged, and is lost', '', { acknowledged: once('a') }],
  [
    'plain a was buried: crashes, cut short 1 times',
    'begin plain a 7 0\nkill - - 7 9',
    { acknowledged: once('a'), dead: new Map([['a', 'crashes']]) },
  ],
  ['plain a began in 8 while it ran in another process', 'begin plain a 7 0\nbegin plain a 8 1'],
  [
    'plain a began in 8 while it ran in another process',
    'kill - - 7 0\nbegin plain a 7 1001\nbegin plain a 8 1002',
  ],
  [
    'once a was buried: outcome-unknown',
    'begin once a 7 0\nend once a 7 1',
    { acknowledged: once('a', 'once'), dead: new Map([['a', 'outcome-unknown']]) },
  ],
  ['plain a ran again although it had been settled', 'begin plain a 7 0\nend plain a 7 1\nbegin plain a 8 2'],
  [
    'plain a ran again although it had been settled',
    'begin plain a 7 0\nend plain a 7 1\nkill - - 7 9000\nbegin plain a 8 9001',
  ],
  [
    'once a was to run at most once, and ran 2 times',
    'begin once a 7 0\nkill - - 7 1\nbegin once a 8 2\nend once a 8 3',
    { acknowledged: once('a', 'once') },
  ],
  ['2 limited tasks ran at once', 'begin few a 7 0\nbegin few b 8 0'],
  ['plain a began while the spool was paused', 'begin plain a 7 5', { pauses: [{ from: 4, to: 6 }] }],
  [
    'poison a was not buried for its crashes: undefined',
    'begin poison a 7 0',
    { acknowledged: once('a', 'poison') },
  ],
  [
    'too many: 4 ticks in 1 s',
    'begin tick tick 7 1\nend tick tick 7 2\nbegin tick tick 7 3\nend tick tick 7 4\nbegin tick tick 7 5\nend tick tick 7 6\nbegin tick tick 7 1001',
  ],
  ['tick tick began in 8 while it ran in another process', 'begin tick tick 7 1\nbegin tick tick 8 1002'],
]

const RIGHT: ReadonlyArray<readonly [string, string, Partial<Evidence>?]> = [
  [
    'a task that was cut short runs again',
    'begin plain a 7 0\nkill - - 7 1\nbegin plain a 8 2\nend plain a 8 3',
    { acknowledged: once('a') },
  ],
  [
    'a task that began between the line of the kill and the kill itself runs again',
    'kill - - 7 1\nbegin plain a 7 2\nbegin plain a 8 3\nend plain a 8 4',
    { acknowledged: once('a') },
  ],
  [
    'an at-most-once task that was killed between its mark and its handler is buried',
    'kill - - 7 1',
    { acknowledged: once('a', 'once'), dead: new Map([['a', 'outcome-unknown']]) },
  ],
  [
    'a task that ended just before its process was killed runs again',
    'begin plain a 7 0\nend plain a 7 1\nkill - - 7 2\nbegin plain a 8 3\nend plain a 8 4',
    { acknowledged: once('a') },
  ],
  [
    'a task that ran beside a poison task runs again',
    'begin plain a 7 0\nbegin poison p 7 0\nbegin plain a 8 2\nend plain a 8 3',
    { acknowledged: once('a') },
  ],
  ['the slot of a dead process is used again', 'begin few a 7 0\nkill - - 7 1\nbegin few b 8 2'],
  [
    'an at-most-once task that was cut short is buried',
    'begin once a 7 0\nkill - - 7 1',
    { acknowledged: once('a', 'once'), dead: new Map([['a', 'outcome-unknown']]) },
  ],
]

describe('the verdict on a soak', () => {
  for (const [violation, journal, more] of WRONG)
    it(`finds that ${violation}`, () => {
      assert.ok(
        judge(evidence(journal, more)).violations.includes(violation),
        judge(evidence(journal, more)).violations.join('\n'),
      )
    })

  for (const [what, journal, more] of RIGHT)
    it(`finds nothing wrong if ${what}`, () => {
      assert.deepEqual(judge(evidence(journal, more)).violations, [])
    })
})

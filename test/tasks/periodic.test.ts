import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { durationMs, LONGEST_DELAY_MS } from '#src/base/task/terms.js'
import { SpooldError, Tasks } from '#src/index.js'
import { periodicOf } from '#src/runtime/tasks/periodic.js'

describe('a periodic task', () => {
  const rhythms: Array<[options: Parameters<typeof periodicOf>[2], when: unknown]> = [
    [{ periodicity: 1 }, { everyMs: 1000 }],
    [{ periodicity: '1.5' }, { everyMs: 1500 }],
    [{ periodicity: '1h30m' }, { everyMs: 5_400_000 }],
    [{ cron: '0 3 * * *' }, { expression: '0 3 * * *', zone: null }],
    [{ cron: '-5 -1 -1 -1 -1' }, { expression: '-5 -1 -1 -1 -1', zone: null }],
    [
      { cron: '@daily', timeZone: 'Europe/Paris' },
      { expression: '@daily', zone: 'Europe/Paris' },
    ],
  ]
  for (const [options, when] of rhythms)
    it(`is scheduled as ${JSON.stringify(options)} says`, () => {
      const expected = { kind: 'periodic', name: 'a', queue: 'default', when, missed: 'one', overlap: false }
      assert.deepEqual(periodicOf('task a', 'a', options, 0), expected)
    })

  it('may skip what it missed, overlap, and have a queue', () => {
    const found = periodicOf('task a', 'a', { periodicity: 9, missed: 'skip', overlap: true, queue: 'q' }, 0)
    assert.deepEqual([found?.missed, found?.overlap, found?.queue], ['skip', true, 'q'])
    assert.equal(periodicOf('task a', 'a', { queue: 'q' }, 2), undefined)
  })

  const refused: Array<[options: object, message: string, fn?: (a: string) => void]> = [
    [{ periodicity: 0.5 }, "periodicity must be 1 second or more: seconds, or text such as '5m', got 0.5"],
    [{ periodicity: 0 }, "periodicity must be 1 second or more: seconds, or text such as '5m', got 0"],
    [
      { periodicity: 'often' },
      `periodicity must be 1 second or more: seconds, or text such as '5m', got "often"`,
    ],
    [
      { periodicity: Number.POSITIVE_INFINITY },
      "periodicity must be 1 second or more: seconds, or text such as '5m', got Infinity",
    ],
    [{ periodicity: 5, cron: '0 3 * * *' }, 'periodicity and cron cannot both be given'],
    [
      { cron: '0 25 * * *' },
      'cron: expected a number from 0 to 23 for the hour, -1 for any or -n for those that n divides, got 25',
    ],
    [{ cron: 'daily' }, 'cron: expected a cron expression, got "daily": '],
    [{ cron: '0 0 30 2 *' }, 'cron: "0 0 30 2 *" never comes'],
    [{ cron: 5 }, "cron must be a cron expression, such as '0 3 * * *', got 5"],
    [
      { cron: '0 3 * * *', timeZone: 'Europe/Nowhere' },
      'cron: expected a cron expression, got "0 3 * * *" in the zone "Europe/Nowhere": ',
    ],
    [{ periodicity: 5, timeZone: 'UTC' }, 'timeZone is of no use without cron'],
    [{ missed: 'one' }, 'missed is of no use without periodicity or cron'],
    [{ periodicity: 5, missed: 'all' }, `missed must be 'one' or 'skip', got "all"`],
    [{ periodicity: 5, overlap: 1 }, 'overlap must be true or false, got 1'],
    [
      { periodicity: 5 },
      'a periodic task is called without arguments, and this function needs 1',
      (_a: string) => {},
    ],
  ]
  for (const [options, message, fn = () => {}] of refused)
    it(`is refused with ${JSON.stringify(options)}${fn.length > 0 ? ' with an argument' : ''}`, () => {
      const define = () => new Tasks().task('a', options, fn)
      assert.throws(define, (error: unknown) => {
        assert.ok(error instanceof SpooldError)
        assert.equal(error.code, 'TASK_INVALID')
        assert.ok(error.message.startsWith(`task a: ${message}`), error.message)
        return true
      })
    })

  const schema = (validate: (value: unknown) => never) => ({
    '~standard': { version: 1, vendor: 'test', validate } as const,
  })
  const two = (value: unknown) =>
    Array.isArray(value) && value.length === 2 ? { value } : { issues: [{ message: 'expected two' }] }

  it('is refused if its schema refuses a call without arguments', () => {
    const define = (validate: (value: unknown) => unknown) => () =>
      new Tasks().task('a', { periodicity: 5, schema: schema(validate as never) }, () => {})
    assert.throws(define(two), {
      code: 'TASK_INVALID',
      message:
        'task a: a periodic task is called without arguments, which its schema refuses: args: expected two',
    })
    assert.throws(
      define(() => {
        throw new Error('no')
      }),
      { code: 'TASK_INVALID', message: 'task a: its schema threw: no' },
    )
    define(value => ({ value }))()
    define(() => Promise.reject(new Error('later')))() // the schema is asked again at each run
    new Tasks().task('a', { schema: schema(two as never) }, () => {})
  })

  it('takes a function whose parameters may be left out', () => {
    new Tasks().add((_a = 1, ..._rest: number[]) => {}, { name: 'a', periodicity: '5m' })
  })

  it('cannot be made of all tasks of a registry', () => {
    const options: object = { periodicity: 5 }
    assert.throws(() => new Tasks(options), /there is no option periodicity/)
  })
})

describe('a duration', () => {
  it('is seconds or text, and nothing else', () => {
    assert.deepEqual([5, '5', '5m', -1, Number.NaN, null, '5 m', {}].map(durationMs), [
      5000,
      5000,
      300_000,
      ...Array(5).fill(undefined),
    ])
  })
  it('of more seconds than a number of milliseconds holds is the longest delay, and Infinity is none', () => {
    assert.deepEqual([1e308, Number.POSITIVE_INFINITY].map(durationMs), [LONGEST_DELAY_MS, undefined])
  })
})

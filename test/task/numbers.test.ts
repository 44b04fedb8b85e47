import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { MAX_TIMER_MS } from '#src/base/clock.js'
import { describe as shown } from '#src/base/errors.js'
import { toOutcome } from '#src/base/task/answer.js'
import { LONGEST_DELAY_MS, retryDelayMs } from '#src/base/task/terms.js'
import { LAST_SECOND, parseTime } from '#src/base/time-text.js'
import { coerce } from '#src/formats/config/coerce.js'
import { OPTION_TABLE, type OptionSpec } from '#src/formats/config/option-table.js'

const MANY_DIGITS = '9'.repeat(400)
/** Texts of numbers at the ends of ranges, and beyond. */
const TEXTS = [
  '0',
  '1',
  '+5',
  ' 7 ',
  '1.5',
  '999999999',
  '999999999999999',
  '9'.repeat(20),
  MANY_DIGITS,
  '5m',
  '99999999w',
]
const NO_NUMBERS = [
  '',
  ' ',
  '-1',
  '-0',
  '1e3',
  '1e400',
  'NaN',
  'Infinity',
  '0x10',
  '1_000',
  '٣',
  '1,5',
  '5 m',
  '1.5.5',
  '--1',
]

describe('numbers of a configuration, at their limits and beyond', () => {
  const KINDS = ['count', 'seconds', 'megabytes', 'octal']
  for (const kind of KINDS)
    it(`are in range or an error, for each option of the kind ${kind}`, () => {
      for (const spec of OPTION_TABLE.filter(each => each.kind === kind) as OptionSpec[])
        for (const text of [...TEXTS, ...NO_NUMBERS]) {
          const { value, error } = coerce(spec, text)
          const what = `${spec.name} = ${text.slice(0, 30)}`
          const isYes = spec.name === 'chmod-socket' && text === ''
          if (NO_NUMBERS.includes(text) && !isYes) assert.ok(error !== undefined, what)
          if (error !== undefined) continue
          assert.ok(Number.isSafeInteger(value) && Number(value) >= 0, `${what}: ${value}`)
          if (kind === 'seconds')
            assert.ok(Number(value) <= (spec.isAge ? LONGEST_DELAY_MS : MAX_TIMER_MS), what)
        }
    })

  it('may be ages of 90 days, for which no timer waits', () => {
    for (const spec of OPTION_TABLE as readonly OptionSpec[])
      if (spec.isAge) assert.deepEqual(coerce(spec, '90d'), { value: 90 * 86_400_000 }, spec.name)
  })
})

describe('times of a handler, at their limits and beyond', () => {
  const LONG = { kind: 'retry', delayMs: LONGEST_DELAY_MS }
  for (const [retry, outcome] of [
    [0, { kind: 'retry', delayMs: 0 }],
    [-0, { kind: 'retry', delayMs: 0 }],
    [new Date(-8.64e15), { kind: 'retry', delayMs: 0 }],
    [2 ** 53, LONG],
    [1e308, LONG],
    [MANY_DIGITS, LONG],
    ['99999999999999w', LONG],
    [new Date(8.64e15), LONG],
  ] as const)
    it(`as { retry: ${String(retry).slice(0, 20)} } become a valid delay`, () => {
      const { kind, delayMs } = toOutcome({ retry }) as typeof LONG
      assert.deepEqual({ kind, delayMs: delayMs + 0 }, outcome)
    })

  for (const retry of [
    -1,
    Number.POSITIVE_INFINITY,
    Number.NaN,
    new Date(Number.NaN),
    ...NO_NUMBERS,
    5n,
    [5],
    null,
    false,
  ])
    it(`as { retry: ${shown(retry)} } become a failure that says what is expected`, () => {
      const outcome = toOutcome({ retry })
      assert.match(
        'detail' in outcome ? String(outcome.detail) : '',
        /the wrong retry: expected true, seconds, a text/,
      )
    })

  it('grow to a number up to the cap after any number of failures', () => {
    for (const attempts of [1, 10, 1023, 1024, 100_000])
      for (const delayMs of [null, 0, 1e-300, 1000, LONGEST_DELAY_MS])
        for (const capMs of [0, 1000, LONGEST_DELAY_MS]) {
          const policy = { backoff: 'exponential', delayMs, capMs, maxAttempts: 0, maxCrashes: 0 } as const
          const ms = retryDelayMs(policy, attempts, 1000, () => 1)
          assert.ok(ms >= 0 && ms <= capMs, `${attempts} failures, ${delayMs} up to ${capMs}: ${ms}`)
        }
  })

  it('as text are valid until the end of the year 9999, and are refused beyond', () => {
    for (const text of ['0', '-1', '1.5', String(LAST_SECOND), '+1h', '9999-12-31', '2024-02-29'])
      assert.ok(Math.abs(parseTime(text) ?? Number.NaN) <= LAST_SECOND, text)
    for (const text of [
      ...NO_NUMBERS.filter(each => !each.startsWith('-')),
      ...[String(LAST_SECOND + 1), MANY_DIGITS, '+99999999w', `+${MANY_DIGITS}`, '-5m', '--1'],
      ...[
        '2026-02-30',
        '2023-02-29',
        '10000-01-01',
        '+275760-09-13',
        '2026-01-01 24:00',
        '2026-01-01T00:00+99',
      ],
    ])
      assert.equal(parseTime(text), undefined, text)
  })
})

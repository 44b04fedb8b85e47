import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { SpooldError } from '#src/base/errors.js'
import { openCron } from '#src/runtime/schedule/cron.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { asOptions, UWSGIS, type Uwsgi } from '../helpers/uwsgi.js'
import { FIXTURES, workspace } from '../helpers/workspace.js'

const MINUTE = 60_000
const utc = (text: string) => Date.parse(`${text}Z`)

/** Returns the instants that are due from `from` on and before `until`. */
function instants(expression: string, zone: string | null, from: number, until: number): number[] {
  const cron = openCron(expression, zone)
  const found: number[] = []
  for (let at = cron.next(from - 1); at !== undefined && at < until; at = cron.next(at)) found.push(at)
  return found
}

interface Row {
  readonly fields: string
  readonly minutes: readonly number[]
}

/** Asks the function of a real uWSGI which minutes match. */
async function askUwsgi(
  uwsgi: Uwsgi,
  fields: readonly string[],
  zone: string,
  from: number,
  until: number,
): Promise<Row[]> {
  const out = join(workspace(), 'minutes')
  const peer = new TestProcess(
    uwsgi.command,
    [...asOptions(uwsgi.python), '--pyrun', join(FIXTURES, 'cron/uwsgi_minutes.py')],
    {
      env: {
        TZ: zone,
        FIELDS: fields.join('\n'),
        FROM: String(from / 1000),
        UNTIL: String(until / 1000),
        OUT: out,
      },
    },
  )
  assert.equal(await peer.code(60_000), 0, peer.output)
  return readFileSync(out, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

const digest = (minutes: readonly number[]) => createHash('sha1').update(minutes.join()).digest('hex')
const YEAR = [utc('2026-01-01'), utc('2027-01-01')] as const

/** The minutes of 2026, in UTC, that match in uWSGI 2.0.21; tests below compare them with each installed uWSGI. */
const RECORDED: ReadonlyArray<readonly [fields: string, count: number, sha1: string]> = JSON.parse(
  readFileSync(join(FIXTURES, 'cron/uwsgi-2026.json'), 'utf8'),
)

describe('a cron expression of uWSGI', () => {
  for (const [fields, count, sha1] of RECORDED)
    it(`${fields} is due in the ${count} minutes of 2026 that match in uWSGI`, () => {
      const minutes = instants(fields, 'UTC', ...YEAR).map(at => at / MINUTE)
      assert.equal(minutes.length, count)
      assert.equal(digest(minutes), sha1)
    })

  for (const uwsgi of UWSGIS)
    it(`matches in ${uwsgi.title} in the recorded minutes`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const rows = await askUwsgi(
        uwsgi,
        RECORDED.map(([fields]) => fields),
        'UTC',
        ...YEAR,
      )
      assert.deepEqual(
        rows.map(({ fields, minutes }) => [fields, minutes.length, digest(minutes)]),
        RECORDED,
      )
    })

  for (const uwsgi of UWSGIS)
    it(`is due when ${uwsgi.title} says, with random fields in a time zone with a half-hour offset`, {
      skip: skipUnless(uwsgi.needs),
    }, async t => {
      const seed = Date.now() % 1_000_000
      t.diagnostic(`seed ${seed}`)
      const fields = randomFields(seed, 40)
      const zone = 'Asia/Kolkata'
      const [from, until] = [utc('2026-02-26'), utc('2026-03-03')]
      for (const row of await askUwsgi(uwsgi, fields, zone, from, until))
        assert.deepEqual(
          instants(row.fields, zone, from, until).map(at => at / MINUTE),
          row.minutes,
          row.fields,
        )
    })
})

function randomFields(seed: number, count: number): string[] {
  let state = seed
  const below = (limit: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * limit)
  }
  const pick = (min: number, max: number) =>
    [-1, -1, -(1 + below(max)), min + below(max - min + 1)][below(4)] ?? -1
  return Array.from({ length: count }, () =>
    [pick(0, 59), pick(0, 23), pick(1, 31), below(3) === 0 ? pick(1, 12) : -1, pick(0, 7)].join(' '),
  )
}

describe('day and weekday in a cron expression', () => {
  const monthDays = (expression: string) =>
    instants(expression, 'UTC', utc('2026-05-01'), utc('2026-06-01')).map(at => new Date(at).getUTCDate())
  const where = (holds: (day: number, weekday: number) => boolean) =>
    Array.from({ length: 31 }, (_, i) => i + 1).filter(day =>
      holds(day, new Date(Date.UTC(2026, 4, day)).getUTCDay()),
    )
  // entry.c: a field that begins with * is no restriction, so that both have to match
  const CASES: Readonly<Record<string, (day: number, weekday: number) => boolean>> = {
    '0 0 */2 * 3': (day, weekday) => day % 2 === 1 && weekday === 3,
    '0 0 13 * */1': day => day === 13,
    '0 0 1-20 * */2': (day, weekday) => day <= 20 && weekday % 2 === 0,
    '0 0 * * 1': (_, weekday) => weekday === 1,
    '0 0 13 * 5': (day, weekday) => day === 13 || weekday === 5,
    '0 0 13 * mon-fri': (day, weekday) => day === 13 || (weekday >= 1 && weekday <= 5),
    '0 0 1,15 * *': day => day === 1 || day === 15,
    '0 0 0 */2 * 3': (day, weekday) => day % 2 === 1 && weekday === 3,
    '0 0 0 13 * 5': (day, weekday) => day === 13 || weekday === 5,
  }
  for (const [expression, holds] of Object.entries(CASES))
    it(`are due on the days of cron: ${expression}`, () =>
      assert.deepEqual(monthDays(expression), where(holds)))
})

describe('summer time', () => {
  const BERLIN = 'Europe/Berlin'
  const CASES: ReadonlyArray<
    readonly [title: string, expression: string, zone: string, day: string, expected: readonly string[]]
  > = [
    [
      'a skipped time is due at the end of the skipped hour',
      '30 2 * * *',
      BERLIN,
      '2026-03-28T23:00',
      ['2026-03-29T01:00'],
    ],
    [
      "a skipped time is due at the end of the skipped hour, in uWSGI's format too",
      '30 2 -1 -1 -1',
      BERLIN,
      '2026-03-28T23:00',
      ['2026-03-29T01:00'],
    ],
    ['a repeated time is due once', '30 2 * * *', BERLIN, '2026-10-24T22:00', ['2026-10-25T00:30']],
    [
      "a repeated time is due once, in uWSGI's format too",
      '30 2 -1 -1 -1',
      BERLIN,
      '2026-10-24T22:00',
      ['2026-10-25T00:30'],
    ],
    [
      'another time of the night is due as usual',
      '30 4 * * *',
      BERLIN,
      '2026-03-28T23:00',
      ['2026-03-29T02:30'],
    ],
    [
      'a skipped time is due at the end of the skipped hour in New York',
      '30 2 * * *',
      'America/New_York',
      '2026-03-08T05:00',
      ['2026-03-08T07:00'],
    ],
    [
      'a repeated time is due once in New York',
      '30 1 * * *',
      'America/New_York',
      '2026-11-01T04:00',
      ['2026-11-01T05:30'],
    ],
    [
      'a skipped time is due at the end of the skipped half hour',
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-03T13:30',
      ['2026-10-03T15:30'],
    ],
    [
      'a time in a repeated half hour is due once',
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04T13:00',
      ['2026-04-04T14:45'],
    ],
  ]
  for (const [title, expression, zone, day, expected] of CASES)
    it(`${title} (${expression}, ${zone})`, () => {
      const from = utc(day)
      const found = instants(expression, zone, from, from + 23 * 60 * MINUTE)
      assert.deepEqual(
        found.map(at => new Date(at).toISOString().slice(0, 16)),
        expected,
      )
    })

  for (const night of ['2026-03-28T12:00', '2026-10-24T12:00'])
    for (const expression of ['*/15 * * * *', '-15 -1 -1 -1 -1'])
      it(`a quarter-hourly expression is due without gap or repeat (${expression}, ${night})`, () => {
        const from = utc(night)
        assert.deepEqual(
          instants(expression, BERLIN, from, from + 24 * 60 * MINUTE),
          Array.from({ length: 96 }, (_, i) => from + i * 15 * MINUTE),
        )
      })

  it('an expression for each quarter of the skipped hour is not due that night', () => {
    const from = utc('2026-03-28T12:00')
    assert.deepEqual(instants('-15 2 -1 -1 -1', BERLIN, from, from + 24 * 60 * MINUTE), [])
  })

  for (const zone of [BERLIN, 'America/New_York', 'Australia/Lord_Howe', 'America/Santiago', 'Africa/Cairo'])
    it(`each time of day is due once a day for a year in ${zone}`, () => {
      const date = new Intl.DateTimeFormat('en-CA', { timeZone: zone })
      for (const time of ['0 0', '30 0', '30 1', '0 2', '15 2', '59 2', '0 3', '45 23']) {
        const days = instants(`${time} * * *`, zone, ...YEAR).map(at => date.format(at))
        assert.equal(new Set(days).size, days.length, time)
        assert.ok(days.length >= 364 && days.length <= 366, `${time}: ${days.length} days`)
      }
    })
})

describe('an ordinary cron expression', () => {
  const day = [utc('2026-06-01'), utc('2026-06-08')] as const // from a Monday on
  const CASES: ReadonlyArray<readonly [expression: string, count: number]> = [
    ['0 9-17 * * mon-fri', 45],
    ['0,30 0 * * *', 14],
    ['*/20 0 * * 0', 3],
    ['0 0 * * 7', 1],
    ['0 0 1 * 3', 2], // the first, or a Wednesday
    ['0 0 * jun tue', 1],
    ['-30 0 * * *', 14], // both ways of writing in one
    ['0 0 */2 * 3', 1], // cron's own: what begins with * is no restriction
    ['0 0 1-31/2 * 3', 4], // one or the other
    ['0 0 -2 -1 3', 0], // uWSGI's: both, and the third is a Wednesday
    ['@daily', 7],
    ['*/30 0 0 * * *', 14], // six fields: seconds first
  ]
  for (const [expression, count] of CASES)
    it(`${expression} is due ${count} times in a week`, () => {
      assert.equal(instants(expression, 'UTC', ...day).length, count)
    })

  it('counts in the zone of the process if no zone is named', () => {
    const [at = 0] = instants('0 0 * * *', null, ...day)
    assert.equal(new Date(at).getHours(), 0)
  })

  it('may be one that is never due', () => {
    assert.equal(openCron('0 0 30 2 *', null).next(0), undefined)
  })

  const WRONG: ReadonlyArray<readonly [expression: string, zone: string | null, expected: RegExp]> = [
    ['60 0 -1 -1 -1', null, /expected a number from 0 to 59 for the minute, .* got 60/],
    ['0 24 -1 -1 -1', null, /from 0 to 23 for the hour, .* got 24/],
    ['0 0 0 -1 -1', null, /from 1 to 31 for the day, .* got 0/],
    ['0 0 -1 13 -1', null, /from 1 to 12 for the month, .* got 13/],
    ['0 0 -1 -13 -1', null, /from 1 to 12 for the month, .* got -13/],
    ['0 0 -1 -1 8', null, /from 0 to 7 for the weekday, .* got 8/],
    ['0 0 * *', null, /expected a cron expression, got "0 0 \* \*"/],
    ['a 0 * * *', null, /expected a cron expression, got "a 0 \* \* \*"/],
    ['', null, /expected a cron expression/],
    ['0 0 * * *', 'Mars/Olympus', /in the zone "Mars\/Olympus"/],
  ]
  for (const [expression, zone, expected] of WRONG)
    it(`is refused with a message that says what was expected: ${expression} ${zone ?? ''}`, () => {
      assert.throws(
        () => openCron(expression, zone),
        (error: SpooldError) => error.code === 'SCHEDULE_INVALID' && expected.test(error.message),
      )
    })
})

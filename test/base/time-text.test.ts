import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseDuration, parseTime } from '#src/base/time-text.js'

const now = Date.UTC(2026, 0, 1)

describe('a point in time', () => {
  const UNDERSTOOD: ReadonlyArray<readonly [text: string, seconds: number]> = [
    ['1700000000', 1_700_000_000],
    ['1700000000.5', 1_700_000_000.5],
    ['-1', -1],
    ['253402300799', 253_402_300_799],
    ['+90', now / 1000 + 90],
    ['+1h30m', now / 1000 + 5400],
    ['+1w', now / 1000 + 604_800],
    ['+1ms', now / 1000 + 1],
    ['2026-12-24T08:00Z', Date.UTC(2026, 11, 24, 8) / 1000],
    ['2026-12-24T08:00:01.5z', Date.UTC(2026, 11, 24, 8, 0, 1, 500) / 1000],
    ['2026-12-24T08:00:00+05:30', Date.UTC(2026, 11, 24, 2, 30) / 1000],
    ['2026-12-24 08:00-0130', Date.UTC(2026, 11, 24, 9, 30) / 1000],
    ['2026-12-24 08:00', new Date(2026, 11, 24, 8).getTime() / 1000],
    ['2026-12-24', new Date(2026, 11, 24).getTime() / 1000],
    ['2028-02-29', new Date(2028, 1, 29).getTime() / 1000],
  ]
  for (const [text, seconds] of UNDERSTOOD)
    it(`is ${text}`, () => assert.equal(parseTime(text, now), seconds))

  const REFUSED = [
    ...['', ' ', '5m', '+', '+5y', '+1h30', '+-5m', '1e9', '0x10', 'NaN', 'Infinity'],
    ...['tomorrow', 'tomorrow 9', 'next friday 3'],
    ...['24 Dec 2026', '12/24/2026', 'Thu, 24 Dec 2026 08:00:00 GMT', '2026-12', '08:00', '2026-1-2'],
    ...[
      '2026-02-30',
      '2027-02-29',
      '2026-13-01',
      '2026-00-01',
      '2026-12-24 24:00',
      '2026-12-24 08:60',
      '0000-01-01',
    ],
    ...[
      '2026-12-24 08',
      '2026-12-24 08:00 CET',
      '2026-12-24 08:00+25:00',
      'x2026-12-24',
      '2026-12-24x',
      '2026-W52-4',
    ],
    ...['1700000000000', '253402300800', '99999999999999999999', '+9000000d'],
  ]
  for (const text of REFUSED)
    it(`is not ${JSON.stringify(text)}`, () => assert.equal(parseTime(text, now), undefined))
})

describe('a duration', () => {
  it('adds its parts up', () => {
    assert.equal(parseDuration('1h30m'), 5_400_000)
    assert.equal(parseDuration('1.5h'), 5_400_000)
    assert.equal(parseDuration('90'), 90_000)
    assert.equal(parseDuration('1w2d3h4m5s6ms'), 788_645_006)
    for (const text of ['', 'm', '1x', '1h 30m', '-1h', '1h30'])
      assert.equal(parseDuration(text), undefined, text)
  })
})

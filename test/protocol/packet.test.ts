import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { HEADER_BYTES, MAX_BLOCK_BYTES } from '#src/formats/protocol/header.js'
import { encodePacket } from '#src/formats/protocol/packet.js'
import { lastValue, parseVars, toDictionary, toPairs } from '#src/formats/protocol/vars.js'
import { isLong } from '../helpers/requires.js'
import { FIXTURES } from '../helpers/workspace.js'

const CASES = isLong ? 1_000_000 : 100_000

function parse(packet: Buffer) {
  return parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
}

function parseGood(packet: Buffer) {
  const vars = parse(packet)
  assert.ok(!('fault' in vars), 'fault' in vars ? vars.fault : '')
  return vars
}

const pair = fc.tuple(
  fc.uint8Array({ minLength: 1, maxLength: 20 }).map(bytes => Buffer.from(bytes)),
  fc.uint8Array({ maxLength: 40 }).map(bytes => Buffer.from(bytes)),
)

describe('a packet', () => {
  it("has uWSGI's bytes, in the manual's own example", () => {
    assert.deepEqual(
      [...encodePacket([[Buffer.from('hello'), Buffer.from('world')]])],
      [17, 14, 0, 0, 5, 0, ...Buffer.from('hello'), 5, 0, ...Buffer.from('world')],
    )
  })

  it('without pairs is a header alone', () => {
    assert.deepEqual([...encodePacket([])], [17, 0, 0, 0])
    assert.deepEqual(toPairs(parseGood(encodePacket([]))), [])
  })

  it('gives back any pairs, in their order, duplicates kept', () => {
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 12 }), pairs => {
        assert.deepEqual(toPairs(parseGood(encodePacket(pairs))), pairs)
      }),
      { numRuns: 2000 },
    )
  })

  it('refuses what the format cannot hold, and names the key and the size', () => {
    const long = Buffer.alloc(MAX_BLOCK_BYTES + 1)
    assert.throws(
      () => encodePacket([[Buffer.from('k'), long]]),
      /the value of "k" takes 65536 bytes; a packet holds 65535/,
    )
    assert.throws(() => encodePacket([[long, Buffer.from('v')]]), /a key takes 65536 bytes/)
    assert.throws(() => encodePacket([[Buffer.alloc(0), Buffer.from('v')]]), /a key is empty/)
    const half = Buffer.alloc(40_000)
    assert.throws(
      () =>
        encodePacket([
          [Buffer.from('a'), half],
          [Buffer.from('b'), half],
        ]),
      { code: 'REQUEST_INVALID', details: { key: '', bytes: 80_010, limit: MAX_BLOCK_BYTES } },
    )
  })

  it('holds exactly 65,535 bytes', () => {
    const value = Buffer.alloc(MAX_BLOCK_BYTES - 5, 'v')
    const [[, got] = []] = toPairs(parseGood(encodePacket([[Buffer.from('k'), value]])))
    assert.equal(got?.equals(value), true)
  })
})

describe('the dictionary of a packet', () => {
  const dictionary = (...pairs: Array<[string, string]>) =>
    toDictionary(parseGood(encodePacket(pairs.map(([k, v]) => [Buffer.from(k), Buffer.from(v)]))))

  it('has no prototype: __proto__ and friends are ordinary keys', () => {
    const env = dictionary(['__proto__', 'polluted'], ['constructor', 'c'], ['toString', 't'])
    assert.equal(Object.getPrototypeOf(env), null)
    assert.deepEqual(Object.keys(env), ['__proto__', 'constructor', 'toString'])
    assert.equal(Object.entries(env)[0]?.[1], 'polluted')
    assert.equal(({} as Record<string, unknown>).polluted, undefined)
  })

  it('keeps the last of a repeated key', () => {
    assert.deepEqual({ ...dictionary(['a', '1'], ['b', '2'], ['a', '3']) }, { a: '3', b: '2' })
  })

  it('reads UTF-8, with a replacement character for bytes that are none', () => {
    assert.equal(dictionary(['żółw', '🐢']).żółw, '🐢')
    const vars = parseGood(encodePacket([[Buffer.from('k'), Buffer.from([0xff, 0x41])]]))
    assert.equal(toDictionary(vars).k, '\ufffdA')
  })

  it('finds the last value of a key, as uWSGI scans for `at`', () => {
    const vars = parseGood(
      encodePacket(
        [
          ['at', '1'],
          ['xat', '2'],
          ['at', '3'],
          ['att', '4'],
        ].map(([k = '', v = '']) => [Buffer.from(k), Buffer.from(v)]),
      ),
    )
    assert.equal(lastValue(vars, 'at'), '3')
    assert.equal(lastValue(vars, 'missing'), undefined)
  })
})

describe('a malformed block', () => {
  const cases: Array<[string, number[], RegExp]> = [
    ['one byte', [1], /ends inside a key length/],
    ['two bytes where a key should begin', [1, 0], /ends inside a key length/],
    ['an empty key', [0, 0, 1, 0, 65], /a key is empty/],
    ['a key that runs past the end', [9, 0, 65], /a key of 9 bytes runs past the end/],
    ['no value length', [1, 0, 65], /ends inside a value length/],
    ['half a value length', [1, 0, 65, 1], /ends inside a value length/],
    ['a value that runs past the end', [1, 0, 65, 2, 0, 66], /a value of 2 bytes runs past the end/],
    ['a good pair, then rubbish', [1, 0, 65, 0, 0, 7], /ends inside a key length \(at byte 5/],
  ]
  for (const [what, block, message] of cases)
    it(`is refused: ${what}`, () => {
      const vars = parse(Buffer.from([17, block.length, 0, 0, ...block]))
      assert.ok('fault' in vars)
      assert.match(vars.fault, message)
    })

  it(`never crashes the parser nor makes it read outside: ${CASES} random and mutated blocks`, () => {
    const good = encodePacket([
      [Buffer.from('hello'), Buffer.from('world')],
      [Buffer.from('at'), Buffer.from('17')],
    ])
    let malformed = 0
    const check = (block: Buffer) => {
      const vars = parse(block)
      if ('fault' in vars) malformed++
      else
        assert.equal(
          toPairs(vars).reduce((sum, [key, value]) => sum + 4 + key.length + value.length, 0),
          block.length - HEADER_BYTES,
        )
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), bytes =>
        check(Buffer.concat([good.subarray(0, 4), bytes])),
      ),
      {
        numRuns: CASES / 2,
      },
    )
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(good.length - 5), fc.nat(255)), { minLength: 1, maxLength: 3 }),
        changes => {
          const mutated = Buffer.from(good)
          for (const [at, byte] of changes) mutated[at + 4] = byte
          check(mutated)
        },
      ),
      { numRuns: CASES / 2 },
    )
    assert.ok(malformed > CASES / 10 && malformed < CASES, `${malformed} malformed`)
  })
})

describe('the golden files', () => {
  const asked: Array<{ asked: Record<string, string> }> = JSON.parse(
    readFileSync(join(FIXTURES, 'golden/asked.json'), 'utf8'),
  )

  it('at every truncation are either malformed or a shorter list, never an exception', () => {
    for (const { asked: dictionary } of asked.slice(0, isLong ? undefined : 40)) {
      const pairs = Object.entries(dictionary)
        .filter(([key]) => key !== 'body')
        .map(([key, value]) => [Buffer.from(key, 'latin1'), Buffer.from(value, 'base64')] as const)
      const whole = encodePacket(pairs)
      const step = whole.length > 5000 ? 997 : 1
      for (let end = HEADER_BYTES; end < whole.length; end += step) {
        const vars = parse(whole.subarray(0, end))
        if (!('fault' in vars)) assert.deepEqual(toPairs(vars), pairs.slice(0, vars.cuts.length / 4))
      }
      assert.deepEqual(toPairs(parseGood(whole)), pairs)
    }
  })
})

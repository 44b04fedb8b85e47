import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { SpooldError } from '#src/base/errors.js'
import { requestFromPacket } from '#src/formats/protocol/request-vars.js'
import { type Pair, wire } from '../helpers/wire.js'

const read = (pairs: readonly Pair[]) => requestFromPacket(wire(pairs))
const refusalOf = (pairs: readonly Pair[] | Buffer) => {
  try {
    requestFromPacket(Buffer.isBuffer(pairs) ? pairs : wire(pairs))
    return undefined
  } catch (error) {
    assert.ok(error instanceof SpooldError)
    return error.code
  }
}

describe('a request in a packet', () => {
  it('keeps every pair, the magic ones too', () => {
    const pairs: Pair[] = [
      ['a', 'b'],
      ['spooler', '/s'],
      ['priority', '5'],
      ['at', '7.9'],
      ['body', 'x'],
      ['a', ''],
    ]
    const { request, spooler, bodyBytes } = read(pairs)
    assert.deepEqual(request.packet, wire(pairs))
    assert.deepEqual([request.priority, request.atSeconds, String(spooler), bodyBytes], ['5', 7.9, '/s', 0])
    assert.equal(request.body, undefined)
  })

  it('uses the last value of each magic key, and none if that is empty', () => {
    const { request, spooler } = read([
      ['priority', '5'],
      ['priority', ''],
      ['at', '9'],
      ['at', ''],
      ['spooler', '/s'],
      ['spooler', ''],
    ])
    assert.deepEqual([request.priority, request.atSeconds, spooler], [undefined, undefined, undefined])
  })

  it('stores a time as a number, and refuses one that is no time or that no file can have', () => {
    for (const at of ['-5', '0']) assert.equal(read([['at', at]]).request.atSeconds, undefined, at)
    for (const at of ['abc', '1e10', ' 7', '0x7'])
      assert.equal(refusalOf([['at', at]]), 'REQUEST_INVALID', at)
    const pairs = (at: string): Pair[] => [
      ['at', 'kept'],
      ['a', 'b'],
      ['at', at],
      ['c', 'd'],
    ]
    const { request } = read(pairs('1970-01-01T00:00:07Z'))
    assert.equal(request.atSeconds, 7)
    assert.deepEqual(request.packet, wire(pairs('7')))
    assert.equal(read([['at', '253402300799']]).request.atSeconds, 253_402_300_799)
    assert.equal(refusalOf([['at', '253402300800']]), 'REQUEST_INVALID')
    assert.equal(refusalOf([['at', '9'.repeat(400)]]), 'REQUEST_INVALID')
  })

  it('takes CONTENT_LENGTH out, and refuses one that is no number', () => {
    const { request, bodyBytes } = read([
      ['CONTENT_LENGTH', '12'],
      ['a', 'b'],
    ])
    assert.deepEqual([request.packet, bodyBytes], [wire([['a', 'b']]), 12])
    assert.equal(read([['CONTENT_LENGTH', '']]).bodyBytes, 0)
    for (const length of ['-1', '5x', '1e3', ' 5', '9'.repeat(16)])
      assert.equal(refusalOf([['CONTENT_LENGTH', length]]), 'REQUEST_INVALID', length)
  })

  it('is refused when its block is no list of pairs', () => {
    assert.equal(refusalOf(wire(Buffer.from('\x05\0ab'))), 'PACKET_MALFORMED')
  })

  it('is read or refused, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
        assert.ok([undefined, 'PACKET_MALFORMED', 'REQUEST_INVALID'].includes(refusalOf(Buffer.from(bytes))))
      }),
      { numRuns: 5000 },
    )
  })
})

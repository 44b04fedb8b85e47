import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Packet, PacketDecoder } from '#src/formats/protocol/decoder.js'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { isLong } from '../helpers/requires.js'
import { wire } from '../helpers/wire.js'

const RUNS = isLong ? 20_000 : 1000
const LIMIT = 300

const anyPacket = fc
  .tuple(fc.nat(255), fc.nat(255), fc.uint8Array({ maxLength: LIMIT }))
  .map(([modifier1, modifier2, block]) => wire(Buffer.from(block), { modifier1, modifier2 }))

/** The places where a stream is cut. */
const cutsOf = (bytes: number) => fc.uniqueArray(fc.nat(bytes), { maxLength: 40 })

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts, bytes.length].sort((a, b) => a - b)
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}

/** Returns all packets of a stream, and the most bytes that were held and reserved meanwhile. */
function decodeAll(chunks: readonly Buffer[], limit = LIMIT) {
  const decoder = new PacketDecoder(limit)
  const packets: Packet[] = []
  let mostHeld = 0
  let mostReserved = 0
  let oversized: number | undefined
  for (const chunk of chunks)
    for (let rest = chunk; rest.length > 0 && oversized === undefined; ) {
      const decoded = decoder.take(rest)
      mostHeld = Math.max(mostHeld, decoder.heldBytes)
      mostReserved = Math.max(mostReserved, decoder.reservedBytes)
      rest = decoded.kind === 'packet' ? decoded.rest : Buffer.alloc(0)
      if (decoded.kind === 'packet')
        packets.push({ ...decoded.packet, bytes: Buffer.from(decoded.packet.bytes) })
      if (decoded.kind === 'oversized') oversized = decoded.blockBytes
    }
  return { packets, mostHeld, mostReserved, oversized, left: decoder.heldBytes }
}

describe('packets off the wire', () => {
  it('are the same however the stream is cut', () => {
    fc.assert(
      fc.property(
        fc
          .array(anyPacket, { maxLength: 6 })
          .map(packets => Buffer.concat(packets))
          .chain(stream => fc.tuple(fc.constant(stream), cutsOf(stream.length))),
        ([stream, cuts]) => {
          const whole = decodeAll([stream])
          assert.deepEqual(decodeAll(cut(stream, cuts)).packets, whole.packets)
          assert.deepEqual(Buffer.concat(whole.packets.map(({ bytes }) => bytes)), stream)
          for (const { bytes, modifier1, modifier2 } of whole.packets)
            assert.deepEqual([modifier1, modifier2], [bytes[0], bytes[3]])
        },
      ),
      { numRuns: RUNS },
    )
  })

  it('are the same byte by byte', () => {
    const stream = Buffer.concat([wire([['a', 'b']]), wire([]), wire(Buffer.alloc(LIMIT), { modifier1: 9 })])
    assert.deepEqual(decodeAll([...stream].map(byte => Buffer.of(byte))).packets, decodeAll([stream]).packets)
  })

  it('never take more memory than the limit, nor much more than has come', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 2000 }),
        fc.array(fc.nat(2000), { maxLength: 30 }),
        (bytes, cuts) => {
          const stream = Buffer.from(bytes)
          const { mostHeld, mostReserved } = decodeAll(
            cut(
              stream,
              cuts.filter(at => at < stream.length),
            ),
          )
          assert.ok(mostHeld <= HEADER_BYTES + LIMIT)
          assert.ok(mostReserved <= HEADER_BYTES + LIMIT)
        },
      ),
      { numRuns: RUNS },
    )
    const decoder = new PacketDecoder(65_535)
    decoder.take(wire(Buffer.alloc(3000), { size: 65_535 }))
    assert.ok(decoder.reservedBytes <= 2 * 3004, `${decoder.reservedBytes} for 3004`)
  })

  it('are refused by their header alone when they are larger than the limit', () => {
    const header = wire([], { size: LIMIT + 1 })
    assert.equal(decodeAll([header]).oversized, LIMIT + 1)
    assert.equal(decodeAll([...header].map(byte => Buffer.of(byte))).oversized, LIMIT + 1)
    assert.equal(decodeAll([wire([], { size: LIMIT })]).oversized, undefined)
  })

  it('leave the bytes behind them alone', () => {
    const decoder = new PacketDecoder(LIMIT)
    const stream = Buffer.concat([wire([['a', 'b']]), Buffer.from('body')])
    decoder.take(stream.subarray(0, 3))
    const decoded = decoder.take(stream.subarray(3))
    assert.ok(decoded.kind === 'packet')
    assert.equal(decoded.rest.toString(), 'body')
    assert.equal(decoder.heldBytes, 0)
  })

  it('tell their modifier as soon as the header is there', () => {
    const decoder = new PacketDecoder(LIMIT)
    assert.deepEqual(decoder.take(Buffer.of(71)), { kind: 'partial', modifier1: undefined })
    assert.deepEqual(decoder.take(Buffer.of(9, 0, 0)), { kind: 'partial', modifier1: 71 })
  })
})

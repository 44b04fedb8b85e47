import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { FewWrites } from '#src/engines/redis/few-writes.js'

describe('FewWrites', () => {
  it('sends the operations of one turn in pieces of 4, and the rest at the end of the turn', async () => {
    const pieces: number[] = []
    const stream = new Writable({
      writev(chunks, done) {
        pieces.push(chunks.length)
        done()
      },
    })
    const writes = new FewWrites()
    for (let n = 0; n < 14; n++) {
      writes.begin(stream)
      stream.write('a command')
    }
    assert.deepEqual(pieces, [4, 4, 4], 'three writes are sent before the turn ends')
    await turn()
    assert.deepEqual(pieces, [4, 4, 4, 2])
    for (let n = 0; n < 3; n++) {
      writes.begin(stream)
      stream.write('a command')
    }
    await turn()
    assert.deepEqual(pieces, [4, 4, 4, 2, 3], 'a new turn starts a new count')
  })
})

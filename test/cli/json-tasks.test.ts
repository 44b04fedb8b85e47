import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { readJsonTasks } from '#src/doors/cli/json-tasks.js'

async function numberOf(literal: string): Promise<unknown> {
  const input = [Buffer.from(`{"text":"n: 0.12345678901234567890","n":${literal}}\n`)]
  for await (const { pairs } of readJsonTasks(chunksOf(input))) return pairs[1]?.[1]
  return undefined
}

async function* chunksOf(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks
}

const ROUNDED = {
  code: 'REQUEST_INVALID',
  message: /^line 1: the value of "n" is a number that would be rounded/,
}

describe('a number in a JSON task', () => {
  it('is accepted in any notation when a double holds it', async () => {
    for (const literal of ['0', '-0', '1.50', '1e2', '1E+2', '-12.5e3', '0.001', '0.10000', '1e-7', '5e-324'])
      assert.equal(await numberOf(literal), Number(literal), literal)
    for (const literal of ['9007199254740992', '-9007199254740992', '1e21', '0.30000000000000004'])
      assert.equal(await numberOf(literal), Number(literal), literal)
  })

  it('is accepted whatever double it is', async () => {
    const double = fc.double({ noDefaultInfinity: true, noNaN: true })
    await fc.assert(
      fc.asyncProperty(double, async value => {
        assert.equal(await numberOf(JSON.stringify(value)), value === 0 ? 0 : value)
      }),
      { numRuns: 300 },
    )
  })

  it('is refused when a double would round it', async () => {
    for (const literal of ['9007199254740993', '3.141592653589793238', '0.1000000000000000055511', '1e400'])
      await assert.rejects(numberOf(literal), ROUNDED, literal)
    await assert.rejects(numberOf(`0.${'0'.repeat(1_000_000)}1`), ROUNDED, 'a literal of a million digits')
  })
})

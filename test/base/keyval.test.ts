import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { formatKeyvals, parseKeyvals } from '#src/base/keyval.js'

const asText = (text: string) =>
  parseKeyvals(text).map(({ key, value }) => (value === undefined ? key : `${key} → ${value}`))

describe('a list of keys and values', () => {
  for (const [text, ...items] of [
    ['a=1,b=2', 'a → 1', 'b → 2'],
    ['a=x=y', 'a → x=y'],
    ['a=x\\,y,b=\\\\', 'a → x,y', 'b → \\'],
    [',a=1,,b,', 'a → 1', 'b'],
    [' a = 1 , b=2', ' a  →  1 ', ' b → 2'],
    ['\\a=\\b', 'a → b'],
    ['a=', 'a → '],
    ['=1', ' → 1'],
    ['a=1\\', 'a → 1'],
    ['a\\\\b=1', 'a → 1'],
    [''],
  ] as const)
    it(`${JSON.stringify(text)} has ${items.length} items`, () => assert.deepEqual(asText(text), items))

  it('is read back as it was written', () => {
    const key = fc.string({ minLength: 1 }).filter(text => !/[\\=]/.test(text))
    const item = fc.tuple(key, fc.oneof(fc.constant(undefined), fc.string()))
    fc.assert(
      fc.property(fc.array(item), pairs => {
        const items = pairs.map(([key, value]) => ({ key, value }))
        assert.deepEqual(parseKeyvals(formatKeyvals(items)), items)
      }),
    )
  })
})

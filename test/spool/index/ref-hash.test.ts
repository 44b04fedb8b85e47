import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HashMap, hash } from '#src/engines/spool/index/ref-hash.js'
import { Random, SEED } from '../../helpers/chaos/random.js'

const contentsOf = (map: HashMap<number>) =>
  new Map(
    Array.from(
      map.keys(() => true),
      key => [key, map.get(key)],
    ),
  )

describe('HashMap', () => {
  const hashed = (i: number) => hash(`uwsgi_spoolfile_on_h_${i}`)
  const crowded = (i: number) => (i + 1) * 2 ** 32 // all have the same place
  for (const [name, keyOf, count] of [
    ['of a few', hashed, 40],
    ['of many', hashed, 5000],
    ['whose places are the same', crowded, 100],
  ] as const)
    it(`${name} holds what a Map holds while keys come and go`, () => {
      const random = new Random(SEED)
      const keys = Array.from({ length: count }, (_, i) => keyOf(i))
      const map = new HashMap<number>()
      const model = new Map<number, number>()
      for (let turn = 0; turn < 40_000; turn++) {
        const key = random.pick(keys) ?? 0
        if (random.next() < 0.5) {
          map.set(key, turn)
          model.set(key, turn)
        } else assert.equal(map.delete(key), model.delete(key))
        assert.equal(map.has(key), model.has(key))
        assert.equal(map.get(key), model.get(key))
        assert.equal(map.size, model.size)
        if (turn % 10_000 === 0) assert.deepEqual(contentsOf(map), model)
      }
    })

  it('lists the keys that are wanted, by key and value', () => {
    const map = new HashMap<number>()
    for (let i = 0; i < 1000; i++) map.set(hashed(i), i)
    const wanted = [...map.keys((key, i) => i < 500 && key !== hashed(7))]
    assert.equal(wanted.length, 499)
    for (const key of wanted) map.delete(key)
    assert.deepEqual([map.size, map.get(hashed(7)), map.get(hashed(8))], [501, 7, undefined])
  })
})

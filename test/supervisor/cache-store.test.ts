import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { CacheStore } from '#src/runtime/supervisor/cache-store.js'

/** Returns how many bytes of the heap are in use. */
function used(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

describe('CacheStore', () => {
  it('makes room by removing expired entries, even if nobody asks for them', async () => {
    const store = new CacheStore()
    const value = 'x'.repeat(1024 * 1024)
    const fill = (prefix: string, seconds: string) => {
      let count = 0
      try {
        for (; count < 200; count++) store.answer(['set', 'c', `${prefix}${count}`, value, seconds])
      } catch {}
      return count
    }
    const first = fill('a', '0.05')
    assert.ok(first > 50 && first < 65)
    await setTimeout(60)
    assert.equal(fill('b', '0'), first)
    assert.deepEqual(store.answer(['get', 'c', 'a0']), [])
    assert.equal(fill('c', '0'), 0)
  })

  it('forgets expired entries while others are stored, even if there is room', t => {
    let now = 1e6
    t.mock.method(performance, 'now', () => now)
    const store = new CacheStore()
    const before = used()
    for (let i = 0; i < 40; i++)
      store.answer([
        'set',
        `c${i % 3}`,
        `a${i}`,
        Buffer.alloc(512 * 1024, 97 + (i % 20)).toString('latin1'),
        '0.05',
      ])
    assert.ok(used() - before > 15 * 1024 * 1024)
    now += 1000
    for (let i = 0; i < 100; i++) store.answer(['update', 'c', `b${i % 5}`, 'x', '10'])
    assert.ok(used() - before < 1024 * 1024)
    assert.deepEqual(store.answer(['keys', 'c']).length, 5)
  })

  it('counts the memory of small entries, and refuses more when it is full', () => {
    const store = new CacheStore()
    assert.throws(() => {
      for (let i = 0; i < 1_000_000; i++) store.answer(['set', 'c', String(i), 'x', '0'])
    }, /the cache is full/)
  })

  it('keeps no cache that is only read', () => {
    const store = new CacheStore()
    for (let i = 0; i < 10; i++) assert.deepEqual(store.answer(['get', `cache-${i}`, 'key']), [])
    assert.deepEqual(store.answer(['set', 'c', 'key', 'value', '0']), ['1'])
    assert.deepEqual(store.answer(['del', 'c', 'key']), ['1'])
    assert.deepEqual(store.answer(['keys', 'c']), [])
  })
})

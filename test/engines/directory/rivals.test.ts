import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import type { Ref } from '#src/base/task/ref.js'
import { DirectoryFeed } from '#src/engines/directory/feed.js'
import { drop, packet } from '../../helpers/files.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

/** A task whose run somebody has begun. */
const begun = () => {
  const bytes = packet({ name: 'begun' })
  bytes[3] = 0x80
  return bytes
}

/** A feed that has met others who run tasks of its directory, and what it gave since. */
async function feedWithRivals(spool: string, t: TestContext) {
  drop(spool, 'met')
  const rules = { ordered: true, strictNames: false }
  const options = { spool, rules, order: 'name', frequencyMs: 1_000_000, watch: 'off' } as const
  const feed = new DirectoryFeed(options, new Emitter())
  t.after(() => feed.close())
  const given: Ref[] = []
  await feed.open(() => given.push(...feed.take(9)))
  assert.deepEqual(given.splice(0), ['met'])
  feed.returned([{ ref: 'met', kind: 'gone', ranMs: 0 }])
  return { feed, given }
}

describe('the feed of a directory that others run, too', () => {
  it('gives what they have begun later, though nothing else happens: their process may have died', async t => {
    const spool = spoolDirectory()
    const { feed, given } = await feedWithRivals(spool, t)
    for (let i = 0; i < 20 && (i === 0 || given.length > 0); i++) {
      feed.done(given.splice(0)) // this process was held up for longer than a feed looks
      feed.lookNow(drop(spool, `begun-${i}`, begun()))
    }
    assert.deepEqual(given, [])
    assert.equal(feed.isDrained, false, 'a drain would leave it')
    await until('it is given', () => given.length === 1)
    feed.done(given)
    await until('nothing is left', () => feed.isDrained)
  })

  it('gives what was begun here at once: its process has died', async t => {
    const spool = spoolDirectory()
    const { feed, given } = await feedWithRivals(spool, t)
    feed.cutShort('begun', { kind: 'crash', cause: 'was killed' })
    feed.lookNow(drop(spool, 'begun', begun()))
    assert.deepEqual(given, ['begun'])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Retirement } from '#src/runtime/worker/retirement.js'
import { until } from '../helpers/until.js'

describe('reload-on-rss', () => {
  it('is checked again after the last of several short tasks, without another task', async () => {
    const memory = { rssBytes: Number.MAX_SAFE_INTEGER, vszBytes: 0, minAgeMs: 0 }
    const retirement: Retirement = new Retirement({ maxTasks: 0, memory, isOneByOne: true }, () =>
      retirement.look(),
    )
    retirement.handled()
    memory.rssBytes = 1 // as if the next task, which takes no time, had eaten all that there is
    retirement.handled()
    assert.ok(!retirement.reason, 'it looked a moment ago')
    await until('the limit was checked again', () => retirement.reason)
    assert.match(JSON.stringify(retirement.reason), /"recycling","because":\{"kind":"rss"/)
  })
})

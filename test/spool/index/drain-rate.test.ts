import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { DrainRate, LONG_BACKLOG, RATE_WINDOW_MS } from '#src/engines/spool/index/scan-timetable.js'

/** Returns the judgement after a window in which `ended` tasks have ended. */
function judged(
  ended: number,
  counts: { ready: number; busy: number; waiting: number },
): boolean | undefined {
  let nowMs = 0
  const clock = mock.method(performance, 'now', () => nowMs)
  try {
    const race = new DrainRate()
    nowMs = RATE_WINDOW_MS
    race.tasksEnded(ended)
    return race.judge(counts)
  } finally {
    clock.mock.restore()
  }
}

describe('DrainRate', () => {
  const [FAST, SLOW] = [1000, 100]
  const LONG = { ready: LONG_BACKLOG + 1, busy: 1, waiting: 0 }

  it('judges that workers race if the backlog is long and they are fast', () => {
    assert.equal(judged(FAST, LONG), true)
    assert.equal(judged(SLOW, LONG), false)
    assert.equal(judged(FAST, { ...LONG, ready: LONG_BACKLOG }), false)
  })

  it('judges that they do not race if as many refs wait as are ready, because a listing meets those in vain', () => {
    assert.equal(judged(FAST, { ...LONG, waiting: LONG.ready - 1 }), true)
    assert.equal(judged(FAST, { ...LONG, waiting: LONG.ready }), false)
  })

  it('has no judgement while nobody works', () => {
    assert.equal(judged(0, { ...LONG, busy: 0 }), undefined)
  })
})

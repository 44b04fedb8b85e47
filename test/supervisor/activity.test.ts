import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Activity } from '#src/runtime/supervisor/workload.js'

/** Longer than a worker that has just been busy takes to say that it runs something. */
const REST_MS = 30

describe('the activity of a worker', () => {
  it('is unknown from when the worker is given tasks until one of them starts or has run', () => {
    for (const show of [
      (activity: Activity) => activity.started(),
      (activity: Activity) => activity.reported(3, 1),
    ]) {
      const activity = new Activity()
      activity.note(3)
      assert.equal(activity.isSorting, true)
      show(activity)
      assert.equal(activity.isSorting, false)
    }
  })

  it('is work at once after a short rest, and unknown after a longer one, or after tasks that did not run', async () => {
    const activity = new Activity()
    const restAndReturn = async (ms: number) => {
      activity.note(0)
      if (ms > 0) await sleep(ms)
      activity.note(1)
      return activity.isSorting
    }
    activity.note(1)
    activity.started()
    assert.equal(await restAndReturn(0), false)
    assert.equal(await restAndReturn(REST_MS), true)
    activity.reported(1, 0)
    assert.equal(await restAndReturn(0), true)
  })

  it('is unknown between two batches if nothing in the first one was due', () => {
    const activity = new Activity()
    activity.note(3)
    activity.reported(3, 0)
    activity.note(0)
    assert.equal(activity.isSorting, true)
    activity.note(3)
    activity.reported(3, 3)
    activity.note(0)
    assert.equal(activity.isSorting, false)
  })

  it('counts as busy time from when tasks were given if they run, and not at all if none of them runs', async () => {
    const sorting = new Activity()
    sorting.note(9)
    await sleep(REST_MS)
    sorting.reported(9, 0)
    sorting.note(0)
    assert.equal(sorting.busyMs, 0)

    const working = new Activity()
    working.note(1)
    await sleep(REST_MS)
    assert.equal(working.busyMs, 0)
    working.started()
    assert.ok(working.busyMs >= REST_MS - 1)
    working.note(0)
    const { busyMs } = working
    await sleep(REST_MS)
    assert.equal(working.busyMs, busyMs)
  })

  it('is work once the worker has been silent for two seconds', async () => {
    const activity = new Activity()
    activity.note(1)
    await sleep(2010) // the time that passes is what is tested
    assert.equal(activity.isSorting, false)
    assert.ok(activity.busyMs > 2000)
  })
})

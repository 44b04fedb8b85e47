import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import type { Schedule } from '#src/base/task/schedule.js'
import { Scheduler } from '#src/runtime/schedule/scheduler.js'
import { ownZone } from '#src/runtime/schedule/zone.js'
import { until } from '../helpers/until.js'

const timer = (number: number, everyMs = 3_600_000, iterations = 0): Schedule => ({
  kind: 'timer',
  number,
  everyMs,
  iterations,
})
const monitor = (path: string): Schedule => ({ kind: 'monitor', number: 1, path })

describe('the schedules of a daemon', () => {
  const opened: Scheduler[] = []
  afterEach(() => {
    for (const scheduler of opened.splice(0)) scheduler.close()
  })

  function open(isHeld = () => false) {
    const fired: Schedule[] = []
    const watched = new Map<string, () => void>()
    const refused: Schedule[] = []
    const scheduler = new Scheduler({
      isHeld,
      fire: schedule => void fired.push(schedule),
      watch({ path }, changed) {
        watched.set(path, changed)
        return { close: () => void watched.delete(path) }
      },
      zone: ownZone,
      refused: schedule => void refused.push(schedule),
    })
    opened.push(scheduler)
    return { scheduler, fired, watched, refused }
  }

  it('are kept once if they are equal, for as long as anybody wants them', () => {
    const { scheduler } = open()
    scheduler.set('a', [timer(1), timer(2), timer(1)])
    scheduler.set('b', [timer(1)])
    assert.deepEqual(scheduler.schedules, [timer(1), timer(2)])
    scheduler.set('a', [])
    assert.deepEqual(scheduler.schedules, [timer(1)])
    scheduler.set('b', [timer(3)])
    assert.deepEqual(scheduler.schedules, [timer(3)])
  })

  it('that code adds last until a reload, and equal ones are kept once unless they have iterations', () => {
    const { scheduler } = open()
    for (let i = 0; i < 2; i++) {
      scheduler.add(timer(1))
      scheduler.add(timer(2, 3_600_000, 1))
    }
    assert.deepEqual(
      scheduler.schedules.map(schedule => 'number' in schedule && schedule.number),
      [1, 2, 2],
    )
    scheduler.reload()
    assert.deepEqual(scheduler.schedules, [])
  })

  it('neither fire nor lose iterations while it is not known who fires them', async () => {
    let isHeld = true
    const { scheduler, fired } = open(() => isHeld)
    scheduler.set('a', [timer(1, 1, 2)])
    await new Promise(resolve => setTimeout(resolve, 30)) // time in which the timer would fire
    assert.deepEqual(fired, [])
    isHeld = false
    scheduler.restart(() => true)
    await until('both iterations have fired', () => fired.length === 2)
  })

  it('that code adds are forgotten after their last iteration', async () => {
    const { scheduler, fired } = open()
    scheduler.add(timer(1, 10, 2))
    scheduler.add(timer(2))
    await until('the timer has fired twice', () => fired.length === 2)
    await until('the timer is forgotten', () => scheduler.schedules.length === 1)
  })

  it('are at most 1024, and further ones are refused', () => {
    const { scheduler, refused } = open()
    scheduler.set(
      'a',
      Array.from({ length: 1025 }, (_, i) => timer(1, i + 1_000_000)),
    )
    assert.equal(scheduler.schedules.length, 1024)
    assert.deepEqual(refused, [timer(1, 1_001_024)])
    scheduler.set('a', [])
    scheduler.add(timer(1))
    assert.equal(scheduler.schedules.length, 1)
  })

  it('watch a file for as long as anybody wants it', () => {
    const { scheduler, fired, watched } = open()
    scheduler.set('a', [monitor('/x')])
    scheduler.set('b', [monitor('/x')])
    watched.get('/x')?.()
    assert.deepEqual(fired, [monitor('/x')])
    scheduler.set('a', [])
    assert.equal(watched.size, 1)
    scheduler.set('b', [])
    assert.equal(watched.size, 0)
  })
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Alarm, AlarmConditions } from '#src/doors/exporter/alarm-conditions.js'
import { AlarmOutbox } from '#src/doors/exporter/alarm-outbox.js'
import { parseAlarm } from '#src/doors/net/alarm-target.js'
import type { DaemonSnapshot, SpoolSnapshot } from '#src/runtime/stats/snapshot.js'
import { FIXTURES } from '../helpers/workspace.js'

const sample: DaemonSnapshot = JSON.parse(readFileSync(join(FIXTURES, 'stats', 'snapshot.json'), 'utf8'))
const [spool] = sample.spools
assert.ok(spool !== undefined)

interface Change {
  readonly tasks?: Partial<SpoolSnapshot['tasks']>
  readonly totals?: Partial<SpoolSnapshot['totals']>
  readonly processes?: Partial<SpoolSnapshot['processes']>
  readonly disk?: SpoolSnapshot['disk']
}

/** Returns the snapshot of a quiet daemon with these changes. */
function at(atMs: number, { tasks, totals, processes, disk = null }: Change = {}): DaemonSnapshot {
  const changed = {
    ...spool,
    tasks: {
      ...spool?.tasks,
      due: 0,
      isWhole: true,
      unseen: 0,
      unseenSinceMs: null,
      oldestDueMs: null,
      priorities: [],
      ...tasks,
    },
    totals: { ...spool?.totals, buried: 0, setAside: 0, crashes: 0, ...totals },
    processes: { ...spool?.processes, delayed: 0, ...processes },
    disk,
  } as SpoolSnapshot
  return { ...sample, atMs, spools: [changed] }
}

const states = (alarms: readonly Alarm[]) => alarms.map(({ kind, state }) => `${kind} ${state}`)

function conditions(text: string) {
  const all = new AlarmConditions(parseAlarm(text).limits)
  return (snapshot: DaemonSnapshot, isFromStart = true) => states(all.look(snapshot, isFromStart))
}

describe('alarm conditions', () => {
  it('raise an alarm once beyond the limit, and clear it once well below', () => {
    const look = conditions('max-due=10')
    const due = [10, 11, 12, 10, 9, 11, 8, 8].map((count, i) => look(at(i, { tasks: { due: count } })))
    assert.deepEqual(due, [[], ['long raised'], [], [], [], [], ['long cleared'], []])
  })

  it('judge the age of the oldest due task, and the free space and inodes of the disk', () => {
    const look = conditions('max-age=10m,min-free=5')
    const disk = (freeBytes: number, freeInodes: number) => ({
      disk: { freeBytes, totalBytes: 1000, freeInodes, totalInodes: 1000 },
    })
    assert.deepEqual(look(at(700_000, { tasks: { oldestDueMs: 99_999 } })), ['old raised'])
    assert.deepEqual(look(at(700_001, disk(500, 49))), ['old cleared', 'disk raised'])
    assert.deepEqual(look(at(700_002)), [], 'an unknown disk changes nothing')
    assert.deepEqual(look(at(700_003, disk(62, 500))), [])
    assert.deepEqual(look(at(700_004, disk(63, 500))), ['disk cleared'])
  })

  it('count unseen tasks as due only after ten seconds: a start has yet to find which are for later', () => {
    const look = conditions('max-due=10,max-age=10m')
    const unseen = { due: 0, unseen: 500, unseenSinceMs: 1_000_000 }
    assert.deepEqual(look(at(1_000_000, { tasks: unseen })), [])
    assert.deepEqual(look(at(1_009_999, { tasks: unseen })), [])
    assert.deepEqual(look(at(1_010_000, { tasks: unseen })), ['long raised'])
    const again = { due: 0, unseen: 1, unseenSinceMs: 1_010_001 }
    assert.deepEqual(look(at(1_010_001, { tasks: again })), [], 'clears nothing while a new task is unseen')
    assert.deepEqual(look(at(1_010_002)), ['long cleared'])
    const seen = { ...again, due: 11, oldestDueMs: 1 }
    assert.deepEqual(look(at(1_010_003, { tasks: seen })), ['long raised', 'old raised'])
  })

  it('clear a crash loop only after a minute without a crash', () => {
    const look = conditions('')
    const delayed = { processes: { delayed: 1 }, totals: { crashes: 3 } }
    assert.deepEqual(look(at(1000, delayed)), ['crashing raised'])
    assert.deepEqual(look(at(30_000, { totals: { crashes: 4 } })), [])
    assert.deepEqual(look(at(89_999, { totals: { crashes: 4 } })), [])
    assert.deepEqual(look(at(90_000, { totals: { crashes: 4 } })), ['crashing cleared'])
  })

  it('count burials since the last look; at the first look, those since the start or none', () => {
    const buried = (count: number) => at(1, { totals: { buried: count, setAside: 1 } })
    const fresh = new AlarmConditions(parseAlarm('').limits)
    const counts = [2, 2, 5, 0].map(count =>
      fresh.look(buried(count), true).map(alarm => alarm.kind === 'buried' && alarm.count),
    )
    assert.deepEqual(counts, [[3], [], [3], [1]], 'a total that fell was counted from zero again')
    const late = conditions('')
    assert.deepEqual(late(buried(2), false), [])
    assert.deepEqual(late(buried(3), false), ['buried happened'])
  })

  it('go on from the memory of earlier conditions, which is plain JSON', () => {
    const before = new AlarmConditions(parseAlarm('max-due=10').limits)
    assert.equal(before.memory, null)
    before.look(at(1, { tasks: { due: 11 }, totals: { buried: 2, crashes: 1 } }), true)
    const after = (text: string) => {
      const all = new AlarmConditions(parseAlarm(text).limits, JSON.parse(JSON.stringify(before.memory)))
      return (change: Change) => states(all.look(at(2, change), false))
    }
    const known = { buried: 2, crashes: 1 }
    assert.deepEqual(after('max-due=10')({ tasks: { due: 12 }, totals: known }), [])
    assert.deepEqual(after('max-due=10')({ totals: { ...known, buried: 3 } }), [
      'buried happened',
      'long cleared',
    ])
    assert.deepEqual(after('max-due=20')({ tasks: { due: 17 }, totals: known }), [])
    assert.deepEqual(after('')({ tasks: { due: 12 }, totals: known }), ['long cleared'])
  })

  it('clear the alarms of a spool that is gone', () => {
    const look = conditions('max-due=0')
    assert.deepEqual(look(at(1, { tasks: { due: 1 } })), ['long raised'])
    assert.deepEqual(look({ ...at(2), spools: [] }), ['long cleared'])
    assert.deepEqual(look({ ...at(3), spools: [] }), [])
  })
})

describe('the outbox of a webhook', () => {
  it('adds up counts, keeps the newest state, and says how many states were replaced', () => {
    const outbox = new AlarmOutbox()
    const buried = (count: number): Alarm => ({
      kind: 'buried',
      state: 'happened',
      spool: '/s',
      count,
      atMs: 1,
    })
    const long = (state: 'raised' | 'cleared'): Alarm => ({
      kind: 'long',
      state,
      spool: '/s',
      figures: '',
      atMs: 1,
    })
    outbox.add(buried(2))
    outbox.add(long('raised'))
    const taken = outbox.take()
    assert.equal(outbox.isEmpty, true)
    outbox.add(buried(3))
    outbox.add(long('cleared'))
    outbox.giveBack(taken)
    assert.deepEqual(outbox.take(), { alarms: [buried(5), long('cleared')], replaced: 1 })
    assert.equal(outbox.take().replaced, 0)
  })
})

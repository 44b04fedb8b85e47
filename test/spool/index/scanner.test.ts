import assert from 'node:assert/strict'
import fs, { appendFileSync, chmodSync, mkdirSync, renameSync, rmSync, utimesSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Emitter } from '#src/base/events/emitter.js'
import { Scanner } from '#src/engines/spool/index/scanner.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import { Watches } from '#src/engines/spool/index/watches.js'
import { takeStampSync } from '#src/system/files/stamps.js'
import { drop } from '../../helpers/files.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

function scannerOf(spool: string, frequencyMs = 1_000_000) {
  const index = new TaskIndex({ order: 'name', frequencyMs })
  const found: string[] = []
  const options = { spool, rules: { ordered: true, strictNames: false }, frequencyMs, watch: 'auto' as const }
  const scanner = new Scanner(options, index, new Emitter(), () => found.push(...index.take(1000)))
  return { scanner, index, found }
}

const timers = () => process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length

describe('a scanner', () => {
  it('starts no timer for what workers report after it was closed', async () => {
    const spool = spoolDirectory()
    drop(spool, 'later')
    const { scanner, index, found } = scannerOf(spool)
    await scanner.start()
    assert.deepEqual(found, ['later'])
    scanner.close()
    const before = timers()
    index.returned({ ref: 'later', kind: 'later', ranMs: 0, atMs: Date.now() + 86_400_000 }, Date.now())
    scanner.tasksEnded(1, false)
    scanner.scanNow()
    assert.equal(timers(), before)
  })

  it('orders tasks by arrival, whether events or scans find them, and free names by first sight', async () => {
    const spool = spoolDirectory()
    const index = new TaskIndex({ order: 'arrival', frequencyMs: 1_000_000 })
    const rules = { ordered: false, strictNames: false }
    const options = { spool, rules, frequencyMs: 1_000_000, watch: 'auto' as const }
    const [first, second, third] = [1, 2, 3].map(n => `uwsgi_spoolfile_on_host_${9 - n}_1_5_1700000000_${n}`)
    drop(spool, third)
    const scanner = new Scanner(options, index, new Emitter(), () => {})
    await scanner.start()
    for (const name of ['zebra', second, 'ant', first]) drop(spool, name)
    await until('all are known', () => index.ready === 5)
    assert.deepEqual(index.take(9), [first, second, third, 'zebra', 'ant'])
    scanner.close()
  })

  it('has a worker look at a task that waits for a slot when its file is removed or replaced', async () => {
    const spool = spoolDirectory()
    for (const name of ['removed', 'replaced']) drop(spool, name)
    const { scanner, index, found } = scannerOf(spool)
    await scanner.start()
    const slots = { name: 'few', count: 1 }
    for (const ref of found.splice(0))
      index.returned({ ref, kind: 'parked', ranMs: 0, reason: 'slot', slots }, Date.now())
    assert.equal(index.parkedFor('slot'), 2)
    rmSync(join(spool, 'removed'))
    drop(spool, 'replaced')
    await until('neither task waits', () => index.parkedFor('slot') === 0)
    assert.deepEqual(found.sort(), ['removed', 'replaced'])
    scanner.close()
  })

  it('gives only those later tasks that changed without an event, and all of them after a step of the clock', async t => {
    const spool = spoolDirectory()
    const COUNT = 200
    for (let i = 0; i < COUNT; i++) drop(spool, `t${i}`)
    const index = new TaskIndex({ order: 'name', frequencyMs: 50 })
    const rules = { ordered: false, strictNames: false }
    let given: string[] = []
    const scanner = new Scanner({ spool, rules, frequencyMs: 50, watch: 'off' }, index, new Emitter(), () => {
      for (const ref of index.take(COUNT)) {
        given.push(ref)
        index.returned({ ref, kind: 'later', ranMs: 0, atMs: Date.now() + 86_400_000 }, Date.now())
      }
    })
    /** Returns what two looks in a row give. */
    const looked = async () => {
      given = []
      const before = looks
      await until('the scanner has looked twice', () => looks >= before + 2, 20_000)
      return given
    }
    let looks = 0
    t.mock.method(index, 'beginScan', (...args: Parameters<TaskIndex['beginScan']>) => {
      const [isForAll, , hasChanged] = args
      if (isForAll || hasChanged !== undefined) looks++
      TaskIndex.prototype.beginScan.apply(index, args)
    })
    await scanner.start()
    await until('no file is new any more', async () => (await looked()).length === 0, 20_000)
    const soon = new Date(Date.now() + 1)
    utimesSync(join(spool, 't7'), soon, soon)
    assert.deepEqual([...new Set(await looked())], ['t7'])
    await until('no file is new any more', async () => (await looked()).length === 0, 20_000)
    rmSync(join(spool, 't7'))
    await until('the removed task is no longer counted', () => index.waiting === COUNT - 1, 20_000)
    await until('no file is new any more', async () => (await looked()).length === 0, 20_000)
    const now = Date.now.bind(Date)
    t.mock.method(Date, 'now', () => now() - 3_600_000)
    assert.equal(new Set(await looked()).size, COUNT - 1)
    scanner.close()
  })

  it('does not treat the name of the spool as a task when the mode of the spool changes', async () => {
    const spool = spoolDirectory()
    const { scanner, found } = scannerOf(spool)
    await scanner.start()
    for (const mode of [0o700, 0o750]) chmodSync(spool, mode)
    drop(spool, 'task')
    await until('the events are heard', () => found.includes('task'))
    assert.deepEqual(found, ['task'])
    scanner.close()
  })

  it('finds a task that has the name of the spool', async () => {
    const spool = spoolDirectory()
    const { scanner, found } = scannerOf(spool)
    await scanner.start()
    drop(spool, 'spool')
    await until('the task is found', () => found.includes('spool'))
    scanner.close()
  })

  it('does not list again because of many events that come little by little', async () => {
    const spool = spoolDirectory()
    const { scanner, index } = scannerOf(spool)
    await scanner.start()
    const before = scanner.stats.looks
    for (let known = 0; known < 10_000; known = index.busy) {
      for (let i = 0; i < 500; i++) drop(spool, `t${known + i}`, '')
      await until('the dropped tasks are known', () => index.busy === known + 500)
    }
    for (let i = 0; i < 10; i++) await setTimeout(10)
    assert.equal(scanner.stats.looks, before)
    scanner.close()
  })

  it('that put off a listing because the last one took long lists once the tasks are done', async t => {
    const spool = spoolDirectory()
    for (let i = 0; i < 1000; i++) drop(spool, `t${i}`, '')
    const { scanner, index, found } = scannerOf(spool)
    let slowMs = 0
    const now = performance.now.bind(performance)
    t.mock.method(performance, 'now', () => now() + slowMs)
    t.mock.method(index, 'endScan', (...args: Parameters<TaskIndex['endScan']>) => {
      slowMs = 60_000
      return TaskIndex.prototype.endScan.apply(index, args)
    })
    await scanner.start()
    assert.equal(scanner.stats.lastMs >= 60_000, true)
    mkdirSync(join(spool, '5'))
    await until('the new priority is heard of', () => scanner.stats.watched === 2)
    assert.equal(scanner.stats.looks, 1)
    index.done(found)
    scanner.tasksEnded(found.length, false)
    await until('the scanner has listed again', () => scanner.stats.looks === 2, 10_000)
    scanner.close()
  })

  it('that began with a long backlog misses no task from before its late watch, and hears of those after it', async () => {
    const spool = spoolDirectory()
    const BACKLOG = 5500 // more than a watch is opened for at once
    for (let i = 0; i < BACKLOG; i++) drop(spool, `t${i}`, '')
    const index = new TaskIndex({ order: 'name', frequencyMs: 1_000_000 })
    const rules = { ordered: false, strictNames: false }
    const options = { spool, rules, frequencyMs: 1_000_000, watch: 'auto' as const }
    const scanner = new Scanner(options, index, new Emitter(), () => {})
    await scanner.start()
    assert.equal(index.ready, BACKLOG)
    drop(spool, 'unwatched', '')
    const run = () => {
      const refs = index.take(1000)
      for (const ref of refs) rmSync(join(spool, ref), { force: true }) // a listing may have met it before
      index.done(refs)
      scanner.tasksEnded(refs.length, false)
      return refs
    }
    try {
      const ran = new Set<string>()
      await until('all have run', () => {
        for (const ref of run()) ran.add(ref)
        return ran.size === BACKLOG + 1
      })
      assert.ok(ran.has('unwatched'))
      for (const name of ['watched', 'watched-too']) {
        drop(spool, name, '')
        await until(`${name} is heard of`, () => run().includes(name))
      }
    } finally {
      scanner.close()
    }
  })

  it('looks again at a malformed file that was written to during a long backlog, once it hears events again', async () => {
    const spool = spoolDirectory()
    const BACKLOG = 5500 // more than a watch is opened for at once
    for (let i = 0; i < BACKLOG; i++) drop(spool, `t${i}`, '')
    drop(spool, 'a', '')
    const index = new TaskIndex({ order: 'name', frequencyMs: 1_000_000 })
    const rules = { ordered: false, strictNames: false }
    const options = { spool, rules, frequencyMs: 1_000_000, watch: 'auto' as const }
    const scanner = new Scanner(options, index, new Emitter(), () => {})
    await scanner.start()
    try {
      assert.deepEqual(index.take(1), ['a'])
      index.returned({ ref: 'a', kind: 'malformed', ranMs: 0 }, Date.now())
      appendFileSync(join(spool, 'a'), 'more')
      await until('the malformed file is looked at again', () => {
        const refs = index.take(1000)
        for (const ref of refs) if (ref !== 'a') rmSync(join(spool, ref), { force: true })
        index.done(refs)
        scanner.tasksEnded(refs.length, false)
        return refs.includes('a')
      })
    } finally {
      scanner.close()
    }
  })

  it('finds tasks in every priority, even if there are more than it can watch', async () => {
    const spool = spoolDirectory()
    for (let i = 1; i <= 1200; i++) mkdirSync(join(spool, String(i)))
    const { scanner, found } = scannerOf(spool, 500)
    await scanner.start()
    for (const priority of [1, 600, 1200]) drop(spool, `${priority}/t`)
    await until('all are found', () => found.length >= 3)
    assert.deepEqual(found.sort(), ['1/t', '1200/t', '600/t'])
    scanner.close()
  })

  it('treats a priority that is removed and made again at once as a new one', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '7'))
    const { scanner, found } = scannerOf(spool)
    await scanner.start()
    for (let i = 0; i < 20; i++) {
      rmSync(join(spool, '7'), { recursive: true })
      mkdirSync(join(spool, '7'))
      drop(spool, `7/t${i}`)
      await until(`t${i} is found`, () => found.includes(`7/t${i}`))
    }
    scanner.close()
  })
})

describe('watches', () => {
  it('stay open on directories with few entries while a backlog is worked off', async () => {
    const spool = spoolDirectory()
    for (const priority of ['1', '5']) mkdirSync(join(spool, priority))
    const heard: string[] = []
    const rules = { ordered: true, strictNames: false }
    const watches = new Watches({ spool, rules, frequencyMs: 1000 }, new Emitter(), {
      changed: ref => heard.push(ref),
      unclear() {},
    })
    const listed = (prefix: string, entries: number) =>
      [prefix, { stamp: takeStampSync(join(spool, prefix)), entries }] as const
    const listing = new Map([listed('', 20), listed('1/', 3), listed('5/', 100_000)])
    watches.followOnly(listing, false)
    watches.followOnly(listing, true)
    drop(spool, '5/of-many')
    drop(spool, '1/urgent')
    drop(spool, 'beside')
    await until('both tasks are heard of', () => heard.includes('1/urgent') && heard.includes('beside'))
    watches.followOnly(listing, false)
    drop(spool, '5/of-many-more')
    await until('the others are heard of again', () => heard.includes('5/of-many-more'))
    assert.ok(!heard.includes('5/of-many'))
    watches.close()
  })

  it('are opened for a directory whose watch was refused, even if it was moved away and back meanwhile', async t => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const refusal = t.mock.method(fs, 'watch', () => {
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    })
    syncBuiltinESMExports()
    const heard: string[] = []
    const options = { spool, rules: { ordered: true, strictNames: false }, frequencyMs: 1000, refusedMs: 50 }
    const watches = new Watches(options, new Emitter(), { changed: ref => heard.push(ref), unclear() {} })
    const stamp = takeStampSync(join(spool, '5'))
    watches.followOnly(new Map([['5/', { stamp, entries: 3 }]]), false)
    assert.deepEqual(watches.counts, { watched: 0, refused: 1 })
    refusal.mock.restore()
    syncBuiltinESMExports()
    renameSync(join(spool, '5'), join(spool, 'away'))
    await setTimeout(200)
    renameSync(join(spool, 'away'), join(spool, '5'))
    watches.followOnly(new Map([['5/', { stamp, entries: 3 }]]), false)
    assert.deepEqual(watches.counts, { watched: 1, refused: 0 })
    drop(spool, '5/urgent')
    await until('the new task is heard of', () => heard.includes('5/urgent'))
    watches.close()
  })
})

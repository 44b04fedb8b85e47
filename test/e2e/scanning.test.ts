import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NAMED = `export default (env, task) => { JOURNAL(task.path.slice(task.spooler.length + 1)); return task.SPOOL_OK }`
const SLOW = `export default (env, task) => {
  JOURNAL(task.path.slice(task.spooler.length + 1))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  return task.SPOOL_OK
}`

const LATER = packet({ a: 'b' })

/** Enqueues the staged tasks: the urgent one last, into a priority that is made for it. */
const FIRST = `
import { mkdirSync, readdirSync, renameSync } from 'node:fs'
export default (env, task) => {
  JOURNAL(task.path.slice(task.spooler.length + 1))
  for (const name of env.staged === undefined ? [] : readdirSync(env.staged)) {
    const below = name === 'urgent' ? '1/' : ''
    if (below) mkdirSync(task.spooler + '/' + below)
    renameSync(env.staged + '/' + name, task.spooler + '/' + below + name)
  }
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3) // so that nothing is given ahead
  return task.SPOOL_OK
}`

describe('the order with spooler-ordered', () => {
  it("is uWSGI's for odd names and for nested and plain priorities", async () => {
    const spool = spoolDirectory()
    const directories = ['1', '2', '10', '01', '001', '010', '0', '00', '9', '100', '3', '3/4', '3/12']
    for (const directory of directories) mkdirSync(join(spool, directory), { recursive: true })
    for (const file of [
      ...directories.slice(0, 10).map(each => `${each}/t`),
      '5',
      '05',
      '50',
      '20',
      '3/4/t',
      '3/7',
      '3/12/t',
      '3/uwsgi_spoolfile_on_b',
      'uwsgi_spoolfile_on_H_1',
      'uwsgi_spoolfile_on_h_10',
      'uwsgi_spoolfile_on_h_9',
    ])
      drop(spool, file)
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { 'spooler-ordered': true } })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), [
      ...[
        '001/t',
        '00/t',
        '01/t',
        '010/t',
        '05',
        '0/t',
        '1/t',
        '2/t',
        '3/4/t',
        '3/7',
        '3/12/t',
        '3/uwsgi_spoolfile_on_b',
        '5',
        '9/t',
        '10/t',
        '20',
        '50',
        '100/t',
      ],
      ...['uwsgi_spoolfile_on_H_1', 'uwsgi_spoolfile_on_h_9', 'uwsgi_spoolfile_on_h_10'],
    ])
  })

  it('puts an urgent task that is dropped into a backlog of 20,000 among the next ones', async () => {
    const spool = spoolDirectory()
    for (const directory of ['1', '5']) mkdirSync(join(spool, directory))
    const bytes = packet({ a: 'b' })
    for (let i = 0; i < 20_000; i++) writeFileSync(join(spool, '5', `uwsgi_spoolfile_on_${i}`), bytes)
    const daemon = await startDaemon({
      spool,
      handler: SLOW,
      ini: { 'spooler-ordered': true, 'spooler-processes': 2, 'spooler-quiet': true },
    })
    await until('some tasks have run', () => daemon.journal().length > 200)
    drop(spool, '1/urgent')
    const before = daemon.journal().length
    await until('the urgent task has run', () => daemon.journal().includes('1/urgent'))
    const place = daemon.journal().indexOf('1/urgent')
    // At 2 tasks a millisecond, tasks run first that the workers had already, and those of the time until the news arrived.
    assert.ok(place - before < 1000, `${place - before} others ran first`)
    daemon.child.kill('SIGQUIT')
    assert.equal(await daemon.code(), 0)
  })
})

describe('a new task', { concurrency: 3 }, () => {
  it('overtakes the tasks that came with it if it is the first of a new priority', async () => {
    const spool = spoolDirectory()
    const staged = join(dirname(spool), 'staged')
    mkdirSync(staged)
    const names = [...Array.from({ length: 10 }, (_, i) => `ordinary${i}`), 'urgent']
    for (const name of names) writeFileSync(join(staged, name), packet({}))
    const tomorrow = Date.now() / 1000 + 86_400
    for (let i = 0; i < 3000; i++) drop(spool, `later${i}`, packet({}), tomorrow) // so that a scan takes its time
    drop(spool, 'now', packet({}))
    const daemon = await startDaemon({ spool, handler: FIRST, ini: { 'spooler-ordered': true } })
    await until('the backlog was looked through', () => daemon.journal().includes('now'))
    drop(spool, 'first', packet({ staged }))
    await until('all tasks have run', () => daemon.journal().length === 13)
    assert.deepEqual(daemon.journal().slice(1, 3), ['first', '1/urgent'])
  })

  it('is found once when 1,000 are renamed in one by one', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-quiet': true, 'spooler-frequency': 1000 },
    })
    for (let i = 0; i < 1000; i++) {
      drop(spool, `task-${i}`)
      if (i % 50 === 0) await until('the task has run', () => daemon.journal().includes(`task-${i}`))
    }
    await until('all tasks have run', () => daemon.journal().length >= 1000 && leftIn(spool).length === 0)
    assert.equal(new Set(daemon.journal()).size, 1000)
    assert.equal(daemon.journal().length, 1000)
  })

  it('is found in a burst beside 20,000 tasks for later without a scan, and none of those begins', async () => {
    const spool = spoolDirectory()
    const tomorrow = Date.now() / 1000 + 86_400
    const later = Array.from({ length: 20_000 }, (_, i) => join(spool, `later-${i}`))
    for (const path of later) {
      writeFileSync(path, LATER)
      utimesSync(path, tomorrow, tomorrow)
    }
    drop(spool, 'now')
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-quiet': true, 'spooler-frequency': 1000 },
    })
    await until('all tasks were looked through', async () => {
      const { tasks } = await spoolSnapshotOf(spool)
      return tasks.later === later.length && tasks.due === 0
    })
    for (let burst = 0; burst < 3; burst++) {
      for (let i = 0; i < 200; i++) drop(spool, `burst-${burst}-${i}`)
      const run = 1 + 200 * (burst + 1)
      await until('the whole burst has run', () => daemon.journal().length === run, 5000)
    }
    assert.equal(new Set(daemon.journal()).size, 601)
    assert.deepEqual(
      later.filter(path => !readFileSync(path).equals(LATER)),
      [],
    )
  })

  it('is never run half when it is written in place without a lock, byte by byte', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL(env.a + task.body); return task.SPOOL_OK }`,
      ini: { 'spooler-frequency': 1000 },
    })
    const bytes = packet({ a: 'b' })
    const path = join(spool, 'uwsgi_spoolfile_on_slow')
    for (let end = 0; end < bytes.length; end++) {
      writeFileSync(path, bytes.subarray(0, end))
      await new Promise(resolve => setImmediate(resolve))
    }
    writeFileSync(path, packet({ a: 'b' }, 'body'))
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.match(daemon.journal().join(), /^(bundefined|bbody)$/) // the packet is whole as far as its header can tell, so the body may be missing
  })

  it('is found within one frequency with spooler-watch = off', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-watch': 'off', 'spooler-frequency': 1 },
    })
    for (let i = 0; i < 3; i++) {
      drop(spool, `t${i}`)
      await until('the task has run', () => daemon.journal().includes(`t${i}`), 5000)
    }
  })

  it('is found at SIGUSR1 where nothing else would find it', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, ini: { 'spooler-watch': 'off', 'spooler-frequency': 3600 } })
    drop(spool, 'a')
    daemon.child.kill('SIGUSR1')
    await until('the task has run', () => daemon.journal().length > 0)
    assert.doesNotMatch(daemon.output, /Debugger listening/)
  })

  it('is found by polling with spooler-watch = poll', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-watch': 'poll', 'spooler-frequency': 1000 },
    })
    drop(spool, 'polled')
    await until('the task has run', () => daemon.journal().includes('polled'))
  })

  it('is found when it comes due, and when its mtime is changed', async () => {
    const spool = spoolDirectory()
    const now = Math.floor(Date.now() / 1000)
    const due = drop(spool, 'due', packet({ a: 'b' }), now + 2)
    const touched = drop(spool, 'touched', packet({ a: 'b' }), now + 5000)
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { 'spooler-frequency': 1000 } })
    await until('the due task has run', () => daemon.journal().includes('due'))
    assert.ok(Date.now() >= (now + 2) * 1000, `${due} ran before it was due`)
    assert.deepEqual(daemon.journal(), ['due'])
    utimesSync(touched, now, now)
    await until('the touched task has run', () => daemon.journal().includes('touched'))
  })

  it('is found by a look every frequency when its mtime is changed without an event', async () => {
    const spool = spoolDirectory()
    const now = Math.floor(Date.now() / 1000)
    const touched = drop(spool, 'touched', packet({ a: 'b' }), now + 5000)
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-watch': 'off', 'spooler-frequency': 1 },
    })
    utimesSync(touched, now, now)
    await until('the task has run', () => daemon.journal().includes('touched'))
  })

  it('is found in a priority that is made, removed and made again', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-ordered': true, 'spooler-frequency': 1000 },
    })
    for (let i = 0; i < 3; i++) {
      mkdirSync(join(spool, '7', '2'), { recursive: true })
      drop(spool, `7/2/t${i}`)
      await until('the task in 7/2/ has run', () => daemon.journal().includes(`7/2/t${i}`))
      drop(spool, `7/u${i}`)
      await until('the task in 7/ has run', () => daemon.journal().includes(`7/u${i}`))
      rmSync(join(spool, '7'), { recursive: true })
    }
  })

  it('is found in a spool that was removed or replaced and came back', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { 'spooler-frequency': 2 } })
    rmSync(spool, { recursive: true })
    await daemon.waitFor('the directory cannot be listed, waiting for it')
    mkdirSync(spool)
    await daemon.waitFor('the directory is back')
    drop(spool, 'back')
    await until('the task has run', () => daemon.journal().includes('back'))
    renameSync(spool, `${spool}.old`)
    mkdirSync(spool)
    drop(spool, 'replaced')
    await until('the task has run in the directory that replaced the first', () =>
      daemon.journal().includes('replaced'),
    )
  })

  it('is found after a reload, as the log says, in a spool that was moved and has a link in its place', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { 'spooler-frequency': 1 } })
    renameSync(spool, `${spool}.moved`)
    await daemon.waitFor('the directory cannot be listed, waiting for it: ENOENT')
    symlinkSync(`${spool}.moved`, spool)
    drop(spool, 'moved')
    await daemon.waitFor(
      /the directory cannot be listed.*; it is a symbolic link now, which a reload follows/,
    )
    daemon.child.kill('SIGHUP')
    await until('the task has run', () => daemon.journal().includes('moved'))
  })

  it('is found in several spools, each with its own processes', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    drop(other, 'in-other')
    drop(spool, 'in-first')
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { spooler: [spool, other, spool] } })
    await until('both tasks have run', () => daemon.journal().length === 2)
    assert.equal(daemon.workers().length, 3) // the first spool was named twice
  })
})

describe('a file that is no task', { concurrency: 3 }, () => {
  it('is left alone if it is a dot-file or has a reserved suffix, and reported once if it is no packet', async () => {
    const spool = spoolDirectory()
    for (const name of ['.hidden', 'a.tmp', 'b.part', 'c.lock', 'd~']) drop(spool, name)
    drop(spool, 'README', 'this is no packet')
    const ini = { 'spooler-frequency': 1, 'spooler-watch': 'off' }
    const daemon = await startDaemon({ spool, handler: NAMED, ini })
    await daemon.waitFor('README is left alone: modifier1 is 116, expected 17')
    for (const name of ['one', 'two', 'three']) {
      drop(spool, name) // without events each needs a scan of its own
      await until('the task has run', () => daemon.journal().includes(name) && !leftIn(spool).includes(name))
    }
    assert.deepEqual(leftIn(spool), ['.hidden', 'README', 'a.tmp', 'b.part', 'c.lock', 'd~'])
    assert.equal(daemon.output.split('README is left alone').length, 2)
  })

  it('is counted as unreadable, in any number, and waits only for a change', async () => {
    const COUNT = 10_100
    const spool = spoolDirectory()
    for (let i = 0; i < COUNT; i++) writeFileSync(join(spool, `note-${i}`), 'buy milk')
    const ini = { 'spooler-watch': 'off', 'spooler-frequency': 1 }
    const daemon = await startDaemon({ spool, ini })
    const tasks = async () => (await spoolSnapshotOf(spool)).tasks
    await until('all files are counted', async () => (await tasks()).unreadable === COUNT)
    await until('no file comes due by itself', async () => (await tasks()).nextDueMs === null)
    writeFileSync(join(spool, 'note-7'), packet({ now: 'a task' })) // no event tells of this
    await until('the changed file has run', async () => (await tasks()).stored === COUNT - 1)
    assert.deepEqual([daemon.journal(), (await tasks()).later], [['note-7'], 0])
  })

  it('runs after it was replaced by a packet', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, 'fixable', 'rubbish')
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { 'spooler-frequency': 1000 } })
    await daemon.waitFor('fixable is left alone')
    writeFileSync(path, packet({ a: 'b' }))
    await until('the task has run', () => daemon.journal().includes('fixable'))
  })

  it('is reported if it lies in a priority directory and the spool is not ordered', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(spool, '5/t')
    const daemon = await startDaemon({ spool, handler: NAMED })
    await daemon.waitFor('tasks in 5/ are not run: priorities need spooler-ordered = true')
    assert.deepEqual(leftIn(spool), ['5/t'])
  })

  it('is reported if it is named like a task in a directory that is no priority, and ignored there otherwise', async () => {
    const spool = spoolDirectory()
    for (const name of ['urgent', 'theirs']) mkdirSync(join(spool, name))
    drop(spool, 'theirs/note')
    drop(spool, 'urgent/uwsgi_spoolfile_on_a')
    const daemon = await startDaemon({ spool, handler: NAMED })
    await daemon.waitFor('tasks in urgent/ are never run: the name of a priority is a number')
    drop(spool, 'next')
    await until('another scan has been made', () => leftIn(spool).length === 2)
    assert.equal(daemon.output.match(/are never run/g)?.length, 1, daemon.output)
    assert.deepEqual(daemon.journal(), ['next'])
  })

  it('with spooler-strict-names is any file that uWSGI would not run', async () => {
    const spool = spoolDirectory()
    for (const name of ['ztask', '12', 'uwsgi_spoolfile_on_a']) drop(spool, name)
    const daemon = await startDaemon({ spool, handler: NAMED, ini: { 'spooler-strict-names': true } })
    await until('one task has run', () => daemon.journal().length === 1)
    daemon.child.kill('SIGTERM')
    await daemon.code()
    assert.deepEqual([daemon.journal(), leftIn(spool)], [['uwsgi_spoolfile_on_a'], ['12', 'ztask']])
  })
})

describe('a task that is removed while it waits to run again', () => {
  it('is no longer counted, before any listing', async () => {
    const spool = spoolDirectory()
    const retried = drop(spool, 'retried')
    await startDaemon({
      ...{ spool, handler: "export default () => ({ retry: '1h' })" },
      ini: { 'spooler-frequency': 600 }, // no listing finds out
    })
    const waiting = async () => (await spoolSnapshotOf(spool)).tasks.waiting
    await until('the task waits', async () => (await waiting()) === 1)
    rmSync(retried)
    await until('the task is forgotten', async () => (await waiting()) === 0)
  })
})

import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { quietly } from '#src/base/errors.js'
import { Emitter } from '#src/base/events/emitter.js'
import type { Report } from '#src/base/task/report.js'
import { Drain } from '#src/doors/daemon/drain.js'
import { inProcess } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `
export default async (env, task) => {
  if (env.say === 'retry') return task.SPOOL_RETRY
  if (env.say === 'ignore') return task.SPOOL_IGNORE
  if (env.say === 'throw') throw new Error('no')
  if (env.say === 'exit') process.exit(9)
  if (env.say === 'exit once' && task.attempt === 1) process.exit(9)
  if (env.say === 'bury') return { bury: 'asked' }
  if (env.say === 'block once' && task.attempt === 1) for (;;);
  if (env.say === 'soon' && task.attempt === 1) return { retry: 0 }
  if (env.say === 'wait') await new Promise(resolve => process.once('SIGUSR2', resolve))
  return task.SPOOL_OK
}`

const NONE = { ready: 0, busy: 0, waiting: 0 }
const DRAIN = { handler: HANDLER, isUnready: true } as const

/** Drains a spool that has one task for each of `says`, which its handler obeys. */
async function drained(says: readonly string[], ini: Record<string, string | number> = {}) {
  const spool = spoolDirectory()
  for (const say of says) drop(spool, undefined, packet({ say }))
  const daemon = await startDaemon({ spool, ini: { drain: true, ...ini }, ...DRAIN })
  const code = await daemon.code()
  const begun = daemon.output.match(/managing request/g)?.length ?? 0
  return { code, line: /drained: .*/.exec(daemon.output)?.[0], begun }
}

/** Returns how a drain ends that got one report of each of these kinds for the same ref. */
async function endOf(kinds: ReadonlyArray<Report['kind']>) {
  const events = new Emitter()
  const drain = new Drain(events, true)
  let unfinished: Readonly<Record<string, number>> = {}
  events.on('daemon-drained', ended => (unfinished = ended.unfinished))
  const reports = kinds.map(kind => ({ ref: 'a', kind, ranMs: 0 }))
  for (const report of reports)
    events.emit('tasks-reported', { spool: '/s', pid: 1, done: [], reports: [report], known: new Set() })
  await drain.run(
    { whenDrained: async () => {}, isStopping: false, paused: 0, unknown: 0, counts: NONE },
    () => true,
  )
  return { code: drain.exitCode, buried: unfinished.buried, error: unfinished.error }
}

describe('--drain', { concurrency: 3 }, () => {
  it('ends when all tasks of all its spools are done, and leaves held tasks', async () => {
    const [one, two] = [spoolDirectory(), spoolDirectory()]
    for (let i = 0; i < 300; i++) drop(one, undefined, packet({ say: '' }))
    drop(two, undefined, packet({ say: 'soon' }))
    await inProcess(['hold', drop(two, 'held', packet({ say: '' }))])
    const daemon = await startDaemon({ spool: one, ini: { drain: true, spooler: [one, two] }, ...DRAIN })
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /drained: 301 done/)
    assert.deepEqual([leftIn(one), leftIn(two)], [[], ['held']])
  })

  it('counts a buried task as buried even if a later report says that it is gone', async () => {
    assert.deepEqual(await endOf(['buried', 'gone']), { code: 3, buried: 1, error: 0 })
    assert.deepEqual(await endOf(['set-aside', 'gone']), { code: 3, buried: 1, error: 0 })
    assert.deepEqual(
      await endOf(['error', 'gone']),
      { code: 0, buried: 0, error: 0 },
      'another daemon ran the task',
    )
    const { code, line } = await drained(Array.from({ length: 50 }, () => 'bury'))
    assert.deepEqual({ code, line }, { code: 3, line: 'drained: 0 done, 50 buried' })
  })

  it('does not count an incomplete file that turns out to be no task', async () => {
    assert.deepEqual(await endOf(['incomplete', 'malformed']), { code: 0, buried: 0, error: 0 })
  })

  it('counts a task that is reported by its name alone as done, even after a failure', async () => {
    const events = new Emitter()
    const drain = new Drain(events, true)
    const common = { spool: '/s', pid: 1, known: new Set<string>() }
    const failed = { ref: 'a', kind: 'error', ranMs: 0 } as const
    events.emit('tasks-reported', { ...common, done: ['b'], reports: [failed] })
    events.emit('tasks-reported', { ...common, done: ['a'], reports: [] })
    let done = 0
    events.on('daemon-drained', ended => (done = ended.done))
    await drain.run(
      { whenDrained: async () => {}, isStopping: false, paused: 0, unknown: 0, counts: NONE },
      () => true,
    )
    assert.deepEqual([drain.exitCode, done], [0, 2])
  })

  it('exits with 0 and prints the count when every due task is done', async () => {
    assert.deepEqual(await drained(['', '', '']), { code: 0, line: 'drained: 3 done', begun: 3 })
    assert.deepEqual(await drained([]), { code: 0, line: 'drained: 0 done', begun: 0 })
  })

  it('loads the handlers and exits with 1 if one is broken, even when nothing is due', async () => {
    const daemon = await startDaemon({
      spool: spoolDirectory(),
      handler: 'throw new Error("broken")',
      ini: { drain: true },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /\[HANDLER_UNLOADABLE\].*broken/)
  })

  for (const watch of ['auto', 'poll', 'off'])
    it(`runs a task that its last task stored without telling the daemon, with spooler-watch = ${watch}`, async () => {
      const spool = spoolDirectory()
      drop(spool, '3', packet({}))
      const daemon = await startDaemon({
        spool,
        ini: { drain: true, 'spooler-watch': watch },
        handler: `
import { copyFileSync, renameSync } from 'node:fs'
export default (env, task) => {
  const left = Number(task.path.split('/').at(-1))
  if (left === 0) return task.SPOOL_OK
  copyFileSync(task.path, '../new') // not by a call that tells the daemon
  renameSync('../new', String(left - 1))
  return task.SPOOL_OK
}`,
        isUnready: true,
      })
      assert.equal(await daemon.code(), 0)
      assert.deepEqual(leftIn(spool), [])
    })

  it('exits with 0 without waiting for a task that is not yet due', async () => {
    const spool = spoolDirectory()
    drop(spool, undefined, packet({ at: '9999999999' }))
    const daemon = await startDaemon({ spool, ini: { drain: true }, ...DRAIN })
    assert.equal(await daemon.code(), 0)
  })

  for (const [say, ending] of [
    ['retry', '1 to be retried'],
    ['throw', '1 failed'],
    ['bury', '1 buried'],
    ['ignore', '1 ignored by all handlers'],
  ] as const)
    it(`exits with 3 when a task ends with ${JSON.stringify(say)}`, async () => {
      const { code, line } = await drained(['', say])
      assert.deepEqual({ code, line }, { code: 3, line: `drained: 1 done, ${ending}` })
    })

  it('exits with 3 when a task kills its process, whether the task is then buried or waits', async () => {
    const { code, line } = await drained(['', 'exit'], { 'spooler-max-crashes': 1 })
    assert.deepEqual({ code, line }, { code: 3, line: 'drained: 1 done, 1 buried' })
    const second = await drained(['', 'exit'], { 'spooler-max-crashes': 0 })
    assert.equal(second.code, 3)
    assert.match(second.line ?? '', /^drained: 1 done, 1 crashed$/)
  })

  it('exits with 3 when a priority directory cannot be listed', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    for (const path of [dirname(spool), spool]) chmodSync(path, 0o777)
    mkdirSync(join(spool, '1'), { mode: 0 })
    const ini = { drain: true, 'spooler-ordered': true, uid: 65534, gid: 65534 }
    const daemon = await startDaemon({ spool, ini, ...DRAIN })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /drained: 0 done, 1 could not be read/)
  })

  it('exits with 0 when a priority can be listed again in time', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    for (const path of [dirname(spool), spool]) chmodSync(path, 0o777)
    mkdirSync(join(spool, '1'), { mode: 0 })
    chmodSync(drop(spool, undefined, packet({ say: 'wait' })), 0o666)
    const ini = { drain: true, 'spooler-ordered': true, 'spooler-frequency': 1, uid: 65534, gid: 65534 }
    const daemon = await startDaemon({ spool, ini, ...DRAIN })
    await daemon.waitFor('1/ cannot be listed')
    await daemon.waitFor('managing request')
    chmodSync(join(spool, '1'), 0o755)
    await daemon.waitFor('1/ is listed again')
    for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /drained: 1 done$/m)
  })

  for (const [what, bytes, ending] of [
    ['is still incomplete', packet({ say: '' }).subarray(0, -1), '1 incomplete'],
    ['is no packet, and is to be buried', Buffer.alloc(4, 'x'), '1 could not be read'],
  ] as const)
    it(`exits with 3 when a task ${what}`, async () => {
      const spool = spoolDirectory()
      drop(spool, undefined, packet({ say: '' }))
      drop(spool, undefined, bytes)
      drop(spool, 'README', Buffer.from('this is no task'))
      const daemon = await startDaemon({ spool, ini: { drain: true }, ...DRAIN })
      assert.equal(await daemon.code(), 3)
      assert.match(daemon.output, new RegExp(`drained: 1 done, ${ending}\n`))
    })

  it('exits with 0 when only a file that is no task is left, and with 3 when a malformed task cannot be buried', async () => {
    const spool = spoolDirectory()
    drop(spool, 'README', 'no')
    const ini = { drain: true, 'spooler-grace': 0 }
    const first = await startDaemon({ spool, ini, ...DRAIN })
    assert.equal(await first.code(), 0)
    assert.match(first.output, /README is left alone: it has 2 of the header's 4 bytes/)
    mkdirSync(join(spool, '.spoold'), { recursive: true, mode: 0o700 })
    writeFileSync(join(spool, '.spoold/dead'), 'a file in its place')
    drop(spool, undefined, 'rubbish')
    const second = await startDaemon({ spool, ini, ...DRAIN })
    assert.equal(await second.code(), 3)
    assert.match(second.output, /it cannot be buried: .*\n(.*\n)*drained: 0 done, 1 could not be read\n/)
  })

  it('exits with 3 even if an incomplete task was found aside while the only worker was blocked', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const handler = `
      import { existsSync } from 'node:fs'
      const cell = new Int32Array(new SharedArrayBuffer(4))
      export default (env, task) => {
        while (!existsSync('${gate}')) Atomics.wait(cell, 0, 0, 10)
        return task.SPOOL_OK
      }`
    drop(spool, undefined, packet({ say: '' }))
    const daemon = await startDaemon({ spool, ini: { drain: true }, handler, isUnready: true })
    await daemon.waitFor('managing request')
    drop(spool, undefined, packet({ say: '' }).subarray(0, -1))
    await until(
      'the incomplete task is found',
      async () => (await spoolSnapshotOf(spool)).tasks.unreadable === 1,
    )
    writeFileSync(gate, '')
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /drained: 1 done, 1 incomplete\n/)
  })

  it('counts a task by its last run', async () => {
    const { code, line } = await drained(['exit once', 'soon', ''])
    assert.deepEqual({ code, line }, { code: 0, line: 'drained: 3 done' })
  })

  it('counts a task by its last run even if the worker of an earlier run is too busy to report that one first', async () => {
    const spool = spoolDirectory()
    const handler = `
      import { readFileSync } from 'node:fs'
      const cell = new Int32Array(new SharedArrayBuffer(4))
      const done = () => readFileSync(new URL('journal', import.meta.url), 'utf8').split('\\n').length - 1
      JOURNAL('loaded')
      export default (env, task) => {
        if (env.say === 'block') {
          for (let i = 0; i < 2000 && done() < ${199 + 2}; i++) Atomics.wait(cell, 0, 0, 10)
          JOURNAL(done() - 2)
        } else if (task.attempt === 1) return { retry: 0 }
        else JOURNAL('done')
        return task.SPOOL_OK
      }`
    for (let i = 100; i < 300; i++) {
      const say = i === 200 ? 'block' : ''
      drop(spool, `uwsgi_spoolfile_on_h_1_${i}_0_1764300000_000${i}`, packet({ say }))
    }
    const ini = { drain: true, 'spooler-processes': 2, 'spooler-frequency': 60 }
    const daemon = await startDaemon({ spool, ini, handler, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /drained: 200 done\n/)
    assert.equal(daemon.journal().at(-1), '199', 'no task waits for the end of the busy process')
  })

  it('counts what a worker had done before a task killed it, and logs each start of a task', async () => {
    const says = ['', '', '', 'exit once', '', '']
    const end = await drained(says, { 'spooler-processes': 1 })
    assert.deepEqual(end, { code: 0, line: 'drained: 6 done', begun: 7 })
  })

  it('exits with 3 when a task was buried right before another one overran spooler-harakiri in the same worker', async () => {
    const spool = spoolDirectory()
    const says = ['', '', 'bury', 'block once', '']
    for (const [i, say] of says.entries())
      drop(spool, `uwsgi_spoolfile_on_h_1_${i}_0_1764300000_00000${i}`, packet({ say }))
    const ini = { drain: true, 'spooler-processes': 1, 'spooler-harakiri': 1 }
    const daemon = await startDaemon({ spool, ini, ...DRAIN })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /_000002 is buried: asked/)
    assert.match(daemon.output, /drained: .*1 buried/)
  })

  it('counts as done the tasks that ran beside a task that killed their worker', async () => {
    const { code, line } = await drained(['exit once', '', '', ''], { 'spooler-concurrency': 4 })
    assert.deepEqual({ code, line }, { code: 0, line: 'drained: 4 done' })
  })

  it('exits with 3 when a signal stops it early', async () => {
    const spool = spoolDirectory()
    drop(spool, undefined, packet({ say: 'wait' }))
    const daemon = await startDaemon({ spool, ini: { drain: true }, ...DRAIN, isUnready: true })
    await daemon.waitFor('managing request')
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('killing workers')
    for (const pid of daemon.workers()) quietly(() => process.kill(pid, 'SIGUSR2')) // one may have nothing to end
    assert.equal(await daemon.code(), 3)
    assert.doesNotMatch(daemon.output, /drained:/)
  })
})

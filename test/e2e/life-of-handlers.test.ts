import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { act, assertGone, ended, linesOf, pidOf, startActor, started } from '../helpers/actor.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('a handler', { concurrency: 3 }, () => {
  for (const [what, line] of [
    ['throw', /Error: thrown at once\n {6}at /],
    ['reject', /Error: rejected\n {6}at /],
    ['throw-late', /Error: thrown late\n {6}at /],
    ['reject-late', /Error: rejected late\n {6}at /],
  ] as const)
    it(`that fails (${what}) has its error logged with the stack and its task kept, while other tasks run`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-frequency': 1000 })
      const bad = act(spool, what)
      await daemon.waitFor(/failed, runs again in \d+ s/)
      const good = act(spool, 'ok')
      await ended(daemon, good)
      assert.match(daemon.output, line)
      assert.equal(linesOf(daemon, 'start', bad).length, 1)
      await until('the failed task alone is left', () => leftIn(spool).length === 1)
    })

  it('that throws after its task is done leaves the task done, and its process is replaced', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool)
    const n = act(spool, 'throw-after')
    await daemon.waitFor('uncaught exception')
    const good = act(spool, 'ok')
    await ended(daemon, good)
    assert.equal(linesOf(daemon, 'start', n).length, 1)
    await until('both tasks are removed', () => leftIn(spool).length === 0)
  })

  for (const [what, error] of [
    ['throw-behind', /uncaught exception, replacing the process: Error: thrown behind\n {6}at /],
    ['reject-behind', /uncaught exception, replacing the process: Error: rejected behind\n {6}at /],
    ['exit-behind', /the process exited with code 1\n/],
  ] as const)
    it(`whose code fails, or ends the process, after its task is done (${what}) costs the task that runs then no attempt`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-frequency': 1000 })
      const [late, gate] = [join(daemon.directory, 'late'), join(daemon.directory, 'gate')]
      await ended(daemon, act(spool, what, { until: late }))
      const innocent = act(spool, 'hold', { until: gate })
      await started(daemon, innocent)
      writeFileSync(late, '')
      await started(daemon, innocent, 2)
      writeFileSync(gate, '')
      await ended(daemon, innocent)
      assert.deepEqual(
        linesOf(daemon, 'start', innocent).map(line => line.split(' ')[3]),
        ['1', '1'],
      )
      assert.match(daemon.output, error)
      assert.doesNotMatch(daemon.output, /failed|crashed|runs again/)
      await until('both tasks are removed', () => leftIn(spool).length === 0)
    })

  for (const what of ['exit', 'exit-1', 'abort'])
    it(`that ends its process (${what}) leaves the daemon running, and its task runs again after the others`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-frequency': 1000 })
      const bad = act(spool, what)
      await started(daemon, bad, 2)
      const good = act(spool, 'ok')
      await ended(daemon, good)
      await started(daemon, bad, 3)
      assert.ok(daemon.isRunning)
    })

  it('that leaks memory is replaced after every spooler-max-tasks tasks, until all of them have run', async () => {
    const spool = spoolDirectory()
    const numbers = Array.from({ length: 40 }, () => act(spool, 'leak'))
    const daemon = await startActor(spool, { 'spooler-max-tasks': 5 })
    await until('all tasks have run', () => leftIn(spool).length === 0, 30_000)
    const pids = numbers.map(n => pidOf(daemon, n))
    for (const pid of new Set(pids)) assert.equal(pids.filter(each => each === pid).length, 5)
    assert.equal(daemon.journal().filter(line => line.startsWith('start ')).length, 40)
    assert.ok(daemon.isRunning)
  })

  it('that ignores SIGTERM does not hold up a stop', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'worker-reload-mercy': 0.5 })
    const n = act(spool, 'ignore-term', { until: '/nonexistent' })
    await started(daemon, n)
    const workers = daemon.workers()
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await assertGone(spool, workers)
  })

  it('that is slow does not keep other workers from the tasks that its own worker was given ahead', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2, 'spooler-quiet': true })
    for (let i = 0; i < 500; i++) act(spool, 'ok') // fast tasks are given in batches
    await until('the fast tasks have run', () => leftIn(spool).length === 0)
    const gate = join(daemon.directory, 'gate')
    const slow = act(spool, 'hold', { until: gate })
    const others = Array.from({ length: 50 }, () => act(spool, 'ok'))
    for (const n of others) await ended(daemon, n)
    assert.equal(linesOf(daemon, 'end', slow).length, 0)
    writeFileSync(gate, '')
    await ended(daemon, slow)
    assert.equal(linesOf(daemon, 'start', slow).length, 1)
  })
})

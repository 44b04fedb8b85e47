import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { act, assertGone, ended, linesOf, pidOf, startActor, started } from '../helpers/actor.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('a worker that is killed', () => {
  it('is replaced, and its task runs again at once, while the tasks of other workers are untouched', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2, 'spooler-frequency': 1000 })
    const gate = join(daemon.directory, 'gate')
    const [one, two] = [act(spool, 'hold', { until: gate }), act(spool, 'hold', { until: gate })]
    await started(daemon, one)
    await started(daemon, two)
    process.kill(pidOf(daemon, one), 'SIGKILL')
    await started(daemon, one, 2)
    writeFileSync(gate, '')
    await ended(daemon, one)
    await ended(daemon, two)
    assert.equal(linesOf(daemon, 'start', two).length, 1)
    assert.match(linesOf(daemon, 'start', one)[1] ?? '', / 2$/) // attempt
    assert.match(daemon.output, /OOOPS the spooler is no more\.\.\.trying respawn\.\.\./)
    await until('there are two workers again', () => daemon.workers().length === 2)
    await until('both tasks are removed', () => leftIn(spool).length === 0)
  })
})

/** Starts a daemon with one worker that is in the middle of a task that does `what`, with another task behind it. */
async function busyDaemon(what: 'hold' | 'block') {
  const spool = spoolDirectory()
  const daemon = await startActor(spool)
  const gate = join(daemon.directory, 'gate')
  const running = act(spool, what, { until: gate })
  await started(daemon, running)
  const waiting = act(spool, 'ok')
  return { spool, daemon, running, waiting, open: () => writeFileSync(gate, ''), workers: daemon.workers() }
}

describe('a stop', { concurrency: 3 }, () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    it(`by ${signal} when idle exits with 0 and leaves no process`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-processes': 2 })
      const workers = daemon.workers()
      daemon.child.kill(signal)
      assert.equal(await daemon.code(), 0)
      assert.match(daemon.output, /goodbye to uWSGI\.\n$/)
      await assertGone(spool, workers)
    })

  for (const [signal, other] of [
    ['SIGTERM', 'SIGINT'],
    ['SIGINT', 'SIGTERM'],
  ] as const)
    it(`by ${signal}, with ${other} right behind it, lets the running task end, begins no other, and runs nothing twice`, async () => {
      const { spool, daemon, running, waiting, open, workers } = await busyDaemon('hold')
      daemon.child.kill(signal)
      daemon.child.kill(other) // meant once, as from a terminal and npm; the kernel merges two of the same kind
      await daemon.waitFor('SIGINT/SIGTERM received...killing workers...')
      assert.ok(workers.every(isAlive))
      open()
      assert.equal(await daemon.code(), 0)
      const counts = [linesOf(daemon, 'start', running), linesOf(daemon, 'end', running)].map(
        ({ length }) => length,
      )
      assert.deepEqual([counts, linesOf(daemon, 'start', waiting)], [[1, 1], []])
      assert.equal(leftIn(spool).length, 1)
      assert.match(daemon.output, /goodbye to uWSGI\.\n$/)
      await assertGone(spool, workers)
    })

  it('warns its tasks, and kills a task that overruns its mercy, which the next daemon runs again', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'worker-reload-mercy': 3, 'spooler-processes': 2 })
    const stubborn = act(spool, 'block')
    const warned = act(spool, 'signal')
    await started(daemon, stubborn)
    await started(daemon, warned)
    const workers = daemon.workers()
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.match(
      daemon.output,
      / - spooler \d \(pid: \d+\) is taking too much time to die\.\.\.NO MERCY !!!\n/,
    )
    assert.deepEqual(
      daemon.journal().filter(line => line.startsWith('warned')),
      [`warned ${warned}`],
    )
    assert.equal(leftIn(spool).length, 1)
    await assertGone(spool, workers)
    const next = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL('next ' + env.n + ' ' + task.attempt); return task.SPOOL_OK }`,
    })
    await until('the task has run again', () => leftIn(spool).length === 0)
    assert.equal(next.journal().at(-1), `next ${stubborn} 1`) // an attempt that a stop ended does not count
  })

  it('kills at once on a second signal, and keeps the task that ran', async () => {
    const { spool, daemon, workers } = await busyDaemon('block')
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('killing the spooler with pid')
    await until('the signal is taken for a second one', () => {
      if (daemon.isRunning) daemon.child.kill('SIGTERM') // a signal within a quarter of a second counts as the same
      return !daemon.isRunning
    })
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /SIGTERM received\.\.\.killing everything now\n/)
    assert.equal(leftIn(spool).length, 2)
    await assertGone(spool, workers)
  })

  it('by SIGQUIT kills at once, and keeps the task that ran', async () => {
    const { spool, daemon, workers } = await busyDaemon('block')
    daemon.child.kill('SIGQUIT')
    assert.equal(await daemon.code(), 0)
    assert.equal(leftIn(spool).length, 2)
    await assertGone(spool, workers)
  })

  it('is obeyed while the handlers are being loaded', async () => {
    const spool = spoolDirectory()
    const pidfile = join(dirname(spool), 'pid')
    const daemon = await startDaemon({
      spool,
      handler: `JOURNAL('loading'); await new Promise(() => setInterval(() => {}, 1000)); export default () => -2`,
      ini: { pidfile, vacuum: true },
      isUnready: true,
    })
    await until('the handler loads', () => daemon.journal().length > 0)
    const workers = daemon.workers()
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await assertGone(spool, workers)
    assert.ok(!existsSync(pidfile))
    assert.doesNotMatch(daemon.output, /is running/)
  })

  it('by kill -9 of the master lets the running task end and be settled, begins no other, and leaves no process', async () => {
    const { spool, daemon, running, waiting, open, workers } = await busyDaemon('hold')
    daemon.child.kill('SIGKILL')
    await until('the master is gone', () => !isAlive(daemon.pid))
    open()
    await until('the worker is gone', () => !workers.some(isAlive))
    assert.deepEqual(
      [linesOf(daemon, 'end', running).length, linesOf(daemon, 'start', waiting).length],
      [1, 0],
    )
    assert.equal(leftIn(spool).length, 1)
  })

  it('by kill -9 of the master ends an idle worker while another one still runs its task', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2 })
    const gate = join(daemon.directory, 'gate')
    await started(daemon, act(spool, 'hold', { until: gate }))
    const workers = daemon.workers()
    daemon.child.kill('SIGKILL')
    await until('the idle worker is gone', () => workers.filter(isAlive).length === 1)
    writeFileSync(gate, '')
    await until('the other worker is gone, too', () => workers.filter(isAlive).length === 0)
  })
})

describe('a reload', { concurrency: 3 }, () => {
  it('during a task replaces the workers and kills nothing', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2 })
    const gate = join(daemon.directory, 'gate')
    const running = act(spool, 'hold', { until: gate })
    await started(daemon, running)
    const before = daemon.workers()
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    const after = act(spool, 'ok')
    await ended(daemon, after)
    assert.ok(!before.includes(pidOf(daemon, after)))
    assert.ok(isAlive(pidOf(daemon, running)))
    writeFileSync(gate, '')
    await ended(daemon, running)
    await until('the old workers are gone', () => !before.some(isAlive) && daemon.workers().length === 2)
    assert.equal(linesOf(daemon, 'start', running).length, 1)
  })

  it('does not stop an old worker that has ended meanwhile', async () => {
    const spool = spoolDirectory()
    const handler = "JOURNAL('loads'); export default (env, task) => task.SPOOL_OK"
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-processes': 2 } })
    await until('two workers have loaded the handler', () => daemon.journal().length === 2)
    const before = daemon.workers()
    const gate = join(daemon.directory, 'gate')
    writeFileSync(
      daemon.handlerFile,
      `${readFileSync(daemon.handlerFile, 'utf8')}
import { existsSync, writeFileSync } from 'node:fs'
try { writeFileSync(${JSON.stringify(join(daemon.directory, 'first'))}, '', { flag: 'wx' }) }
catch { while (!existsSync(${JSON.stringify(gate)})) await new Promise(resolve => setTimeout(resolve, 20)) }`,
    )
    daemon.child.kill('SIGHUP')
    await until('one worker is replaced', () => before.filter(isAlive).length === 1)
    const left = before.find(isAlive) ?? 0
    await until('the next worker loads the handler', () => daemon.journal().length === 4)
    process.kill(left, 'SIGKILL')
    await daemon.waitFor(`pid: ${left}] the process was killed by SIGKILL`)
    writeFileSync(gate, '')
    await daemon.waitFor('the spoolers are reloaded')
    await until('there are two workers', () => daemon.workers().length === 2)
    assert.doesNotMatch(daemon.output, new RegExp(`killing the spooler with pid ${left}\\b`))
  })

  for (const [what, broken] of [
    ['throws', "throw new Error('no second one')"],
    ['exits', 'process.exit(1)'],
  ] as const)
    it(`whose second new worker ${what} keeps the remaining old workers, says so once, and can be repeated`, async () => {
      const spool = spoolDirectory()
      const handler = "JOURNAL('loads'); export default (env, task) => task.SPOOL_OK"
      const daemon = await startDaemon({ spool, handler, ini: { 'spooler-processes': 3 } })
      await until('three workers have loaded the handler', () => daemon.journal().length === 3)
      const before = daemon.workers()
      const source = readFileSync(daemon.handlerFile, 'utf8')
      writeFileSync(
        daemon.handlerFile,
        `${source}
import { readFileSync, writeFileSync } from 'node:fs'
try { writeFileSync(${JSON.stringify(join(daemon.directory, 'first'))}, '', { flag: 'wx' }) } catch { ${broken} }`,
      )
      daemon.child.kill('SIGHUP')
      await daemon.waitFor('the spoolers are reloaded')
      await until(
        'one worker was replaced',
        () => before.filter(isAlive).length === 2 && daemon.workers().length === 3,
      )
      const lines = daemon.output.split('\n').filter(line => line.includes('as before the reload'))
      assert.equal(lines.length, 1, lines.join('\n'))
      assert.match(lines[0] ?? '', /2 processes stay as before the reload.*reload again/)
      assert.doesNotMatch(daemon.output, /workers keep failing|trying respawn/)
      assert.equal((await spoolSnapshotOf(spool)).totals.crashes, 0)
      writeFileSync(daemon.handlerFile, source)
      daemon.child.kill('SIGHUP')
      await until('all workers are replaced', () => !before.some(isAlive) && daemon.workers().length === 3)
    })
})

describe('harakiri', { concurrency: 3 }, () => {
  for (const what of ['block', 'signal'])
    it(`ends a handler that does not end (${what}), and the task runs again in a new worker`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-harakiri': 1 })
      const n = act(spool, what === 'signal' ? 'hold' : what, { until: '/nonexistent' })
      await started(daemon, n)
      const pid = pidOf(daemon, n)
      await daemon.waitFor(`*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`)
      await started(daemon, n, 2)
      assert.ok(!isAlive(pid))
      assert.match(linesOf(daemon, 'start', n)[1] ?? '', / 2$/)
    })

  it('warns the handler first', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-harakiri': 2 })
    const n = act(spool, 'signal')
    await ended(daemon, n)
    assert.deepEqual(
      daemon.journal().filter(line => line.startsWith('warned')),
      [`warned ${n}`],
    )
    await until('the task is removed', () => leftIn(spool).length === 0)
    assert.doesNotMatch(daemon.output, /HARAKIRI/)
  })

  it('counts from the start of each task, not from the first task of a fast series', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-harakiri': 1, 'spooler-quiet': true })
    for (let i = 0; i < 3000; i++) act(spool, 'ok')
    await until('all tasks have run', () => leftIn(spool).length === 0, 40_000)
    assert.doesNotMatch(daemon.output, /HARAKIRI/)
  })

  it('of one task in a concurrent worker counts no attempt of the tasks beside it', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, {
      'spooler-harakiri': Math.ceil(5 * patience()), // the tasks beside it run again within this time
      'spooler-concurrency': 3,
      'spooler-frequency': 1000,
    })
    const gate = join(daemon.directory, 'gate')
    const guilty = act(spool, 'hold', { until: '/nonexistent' })
    await started(daemon, guilty)
    const since = Date.now()
    await until('a second has passed, so that the deadlines differ', () => Date.now() > since + 1000)
    const neighbours = [act(spool, 'hold', { until: gate }), act(spool, 'hold', { until: gate })]
    for (const n of neighbours) await started(daemon, n)
    await daemon.waitFor('HARAKIRI')
    for (const n of neighbours) await started(daemon, n, 2)
    assert.equal(daemon.output.match(/ overran spooler-harakiri/g)?.length, 1)
    writeFileSync(gate, '')
    for (const n of neighbours) {
      await ended(daemon, n)
      assert.match(linesOf(daemon, 'start', n).at(-1) ?? '', / 1$/) // still the first attempt
    }
    await started(daemon, guilty, 2)
    // The task had begun beside others, so it runs alone now, and only a death while alone counts.
    assert.match(linesOf(daemon, 'start', guilty)[1] ?? '', / 1$/)
  })
})

describe('a worker that is recycled', () => {
  it('after spooler-max-tasks tasks is succeeded by others until the backlog has run', async () => {
    const spool = spoolDirectory()
    const numbers = Array.from({ length: 25 }, () => act(spool, 'ok'))
    const daemon = await startActor(spool, { 'spooler-max-tasks': 10 })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.equal(daemon.output.split('maximum number of tasks reached (10) recycling ...').length - 1, 2)
    const pids = numbers.map(n => pidOf(daemon, n))
    assert.equal(new Set(pids).size, 3)
    for (const pid of new Set(pids)) assert.ok(pids.filter(each => each === pid).length <= 10)
    assert.doesNotMatch(daemon.output, /OOOPS/)
  })
})

describe('spooler-concurrency', () => {
  it('is the number of tasks that a worker runs at a time', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-concurrency': 4 })
    const gate = join(daemon.directory, 'gate')
    const numbers = Array.from({ length: 6 }, () => act(spool, 'hold', { until: gate }))
    await until('four tasks run', () => daemon.journal().length === 4)
    writeFileSync(gate, '')
    for (const n of numbers) await ended(daemon, n)
    assert.equal(new Set(numbers.map(n => pidOf(daemon, n))).size, 1)
  })
})

describe('a cheap spool', () => {
  it('has no worker while idle, gets one as soon as there is a task, and loses it again', async () => {
    const spool = spoolDirectory()
    // Looking at the directory all the time does not keep a worker from going.
    const daemon = await startActor(spool, {
      'spooler-cheap': true,
      'spooler-processes': 2,
      'spooler-frequency': 0.1,
      'spooler-watch': 'off',
    })
    await until('the spool has no worker', () => daemon.workers().length === 0)
    await daemon.waitFor(/- cheaping spooler .* \.\.\./)
    const n = act(spool, 'ok')
    await ended(daemon, n)
    assert.equal(daemon.workers().length, 1)
    await until('the spool has no worker again', () => daemon.workers().length === 0)
    assert.doesNotMatch(daemon.output, /OOOPS/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('shares one load of the handlers with others, at a start and a reload, and has their tasks and schedules', async () => {
    const spools = Array.from({ length: 6 }, () => spoolDirectory())
    const [[first = ''], last = ''] = [spools, spools.at(-1)]
    const handler = `
      import { existsSync } from 'node:fs'
      import { Tasks } from 'spoold'
      export const tasks = new Tasks()
      const often = existsSync(process.cwd() + '/../often') ? { periodicity: 1 } : { cron: '0 3 29 2 *' }
      tasks.task('tick', { ...often, queue: 'last' }, async () => JOURNAL('tick in ' + process.cwd()))`
    const ini = { spooler: spools, 'spooler-cheap': true, 'spooler-queue': `last=${last}` }
    const daemon = await startDaemon({ spool: first, handler, ini })
    const spawnsIn = (text = '') => text.split('spawned the uWSGI spooler').length - 1
    assert.equal(spawnsIn(daemon.output.split('is running')[0]), 1)
    await until('the last spool has the schedule', async () => {
      const { stdout } = await spoold(['status', '--json', last])
      return JSON.parse(stdout).spools[0].schedules?.[0]?.schedule.name === 'tick'
    })
    await until('no spool has a worker', () => daemon.workers().length === 0)
    writeFileSync(join(daemon.directory, 'often'), '')
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/the spoolers are reloaded/)
    assert.equal(spawnsIn(daemon.output.split('killing workers')[1]?.split('are reloaded')[0]), 1)
    await until('a tick in the last spool', () => daemon.journal().includes(`tick in ${last}`))
  })
})

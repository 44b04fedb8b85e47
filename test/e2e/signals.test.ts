import assert from 'node:assert/strict'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { TestProcess } from '../helpers/process.js'
import { journaled, task, withSignals } from '../helpers/signals.js'
import { until } from '../helpers/until.js'
import { exchange, portOf, REFUSED, STORED } from '../helpers/wire.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

const NETWORK = { socket: '127.0.0.1:0' }
const packetOf = (number: number) => Buffer.of(110, 0, 0, number)

describe('a signal', () => {
  it('that a task raises runs its handler, with its number, in the spool directory', async () => {
    const daemon = await withSignals(`registerSignal(255, '', n => JOURNAL(n + ' ' + process.cwd()))`)
    task(daemon, { raise: '255' })
    assert.deepEqual(await journaled(daemon, /./, 1), [`255 ${join(daemon.directory, 'spool')}`])
    await daemon.waitFor('signum 255 registered (wid: 0 modifier1: 0 target: default, any worker)')
  })

  it('counts as registered once this process has a handler for it', async () => {
    const daemon = await withSignals(`
      JOURNAL(spoold.signalRegistered(3))
      registerSignal(3, 'spooler', () => {})
      JOURNAL(spoold.signalRegistered(3))`)
    assert.deepEqual(daemon.journal(), ['false', 'true'])
  })

  it('is handled by the handler that was registered last', async () => {
    const daemon = await withSignals(`
      registerSignal(1, 'mule1', () => JOURNAL('first'))
      registerSignal(1, 'spooler', () => JOURNAL('second'))`)
    task(daemon, { raise: '1' })
    assert.deepEqual(await journaled(daemon, /./, 1), ['second'])
  })

  it('may be raised while the module loads, and registered by the handler of another one', async () => {
    const daemon = await withSignals(`
      registerSignal(1, 'spooler', () => {
        registerSignal(2, 'spooler', () => JOURNAL('two'))
        signal(2)
      })
      signal(1)`)
    assert.deepEqual(await journaled(daemon, /./, 1), ['two'])
  })

  it('is handled by another process while a task is slow', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', () => JOURNAL('one'))`, {
      ini: { 'spooler-processes': 2 },
    })
    const release = join(daemon.directory, 'release')
    task(daemon, { name: 'slow', raise: '1', until: release })
    await journaled(daemon, /one/, 1)
    writeFileSync(release, '')
  })

  it('is handled before tasks that wait', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', () => JOURNAL('signal'))`)
    const release = join(daemon.directory, 'release')
    task(daemon, { name: 'slow', raise: '1', until: release })
    await journaled(daemon, /slow/, 1)
    for (const name of ['a', 'b', 'c']) task(daemon, { name })
    writeFileSync(release, '')
    await journaled(daemon, /task [abc]/, 3)
    assert.deepEqual(daemon.journal().slice(0, 2), ['task slow', 'signal'])
  })

  it('does not run twice at once, but as often as it was raised', async () => {
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', async () => {
        JOURNAL('start')
        await new Promise(resolve => setTimeout(resolve, 20))
        JOURNAL('end')
      })`,
      { ini: { 'spooler-processes': 3, 'spooler-concurrency': 2 } },
    )
    task(daemon, { raise: '1,1,1,1,1' })
    await journaled(daemon, /end/, 5)
    assert.deepEqual(daemon.journal(), Array(5).fill(['start', 'end']).flat())
  })

  it('is not lost when workers are recycled', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', () => JOURNAL('run'))`, {
      ini: { 'spooler-processes': 2, 'spooler-max-tasks': 1 },
    })
    for (let i = 0; i < 10; i++) task(daemon, { raise: '1,1' })
    assert.equal((await journaled(daemon, /run/, 20)).length, 20)
  })

  it('is handled to the end when the daemon is stopped', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', async () => {
      JOURNAL('start')
      await there(process.cwd() + '/../release')
      JOURNAL('end')
    })`)
    task(daemon, { raise: '1' })
    await journaled(daemon, /start/, 1)
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('killing the spooler')
    writeFileSync(join(daemon.directory, 'release'), '')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['start', 'end'])
  })

  it('is refused while 1024 signals wait', async () => {
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', () => there(process.cwd() + '/../release'))`,
      {
        ini: NETWORK,
      },
    )
    const port = await portOf(daemon)
    task(daemon, { raise: Array(1030).fill('1').join() })
    await daemon.waitFor('could not deliver signal 1: *** SIGNAL QUEUE IS FULL: 1024 signals wait ***')
    // The first waiting signal is taken out when the task has ended.
    await until('the next signal is refused', async () => (await exchange(port, packetOf(1))) === REFUSED)
    writeFileSync(join(daemon.directory, 'release'), '')
  })
})

describe('the target of a signal', () => {
  const WHO = `n => JOURNAL(n + ' ' + process.pid)`

  it('workers means every process', async () => {
    const daemon = await withSignals(`registerSignal(1, 'workers', ${WHO})`, {
      ini: { 'spooler-processes': 3 },
    })
    await until('all processes are there', () => daemon.workers().length === 3)
    await until('all processes have run the handler', async () => {
      task(daemon, { raise: '1' })
      await journaled(daemon, /^1/, 1)
      return new Set(daemon.journal()).size === 3
    })
    assert.deepEqual(new Set(daemon.journal()), new Set(daemon.workers().map(pid => `1 ${pid}`)))
  })

  it('worker2 means the second process, and worker9 is reported as invalid', async () => {
    const daemon = await withSignals(
      `registerSignal(1, 'worker2', ${WHO}); registerSignal(2, 'worker9', ${WHO})`,
      {
        ini: { 'spooler-processes': 2 },
      },
    )
    const [, second] = [...daemon.output.matchAll(/with pid (\d+)/g)].map(([, pid]) => pid)
    await until('the process has run the handler', () => {
      task(daemon, { raise: '1' })
      return daemon.journal().length > 0
    })
    assert.equal(daemon.journal()[0], `1 ${second}`)
    task(daemon, { raise: '2' })
    await daemon.waitFor('invalid signal target: worker9')
  })

  it('means a process of that spool if it is an absolute directory', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const daemon = await withSignals(
      `registerSignal(1, ${JSON.stringify(other)}, () => JOURNAL(process.cwd()))`,
      { spool, ini: { spooler: [spool, other] } },
    )
    task(daemon, { raise: '1,1,1' })
    assert.deepEqual(await journaled(daemon, /./, 3), [other, other, other])
  })

  for (const target of ['mules', 'mule1', 'farm_a'])
    it(`${target} means one process of any spool, because there are no mules`, async () => {
      const daemon = await withSignals(`registerSignal(1, '${target}', () => JOURNAL('run'))`)
      task(daemon, { raise: '1' })
      assert.deepEqual(await journaled(daemon, /run/, 1), ['run'])
    })

  for (const target of ['subscribed', '/nowhere'])
    it(`${target} means no process, and the log says so`, async () => {
      const daemon = await withSignals(`registerSignal(1, '${target}', () => JOURNAL('run'))`)
      task(daemon, { raise: '1' })
      await daemon.waitFor(`^^^ UNSUPPORTED SIGNAL TARGET: ${target} ^^^`)
      assert.deepEqual(daemon.journal(), [])
    })
})

describe('the handler of a signal', () => {
  const FAULTS = {
    'that throws': `() => { throw new Error('no luck') }`,
    'that rejects': `async () => { await null; throw new Error('no luck') }`,
  }
  for (const [title, handler] of Object.entries(FAULTS))
    it(`${title} is reported, and the process goes on`, async () => {
      const daemon = await withSignals(`registerSignal(1, 'spooler', ${handler})`)
      task(daemon, { raise: '1' })
      const [pid] = daemon.workers()
      await daemon.waitFor(new RegExp(`- error managing signal 1 on spooler ${pid}: Error: no luck\\n +at `))
      task(daemon, { name: 'next' })
      await journaled(daemon, /next/, 1)
      assert.deepEqual(daemon.workers(), [pid])
    })

  it('that is missing is reported', async () => {
    const daemon = await withSignals('')
    task(daemon, { raise: '9' })
    await daemon.waitFor(/- error managing signal 9: no handler is registered for it/)
  })

  for (const [title, block] of [
    ['blocks', 'for (;;) {}'],
    ['never ends', 'return new Promise(() => {})'],
  ])
    it(`that ${title} is ended by spooler-harakiri, and not run again`, async () => {
      const daemon = await withSignals(`registerSignal(1, 'spooler', () => { JOURNAL('run'); ${block} })`, {
        ini: { 'spooler-harakiri': 1 },
      })
      const [pid] = daemon.workers()
      task(daemon, { raise: '1' })
      await daemon.waitFor(`*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`)
      await daemon.waitFor(`error managing signal 1 on spooler ${pid}: its process ended`)
      task(daemon, { name: 'next' })
      await journaled(daemon, /next/, 1)
      assert.deepEqual(daemon.journal(), ['run', 'task next'])
    })

  it('that kills its process is not run again', async () => {
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', () => { JOURNAL('run'); process.exit(1) })`,
    )
    task(daemon, { raise: '1' })
    await daemon.waitFor('OOOPS the spooler is no more')
    task(daemon, { name: 'next' })
    await journaled(daemon, /next/, 1)
    assert.deepEqual(daemon.journal(), ['run', 'task next'])
  })

  it('counts for spooler-max-tasks with spooler-signal-as-task', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', () => JOURNAL('run'))`, {
      ini: { 'spooler-max-tasks': 3, 'spooler-signal-as-task': true, ...NETWORK },
    })
    const port = await portOf(daemon)
    for (let i = 0; i < 3; i++) await exchange(port, packetOf(1))
    await daemon.waitFor('maximum number of tasks reached (3) recycling ...')
    assert.equal(daemon.journal().length, 3)
  })

  it('does not count for spooler-max-tasks without spooler-signal-as-task', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', () => JOURNAL('run'))`, {
      ini: { 'spooler-max-tasks': 3, ...NETWORK },
    })
    const port = await portOf(daemon)
    for (let i = 0; i < 5; i++) await exchange(port, packetOf(1))
    await journaled(daemon, /run/, 5)
    for (let i = 0; i < 2; i++) task(daemon, { name: 'a' })
    await journaled(daemon, /task/, 2)
    assert.doesNotMatch(daemon.output, /recycling/)
  })

  it('gets a process in a cheap spool that has none', async () => {
    const daemon = await withSignals(`registerSignal(1, 'spooler', () => JOURNAL('run'))`, {
      ini: { 'spooler-cheap': true, ...NETWORK },
    })
    await until('the spool has no process', () => daemon.workers().length === 0)
    assert.equal(await exchange(await portOf(daemon), packetOf(1)), STORED)
    await journaled(daemon, /run/, 1)
  })
})

describe('a handler module', () => {
  it('finds its daemon through another copy of the package', async () => {
    const spool = spoolDirectory()
    const copy = join(dirname(spool), 'node_modules/spoold')
    mkdirSync(copy, { recursive: true })
    for (const part of ['dist', 'package.json'])
      cpSync(join(ROOT, part), join(copy, part), { recursive: true })
    const daemon = await startDaemon({
      spool,
      handler: `
        import { registerSignal, signal } from 'spoold'
        registerSignal(1, 'spooler', () => JOURNAL(import.meta.resolve('spoold')))
        signal(1)
        export default () => -2`,
    })
    assert.deepEqual(await journaled(daemon, /./, 1), [`file://${copy}/dist/index.js`])
  })

  const WRONG: ReadonlyArray<readonly [code: string, expected: RegExp]> = [
    [`registerSignal(256, 'spooler', () => {})`, /expected a signal number from 0 to 255, got 256/],
    [`registerSignal(1, 'spooler')`, /signal 1: expected a function, got undefined/],
    [`registerSignal(1, 5, () => {})`, /signal 1: expected a directory or a name of at most 63 bytes, got 5/],
    [`registerSignal(1, 'x'.repeat(64), () => {})`, /at most 63 bytes/],
    [`spoold.addTimer(1, 0)`, /timer 1: expected more than 0 milliseconds, got 0/],
    [`spoold.addRbTimer(1, 1, -1)`, /timer 1: expected a whole number of iterations from 0, got -1/],
    [`spoold.addCron(1, 60, -1, -1, -1, -1)`, /from 0 to 59 for the minute, .* got 60/],
    [`spoold.addCron(1, 'x', -1, -1, -1, -1)`, /expected a cron expression, got "x"/],
    [`spoold.addCron(1, 1)`, /cron 1: expected five whole numbers, got undefined/],
    [`spoold.addFileMonitor(1, '')`, /file monitor 1: expected a path, got ""/],
    [`signal(-1)`, /expected a signal number from 0 to 255, got -1/],
  ]
  for (const [code, expected] of WRONG)
    it(`that calls ${code} keeps the daemon from starting`, async () => {
      const daemon = await withSignals(code, { isUnready: true })
      assert.equal(await daemon.code(), 1)
      assert.match(daemon.output, /\[HANDLER_UNLOADABLE\]/)
      assert.match(daemon.output, expected)
    })

  it('that runs outside of a daemon gets the error NOT_IN_A_WORKER', async () => {
    const file = join(workspace(), 'alone.mjs')
    writeFileSync(
      file,
      `import { registerSignal } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
       try { registerSignal(1, '', () => {}) } catch ({ code }) { console.log(code) }`,
    )
    const alone = new TestProcess(process.execPath, [file])
    assert.equal(await alone.code(), 0)
    assert.equal(alone.output, 'NOT_IN_A_WORKER\n')
  })
})

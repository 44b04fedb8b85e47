import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { type Daemon, readJournal, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const OK = 'export default (env, task) => task.SPOOL_OK\n'
const ENDLESS = `export default () => { JOURNAL('runs'); return new Promise(resolve => setInterval(resolve, 2 ** 30)) }`
const NEVER = `await new Promise(resolve => setInterval(resolve, 2 ** 30))\n${OK}`
/** Long enough that what can be loaded is loaded, even on a busy machine. */
const INI = { 'spooler-start-timeout': 15, 'spooler-frequency': 1 }

async function runs(daemon: Daemon, spool: string, name: string): Promise<void> {
  drop(spool, name, packet({}))
  await until(`${name} has run`, () => !leftIn(spool).includes(name))
  assert.ok(daemon.isRunning)
}

describe('a start', { skip: skipUnless('strace') }, () => {
  it('forks a worker before it loads the daemon, and lists the spool while the worker loads its handlers', async () => {
    const spool = spoolDirectory()
    const trace = join(dirname(spool), 'trace')
    drop(spool, 'task', packet({}))
    const handler = `
      import { readFileSync } from 'node:fs'
      import { setTimeout } from 'node:timers/promises'
      const calls = () => readFileSync(${JSON.stringify(trace)}, 'utf8').split('\\n')
      const isListed = () => calls().some(call => call.includes('getdents64') && call.includes('<${spool}>'))
      while (!isListed()) await setTimeout(10)
      ${OK}`
    const daemon = await startDaemon({
      spool,
      handler,
      ini: INI,
      args: ['--drain'],
      isUnready: true,
      under: [
        'strace',
        '-fyqq',
        '-s',
        '4096',
        '-e',
        'trace=execve,openat,getdents64',
        '-e',
        'signal=none',
        '-o',
        trace,
      ],
    })
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.deepEqual(leftIn(spool), [])
    const calls = readFileSync(trace, 'utf8').replaceAll(/openat\(.*ENOENT.*/g, '')
    const [forked, loaded] = [/execve\(.*worker\.cjs/, /openat\(.*daemon\.cjs/].map(call =>
      calls.search(call),
    )
    assert.ok(
      forked !== undefined && loaded !== undefined && forked >= 0 && forked < loaded,
      `${forked}, ${loaded}`,
    )
  })
})

describe('a handler that never finishes loading', () => {
  it('ends the start of the daemon with exit code 1 and the name of its file', async () => {
    const spool = spoolDirectory()
    const ini = { 'spooler-start-timeout': 1 }
    const daemon = await startDaemon({ spool, handler: NEVER, ini, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /\[HANDLER_UNLOADABLE\].*handler\.mjs is still loading after 1 s \(spooler-start-timeout\)/,
    )
  })

  it('is reported after 10 s', async () => {
    const spool = spoolDirectory()
    const ini = { 'spooler-start-timeout': 60 }
    const daemon = await startDaemon({ spool, handler: NEVER, ini, isUnready: true })
    await daemon.waitFor(/handler\.mjs is still loading \(10 s\)/, 60_000)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('makes a reload fail, and no process is said to replace the one that tried to load it', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: OK, ini: { 'spooler-start-timeout': 3 } })
    for (const [handler, fault] of [
      ['throw new Error("broken")', /the reload is rejected.*broken[\s\S]* the process exited with code 1\n/],
      [NEVER, /the reload is rejected.*still loading after 3 s[\s\S]* the process was killed by SIGKILL\n/],
    ] as const) {
      writeFileSync(daemon.handlerFile, handler)
      daemon.child.kill('SIGHUP')
      await daemon.waitFor(fault)
    }
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /trying respawn/)
  })

  it('makes a reload fail, and the next reload succeeds', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: OK, ini: INI })
    const before = daemon.workers()
    writeFileSync(daemon.handlerFile, NEVER)
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/the reload is rejected.*still loading after 15 s/, 60_000)
    await runs(daemon, spool, 'a')
    writeFileSync(daemon.handlerFile, OK)
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    await until('the old workers are gone', () => !before.some(isAlive) && daemon.workers().length === 1)
    await runs(daemon, spool, 'b')
  })

  it('keeps a dead worker from being replaced, and does not hold up a stop', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: OK, ini: INI })
    writeFileSync(daemon.handlerFile, NEVER)
    process.kill(daemon.workers()[0] ?? 0, 'SIGKILL')
    await daemon.waitFor(/still loading after 15 s[\s\S]*next spawn in 0\.1 s/, 60_000)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('ends its worker if it was to replace a dead Python interpreter', {
    skip: skipUnless('python3'),
  }, async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'tasks.py')
    const gate = join(dirname(spool), 'gate')
    writeFileSync(
      file,
      `import os, time, uwsgi
while os.path.exists(${JSON.stringify(gate)}): time.sleep(0.05)
def spooler(env):
    if env.get(b'do') == b'die':
        open(${JSON.stringify(gate)}, 'w')
        os._exit(1)
    return -2
uwsgi.spooler = spooler
`,
    )
    const ini = { ...INI, python: PYTHON, 'spooler-python-import': file, 'spooler-max-crashes': 1 }
    const daemon = await startDaemon({ spool, isForeign: true, ini })
    await runs(daemon, spool, 'good')
    drop(spool, 'dies', packet({ do: 'die' }))
    await daemon.waitFor(
      /the process cannot continue.*still loading after 15 s \(spooler-start-timeout\)/,
      60_000,
    )
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

describe('a reload of two spools', () => {
  it('changes neither spool when the second cannot start', async () => {
    const [one, two] = [spoolDirectory(), spoolDirectory()]
    const handler = `
      import { existsSync } from 'node:fs'
      const version = existsSync(process.cwd() + '/../new') ? 'new' : 'old'
      if (existsSync(process.cwd() + '/../broken')) throw new Error('broken')
      export default (env, task) => { JOURNAL(env.n + ' ' + version); return task.SPOOL_OK }`
    const daemon = await startDaemon({ spool: one, handler, ini: { spooler: [one, two] } })
    const before = daemon.workers().sort()
    writeFileSync(join(dirname(one), 'new'), '')
    writeFileSync(join(dirname(two), 'broken'), '')
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/the reload is rejected.*broken/)
    for (let i = 0; i < 5; i++) drop(one, `task-${i}`, packet({ n: String(i) }))
    await until('the tasks have run', () => leftIn(one).length === 0)
    assert.deepEqual(
      readJournal(dirname(one)).filter(line => !line.endsWith(' old')),
      [],
    )
    await until('the started workers are gone', () => String(daemon.workers().sort()) === String(before))
  })
})

describe('a daemon that ends early', () => {
  it('has given out no task and leaves no worker behind when its start fails at the end', async () => {
    const spool = spoolDirectory()
    const pidfile = join(dirname(spool), 'pid')
    const ini = { 'safe-pidfile': pidfile }
    const holder = await startDaemon({ spool: spoolDirectory(), handler: OK, ini })
    drop(spool, 'endless')
    const daemon = await startDaemon({ spool, handler: ENDLESS, ini, isUnready: true })
    await until('the daemon has ended', () => !daemon.isRunning) // a worker that is left would keep the output open
    const spawned = daemon.output.matchAll(/spawned the uWSGI spooler .* with pid (\d+)/g)
    const workers = Array.from(spawned, ([, pid]) => Number(pid))
    assert.equal(workers.length, 1)
    assert.ok(!workers.some(isAlive))
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /PIDFILE_HELD/)
    assert.deepEqual(readJournal(dirname(spool)), [])
    assert.ok(holder.isRunning)
  })

  for (const [when, mayLoad] of [
    ['whose first worker loads', 'false'],
    ['that replaces its workers', 'makes(first)'],
  ] as const)
    it(`fires no schedule after a stop in the middle of a reload ${when}`, async () => {
      const spool = spoolDirectory()
      const handler = `
        import { existsSync, mkdirSync } from 'node:fs'
        import { setTimeout } from 'node:timers/promises'
        const [slow, first, end] = ['slow', 'first', 'end'].map(name => ${JSON.stringify(dirname(spool))} + '/' + name)
        const makes = path => { try { mkdirSync(path); return true } catch { return false } }
        JOURNAL('loads')
        if (existsSync(slow) && !(${mayLoad})) while (existsSync(slow)) await setTimeout(10)
        export default async (env, task) => { JOURNAL('runs'); while (!existsSync(end)) await setTimeout(10); return task.SPOOL_OK }`
      const daemon = await startDaemon({ spool, handler, ini: { 'spooler-processes': 2 } })
      drop(spool, 'task', packet({}))
      const loads = () => daemon.journal().filter(line => line === 'loads').length
      await until(
        'the task runs, and both workers are there',
        () => daemon.journal().length === 3 && loads() === 2,
      )
      writeFileSync(join(dirname(spool), 'slow'), '')
      writeIni(daemon.iniFile, {
        spooler: spool,
        'spooler-processes': 2,
        'spooler-import': daemon.handlerFile,
        'signal-cron': '1 * * * * * *',
      })
      daemon.child.kill('SIGHUP')
      const ofNew = mayLoad === 'false' ? 1 : 2
      await until('a new worker loads, and cannot finish', () => loads() === 2 + ofNew)
      daemon.child.kill('SIGTERM')
      await daemon.waitFor('killing workers...')
      await setTimeout(3000) // the schedule would fire each second
      mkdirSync(join(dirname(spool), 'end'))
      assert.equal(await daemon.code(), 0)
      assert.doesNotMatch(daemon.output, /routing signal 1/)
      assert.doesNotMatch(daemon.output, /the spoolers are reloaded/)
    })
})

import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { endWithTest, openFile, sessionOf, titleOf, untilGone } from '../helpers/proc.js'
import { childrenOf, isAlive, TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

describe('the master', () => {
  it('has more than 16 threads for syncs, and does not pass UV_THREADPOOL_SIZE on to its workers', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory() })
    assert.ok(readdirSync(`/proc/${daemon.pid}/task`).length > 16)
    const worker = await until('the daemon has a worker', () => daemon.workers().at(0))
    assert.doesNotMatch(readFileSync(`/proc/${worker}/environ`, 'latin1'), /UV_THREADPOOL_SIZE/)
  })
})

describe('a daemon that loads its handlers', () => {
  it('is not harmed by SIGUSR1, SIGUSR2 and SIGHUP, and reloads afterwards', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const daemon = await startDaemon({
      spool,
      handler: `
        import { existsSync } from 'node:fs'
        import { setTimeout } from 'node:timers/promises'
        JOURNAL('loading')
        while (!existsSync(${JSON.stringify(gate)})) await setTimeout(5)
        export default (env, task) => { JOURNAL(task.name); return -2 }`,
      isUnready: true,
    })
    await until('the handler loads', () => daemon.journal().length > 0)
    for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP'] as const) daemon.child.kill(signal)
    writeFileSync(gate, '')
    await daemon.waitFor('is running')
    await daemon.waitFor('the spoolers are reloaded')
    drop(spool, 'a')
    await until('the task has run', () => daemon.journal().includes('a'))
    assert.doesNotMatch(daemon.output, /Debugger/)
  })
})

describe('a pidfile', { concurrency: 3 }, () => {
  const withPidfile = (extra: DaemonSetup['ini'] = {}) => {
    const spool = spoolDirectory()
    return { spool, ini: { pidfile: join(dirname(spool), 'pid'), ...extra } }
  }

  it('refuses a second master while the first lives, which goes on', async () => {
    const { spool, ini } = withPidfile()
    const daemon = await startDaemon({ spool, ini })
    const { code, stderr } = await spoold([daemon.iniFile], { cwd: daemon.directory })
    assert.equal(code, 1)
    assert.ok(
      stderr.endsWith(
        `spoold: [PIDFILE_HELD] another spoold (pid ${daemon.pid}) holds ${ini.pidfile}; stop it, or name another pidfile\n`,
      ),
      stderr,
    )
    assert.equal(readFileSync(ini.pidfile, 'utf8'), `${daemon.pid}\n`)
    drop(spool, 'a')
    await until('the first daemon goes on', () => daemon.journal().length > 0)
  })

  it('that a killed master left behind is taken over', async () => {
    const { spool, ini } = withPidfile()
    const first = await startDaemon({ spool, ini })
    const workers = first.children()
    first.child.kill('SIGKILL')
    await untilGone(first.pid, ...workers)
    assert.equal(readFileSync(ini.pidfile, 'utf8'), `${first.pid}\n`)
    const second = await startDaemon({ spool, ini })
    assert.equal(readFileSync(ini.pidfile, 'utf8'), `${second.pid}\n`)
    assert.match(second.output, new RegExp(`^writing pidfile to ${ini.pidfile}$`, 'm'))
    second.child.kill('SIGTERM')
    assert.equal(await second.code(), 0)
    assert.ok(existsSync(ini.pidfile), 'without vacuum it stays, as in uWSGI')
  })

  it('is removed at the end with vacuum, even if it was named from another directory', async () => {
    const { spool } = withPidfile()
    const home = dirname(spool)
    mkdirSync(join(home, 'elsewhere'))
    const ini = { pidfile: 'p', 'safe-pidfile': 's', vacuum: true, chdir: join(home, 'elsewhere') }
    const daemon = await startDaemon({ spool, ini })
    // The pidfile is written before chdir, the safe-pidfile after it.
    const files = [join(home, 'p'), join(home, 'elsewhere', 's')]
    for (const file of files) assert.equal(readFileSync(file, 'utf8'), `${daemon.pid}\n`)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(files.filter(existsSync), [])
    assert.match(
      daemon.output,
      /goodbye to uWSGI\.\nVACUUM: pidfile removed\.\nVACUUM: safe pidfile removed\.\n$/,
    )
  })

  it('is removed when the start fails, and a safe-pidfile is not even written', async () => {
    const { spool, ini } = withPidfile()
    const safe = join(dirname(spool), 'safe')
    const daemon = await startDaemon({
      spool,
      ini: { ...ini, 'safe-pidfile': safe },
      handler: 'throw new Error("boom")',
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    assert.deepEqual([ini.pidfile, safe].filter(existsSync), [])
    assert.doesNotMatch(daemon.output, new RegExp(`writing pidfile to ${safe}`))
  })
})

/** Makes a process stand still after it has sent a message to another process, as on a busy machine. */
const SLOW_TO_LOG = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(`
    const { send } = process
    if (send !== undefined) process.send = (...all) => {
      send.apply(process, all)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
    }`)}`,
}

describe('daemonize', { concurrency: 3 }, () => {
  /** Starts a daemon into the background; its handler file is loaded once `gate` exists. */
  function background(handler?: string, env: NodeJS.ProcessEnv = {}) {
    const spool = spoolDirectory()
    const home = dirname(spool)
    const paths = { log: join(home, 'log'), pid: join(home, 'pid'), gate: join(home, 'gate') }
    writeFileSync(
      join(home, 'h.mjs'),
      handler ??
        `import { existsSync } from 'node:fs'
         import { setTimeout } from 'node:timers/promises'
         while (!existsSync(${JSON.stringify(paths.gate)})) await setTimeout(5)
         export default (env, task) => { console.log('printed by ' + task.name); return task.SPOOL_OK }`,
    )
    const ini = join(home, 'app.ini')
    writeIni(ini, {
      spooler: spool,
      'spooler-import': 'h.mjs',
      daemonize: 'log',
      pidfile: paths.pid,
      vacuum: true,
    })
    const starter = new TestProcess(process.execPath, [BIN, ini], { cwd: home, env })
    return {
      spool,
      starter,
      ...paths,
      text: () => (existsSync(paths.log) ? readFileSync(paths.log, 'utf8') : ''),
    }
  }

  for (const signal of ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const)
    it(`passes on a ${signal} that comes before the daemon runs, and leaves no daemon behind`, async () => {
      const { starter, pid: pidfile, text } = background()
      await until('the handler loads', () => text().includes('spawned the uWSGI spooler'))
      const pid = Number(readFileSync(pidfile, 'utf8'))
      endWithTest(pid)
      starter.child.kill(signal)
      assert.equal(await starter.code(), 1)
      assert.match(starter.output, /\[START_FAILED\] the daemon ended before it ran; .*log says why/)
      await until('the daemon is gone', () => !isAlive(pid))
      assert.ok(!existsSync(pidfile))
    })

  it('returns 0 only once the daemon runs, which has no terminal and logs to its file', async () => {
    const { spool, starter, log, pid: pidfile, gate, text } = background()
    await until('the handler loads', () => text().includes('spawned the uWSGI spooler'))
    const pid = Number(readFileSync(pidfile, 'utf8'))
    endWithTest(pid)
    assert.ok(starter.isRunning, 'it does not run yet')
    writeFileSync(gate, '')
    assert.equal(await starter.code(), 0)
    assert.equal(starter.output, '')
    await until('the log says that the daemon runs', () => text().includes(`is running (pid: ${pid})`))
    assert.notEqual(sessionOf(pid), sessionOf(process.pid), 'a session of its own')
    assert.notEqual(sessionOf(pid), pid, 'which it does not lead: it cannot get a terminal')
    assert.deepEqual(
      [0, 1, 2].map(fd => openFile(pid, fd)),
      ['/dev/null', log, log],
    )
    drop(spool, 'a')
    await until('the task has run', () => text().includes('done with task a'))
    assert.match(text(), /^printed by a$/m)
    process.kill(pid, 'SIGTERM')
    await untilGone(pid)
    assert.match(text(), /goodbye to uWSGI\.\nVACUUM: pidfile removed\.\n$/)
  })

  it('returns 1 with the reason when the daemon cannot start, and logs the reason, too', async () => {
    const { starter, text, pid } = background('throw new Error("boom at load")', SLOW_TO_LOG)
    assert.equal(await starter.code(), 1)
    assert.match(
      starter.output,
      /^spoold: \[HANDLER_UNLOADABLE\] .*h\.mjs could not be loaded: Error: boom at load\n {6}at .*h\.mjs/,
    )
    assert.match(text(), /^spoold: .*h\.mjs could not be loaded: Error: boom at load\n {4,6}at .*h\.mjs/m)
    assert.ok(!existsSync(pid))
  })

  it('returns 1 when the daemon is killed before it runs', async () => {
    const { starter, text, pid: pidfile, log } = background()
    await until('the handler loads', () => text().includes('spawned the uWSGI spooler'))
    const pid = Number(readFileSync(pidfile, 'utf8'))
    const workers = childrenOf(pid)
    endWithTest(pid)
    process.kill(pid, 'SIGKILL')
    assert.equal(await starter.code(), 1)
    await untilGone(...workers)
    assert.equal(starter.output, `spoold: [START_FAILED] the daemon ended before it ran; ${log} says why\n`)
  })

  it('reports a wrong configuration, or a log that cannot be opened, at once', async () => {
    const spool = spoolDirectory()
    const handler = join(dirname(spool), 'h.mjs')
    writeFileSync(handler, 'export default () => -2')
    const args = ['--spooler', spool, '--spooler-import', handler, '--daemonize']
    const unopened = await spoold([...args, '/nonexistent/log'])
    assert.equal(unopened.code, 1)
    assert.match(
      unopened.stderr,
      /^spoold: \[CONFIG_INVALID\] .*\n.*daemonize: \/nonexistent\/log cannot be written, because there is no directory \/nonexistent\n$/,
    )
    const wrong = await spoold([...args, join(dirname(spool), 'log'), '--umask', '9'])
    assert.equal(wrong.code, 1)
    assert.match(wrong.stderr, /umask: expected 3 or 4 octal digits/)
  })
})

describe('the umask, environment and directory of handlers', { concurrency: 3 }, () => {
  const REPORT = `export default (env, task) => {
    const umask = process.umask(0); process.umask(umask)
    JOURNAL(JSON.stringify({ umask, cwd: process.cwd(), made: process.env.MADE, gone: process.env.GONE }))
    return task.SPOOL_OK
  }`

  it('are what umask, env, unenv and spooler-chdir ask for', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: REPORT,
      env: { GONE: 'x' },
      ini: { umask: '027', env: 'MADE=a=b', unenv: 'GONE', 'spooler-chdir': '/' },
    })
    drop(spool, 'a')
    await until('the task has run', () => daemon.journal().length > 0)
    assert.deepEqual(JSON.parse(daemon.journal()[0] ?? ''), { umask: 0o027, cwd: '/', made: 'a=b' })
  })

  it('are those of the start and of the spool where no option is set', async () => {
    const spool = spoolDirectory()
    const umask = process.umask()
    const daemon = await startDaemon({ spool, handler: REPORT, env: { GONE: 'x' } })
    drop(spool, 'a')
    await until('the task has run', () => daemon.journal().length > 0)
    assert.deepEqual(JSON.parse(daemon.journal()[0] ?? ''), { umask, cwd: spool, gone: 'x' })
  })

  it('apply chdir to relative names of handler files, but not to those of spools', async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    mkdirSync(join(home, 'app'))
    const daemon = await startDaemon({
      spool,
      ini: { spooler: basename(spool), 'spooler-import': 'moved.mjs', chdir: 'app' },
      isUnready: true,
      handler: REPORT,
    }).then(async early => {
      await early.code() // the handler file is not there yet
      assert.match(early.output, /app\/moved\.mjs cannot be read/)
      renameSync(early.handlerFile, join(home, 'app', 'moved.mjs'))
      const again = new TestProcess(process.execPath, [BIN, early.iniFile], { cwd: home })
      await again.waitFor('is running')
      return Object.assign(again, { journal: early.journal })
    })
    assert.match(daemon.output, /^chdir\(\) to app$/m)
    drop(spool, 'a')
    await until('the task has run', () => daemon.journal().length > 0)
    assert.equal(JSON.parse(daemon.journal()[0] ?? '').cwd, spool)
  })
})

describe('procname', { concurrency: 3 }, () => {
  const CASES: ReadonlyArray<readonly [NonNullable<DaemonSetup['ini']>, string, string]> = [
    [{ 'auto-procname': true }, 'uWSGI master', 'uWSGI spooler'],
    [{ 'procname-prefix': 'app-' }, 'app-uWSGI master', 'app-uWSGI spooler'],
    [{ 'procname-prefix-spaced': 'app' }, 'app uWSGI master', 'app uWSGI spooler'],
    [{ 'procname-append': '/app' }, 'uWSGI master/app', 'uWSGI spooler/app'],
    [{ procname: 'name', 'procname-prefix': '<', 'procname-append': '>' }, '<name>', '<name>'],
    [{ 'procname-master': 'boss', 'procname-prefix': '<' }, '<boss', '<uWSGI spooler'],
  ]
  for (const [ini, master, worker] of CASES)
    it(`names the processes as uWSGI does with ${JSON.stringify(ini)}`, async () => {
      const daemon = await startDaemon({ spool: spoolDirectory(), ini })
      assert.equal(titleOf(daemon.pid), master)
      assert.deepEqual(daemon.workers().map(titleOf), [worker])
    })

  it('leaves the command line as it is where no such option is set', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory() })
    assert.ok(titleOf(daemon.pid).includes(daemon.iniFile))
  })
})

describe('--drain', { concurrency: 3 }, () => {
  it('runs what is due and exits, and leaves tasks that are for later or are to run again', async () => {
    const spool = spoolDirectory()
    const soon = Math.floor(Date.now() / 1000) + 1000
    for (let i = 0; i < 20; i++) drop(spool)
    drop(spool, 'later', packet({}), soon)
    drop(spool, 'at', packet({ at: String(soon) }))
    drop(spool, 'again', packet({ again: '1' }))
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL(task.name); return env.again ? task.SPOOL_RETRY : task.SPOOL_OK }`,
      args: ['--drain'],
    })
    assert.equal(await daemon.code(), 3, 'one is to run again')
    assert.equal(daemon.journal().length, 21)
    assert.deepEqual(leftIn(spool), ['again', 'at', 'later'])
    assert.match(daemon.output, /goodbye to uWSGI\.\n$/)
  })

  it('runs tasks that its tasks store', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a-3')
    const daemon = await startDaemon({
      spool,
      handler: `
        import { copyFileSync } from 'node:fs'
        export default (env, { name, path, SPOOL_OK }) => {
          JOURNAL(name)
          const left = Number(name.slice(2))
          if (left > 0) copyFileSync(path, path.replace(name, 'a-' + (left - 1)))
          return SPOOL_OK
        }`,
      args: ['--drain'],
    })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['a-3', 'a-2', 'a-1', 'a-0'])
  })

  it('exits with 0 for an empty spool', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory(), args: ['--drain'] })
    assert.equal(await daemon.code(), 0)
  })
})

describe('a start that fails', { concurrency: 3 }, () => {
  it('exits with 1 and the stack of a handler that cannot be loaded, and leaves no process', async () => {
    const daemon = await startDaemon({
      spool: spoolDirectory(),
      handler: `function deep() { throw new Error('boom') }\ndeep()`,
      ini: { 'spooler-processes': 2 },
      isUnready: true,
    })
    await daemon.waitFor('spawned the uWSGI spooler')
    const workers = [...daemon.output.matchAll(/with pid (\d+)/g)].map(([, pid]) => Number(pid))
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /spoold: .*handler\.mjs could not be loaded: Error: boom\n {6}at deep \(.*handler\.mjs/,
    )
    await untilGone(...workers)
  })

  it('exits with 1 for a module without a handler, and says what was expected', async () => {
    const daemon = await startDaemon({
      spool: spoolDirectory(),
      handler: 'export const x = 1',
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /exports no handler: expected a default function or one named "spooler", or Tasks, got x\n$/,
    )
  })

  it('exits with 1 and every error of a wrong configuration', async () => {
    const daemon = await startDaemon({
      spool: spoolDirectory(),
      ini: { 'spooler-frequency': 'often', 'spooler-processes': -1 },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /^spoold: \[CONFIG_INVALID\] the configuration is wrong:\n.*app\.ini:4: error: spooler-frequency.*\n.*app\.ini:5: error: spooler-processes.*\n$/,
    )
  })

  it('is reported in the log file as well', async () => {
    const spool = spoolDirectory()
    const logto = join(dirname(spool), 'log')
    const daemon = await startDaemon({
      spool,
      handler: 'throw new Error("boom")',
      ini: { logto },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    for (const text of [daemon.output, readFileSync(logto, 'utf8')])
      assert.match(text, /^spoold: .*handler\.mjs could not be loaded: Error: boom$/m)
  })
})

import assert from 'node:assert/strict'
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { endWithTest, untilGone } from '../helpers/proc.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { ServiceManagerSocket } from '../helpers/service-manager.js'
import { stopwatch, until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const skip = skipUnless('python3', 'systemd')
const SECOND = 1_000_000

/** A handler whose loading waits for the file `loaded`, and whose tasks wait for the file that `until` names. */
const PATIENT = (home: string) => `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const opened = async name => { while (!existsSync('${home}/' + name)) await setTimeout(5) }
if (process.env.SLOW_LOAD) await opened('loaded')
export default async (env, task) => {
  JOURNAL('began ' + JSON.stringify([process.env.NOTIFY_SOCKET ?? null, process.env.WATCHDOG_USEC ?? null]))
  if (env.until) await opened(env.until)
  return task.SPOOL_OK
}`

/** Starts a daemon that speaks to a service manager. */
async function start(
  setup: Partial<DaemonSetup> & { readonly watchdogUsec?: number; readonly socket?: string } = {},
) {
  const manager = await ServiceManagerSocket.listen(setup.socket)
  const spool = setup.spool ?? spoolDirectory()
  const home = dirname(spool)
  const watchdog = setup.watchdogUsec === undefined ? {} : { WATCHDOG_USEC: String(setup.watchdogUsec) }
  const env = { NOTIFY_SOCKET: manager.socket, ...watchdog, ...setup.env }
  const daemon = await startDaemon({ handler: PATIENT(home), ...setup, spool, env })
  return { manager, spool, daemon, open: (name: string) => writeFileSync(join(home, name), '') }
}

describe('a service manager hears', { skip }, () => {
  it('READY when tasks can run and not before, then STATUS; handlers do not get NOTIFY_SOCKET', async () => {
    const { manager, spool, daemon, open } = await start({ env: { SLOW_LOAD: '1' }, isUnready: true })
    await daemon.waitFor(/spawned the uWSGI spooler/)
    drop(spool, 'a', packet({}))
    assert.deepEqual(manager.messages, [])
    assert.deepEqual(daemon.journal(), [])
    open('loaded')
    const ready = await manager.heard('READY')
    assert.equal(ready.fields.READY, '1')
    assert.match(ready.fields.STATUS ?? '', /^[01] tasks done/) // the task may have run by now
    assert.equal(ready.fields.MAINPID, undefined)
    assert.equal(ready.pid, daemon.pid)
    await until('the task has run', () => daemon.journal().includes('began [null,null]'))
    const done = '1 task done, 0 running, 0 queued, 0 waiting'
    await until('the status says so', () => manager.messages.some(({ fields }) => fields.STATUS === done))
  })

  it('nothing between STATUS and STOPPING if nothing changes and there is no watchdog', async () => {
    const { manager, spool, daemon } = await start()
    await manager.heard('READY')
    drop(spool, 'a', packet({}))
    await manager.heard('STATUS', 1)
    const { length } = manager.messages
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await manager.heard('STOPPING')
    assert.deepEqual(
      manager.messages.slice(length).map(({ fields }) => Object.keys(fields).sort()),
      [['EXTEND_TIMEOUT_USEC', 'STOPPING']],
    )
  })

  it('RELOADING with the time, and READY after it, even if the new configuration is refused', async () => {
    const { manager, spool, daemon } = await start()
    await manager.heard('READY')
    const before = process.hrtime.bigint() / 1000n
    daemon.child.kill('SIGHUP')
    const reloading = await manager.heard('RELOADING')
    const time = BigInt(reloading.fields.MONOTONIC_USEC ?? 0)
    assert.ok(time >= before && time <= process.hrtime.bigint() / 1000n, `${before} ${time}`)
    await until('the daemon is ready again', () => manager.with('READY').length === 2)
    const good = readFileSync(daemon.iniFile)
    writeIni(daemon.iniFile, { spooler: spool, 'spooler-frequency': 'often' })
    daemon.child.kill('SIGHUP')
    const refused = await until('the daemon goes on', () => manager.with('READY')[2])
    assert.match(refused.fields.STATUS ?? '', /^reload refused: .*spooler-frequency/)
    const order = manager.messages.flatMap(({ fields }) => Object.keys(fields))
    assert.deepEqual(
      order.filter(name => name === 'READY' || name === 'RELOADING'),
      ['READY', 'RELOADING', 'READY', 'RELOADING', 'READY'],
    )
    writeFileSync(daemon.iniFile, good)
    daemon.child.kill('SIGHUP')
    const taken = await until('the daemon is ready once more', () => manager.with('READY')[3])
    assert.match(
      taken.fields.STATUS ?? '',
      /^0 tasks done/,
      'the status no longer says that the reload was rejected',
    )
  })

  it('STOPPING, and EXTEND_TIMEOUT_USEC within worker-reload-mercy while a task still runs', async () => {
    const { manager, spool, daemon, open } = await start({
      watchdogUsec: SECOND, // so that the daemon speaks twice per second
      ini: { 'worker-reload-mercy': 8 },
    })
    drop(spool, 'a', packet({ until: 'gate' }))
    await until('the task runs', () => daemon.journal().length > 0)
    daemon.child.kill('SIGTERM')
    const stopping = await manager.heard('STOPPING')
    const extensions = () =>
      manager.with('EXTEND_TIMEOUT_USEC').map(({ fields }) => Number(fields.EXTEND_TIMEOUT_USEC))
    assert.equal(Number(stopping.fields.EXTEND_TIMEOUT_USEC), extensions()[0])
    await until('the daemon has extended the timeout four times', () => extensions().length >= 4)
    for (const usec of extensions()) assert.ok(usec > 5 * SECOND && usec <= 13.1 * SECOND, String(usec))
    assert.ok((extensions()[3] ?? 0) < (extensions()[0] ?? 0), 'the remaining mercy shrinks')
    assert.ok(daemon.isRunning)
    open('gate')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(leftIn(spool), [])
  })

  it('READY and STOPPING on an abstract socket', async () => {
    const { manager, daemon } = await start({ socket: `@spoold-test-${process.pid}` })
    await manager.heard('READY')
    daemon.child.kill('SIGTERM')
    await manager.heard('STOPPING')
    assert.equal(await daemon.code(), 0)
  })

  it('READY and STOPPING under --drain', async () => {
    const { manager, daemon } = await start({ args: ['--drain'], isUnready: true })
    assert.equal(await daemon.code(), 0)
    await manager.heard('STOPPING')
    const names = manager.messages.flatMap(({ fields }) => Object.keys(fields))
    assert.deepEqual(
      names.filter(name => name === 'READY' || name === 'STOPPING'),
      ['READY', 'STOPPING'],
    )
  })
})

describe('a service manager that does not listen', { skip }, () => {
  it('causes one warning, and tasks run', async () => {
    const bin = workspace()
    const env = { PATH: bin, NOTIFY_SOCKET: join(bin, 'nobody-listens'), WATCHDOG_USEC: String(SECOND / 2) }
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, env })
    await daemon.waitFor(/unable to notify the service manager: .*ENOENT/)
    drop(spool, 'a', packet({}))
    await until('the task has run', () => daemon.journal().length > 0)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.equal(daemon.output.split('unable to notify').length, 2)
  })
})

/** Makes each thread that lists the directory wait in the call, as for a file server that does not answer. */
function hangInListing(pid: number, directory: string): TestProcess {
  const process = ['-f', '-q', '-p', String(pid), '-P', directory, '-o', '/dev/null']
  return new TestProcess('strace', [
    ...process,
    ...['-e', 'trace=getdents64', '-e', 'inject=getdents64:delay_enter=600s'],
  ])
}

describe('the watchdog of a service manager', { skip }, () => {
  it('is fed by an idle daemon at half of WatchdogSec', async () => {
    const { manager, daemon } = await start({ watchdogUsec: SECOND })
    const isFed = (count: number) =>
      until('the watchdog is fed', () => manager.with('WATCHDOG').length >= count)
    await isFed(2)
    const since = performance.now()
    for (let count = 3; count <= 6; count++) {
      const took = stopwatch(daemon.pid)
      await isFed(count)
      const ms = took()
      assert.ok(ms < 1000, `${ms} ms`)
    }
    const mean = (performance.now() - since) / 4
    assert.ok(mean > 400, `${mean} ms`)
  })

  it('is fed while all workers are busy and tasks wait', async () => {
    const { manager, spool, daemon } = await start({ watchdogUsec: SECOND / 2 })
    for (const name of ['a', 'b', 'c']) drop(spool, name, packet({ until: 'never' }))
    await until('one task runs', () => daemon.journal().length > 0)
    const fed = manager.with('WATCHDOG').length
    await until('the watchdog is fed', () => manager.with('WATCHDOG').length >= fed + 6)
  })

  it('is fed while the spool is paused and tasks are due', async () => {
    const { manager, spool, daemon } = await start({ watchdogUsec: SECOND / 2 })
    assert.equal((await spoold(['pause', spool])).code, 0)
    await daemon.waitFor(/paused/)
    drop(spool, 'a', packet({}))
    await until('the task is due', () =>
      manager.messages.some(({ fields }) => / 1 queued/.test(fields.STATUS ?? '')),
    )
    const fed = manager.with('WATCHDOG').length
    await until('the watchdog is fed', () => manager.with('WATCHDOG').length >= fed + 6)
    assert.deepEqual(leftIn(spool), ['a'])
  })

  it('is not fed while the scan of a spool hangs, and is fed again when the scan goes on', {
    skip: skipUnless('strace'),
  }, async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 1500; i++) writeFileSync(join(spool, `${i}.tmp`), '') // too many for one call
    const { manager, daemon } = await start({
      spool,
      watchdogUsec: SECOND,
      ini: { 'spooler-frequency': 0.2, 'spooler-watch': 'off' },
    })
    await until('the watchdog is fed', () => manager.with('WATCHDOG').length >= 2)
    const hang = hangInListing(daemon.pid, spool)
    drop(spool, 'a', packet({})) // the stamp of the directory changes, so the directory is listed again
    let fed = 0
    try {
      await until('a thread hangs', () => isTraced(daemon.pid))
      // on a slow machine the daemon may have said so before
      const saidLast = (words: string) => daemon.output.lastIndexOf(`the scan makes ${words}`)
      let more = 0
      await until('the daemon logs that the scan makes no progress', () => {
        writeFileSync(join(spool, `more-${more++}.tmp`), '') // the listing of 'a' may have been over before it was traced
        return saidLast('no progress; the service') > saidLast('progress again')
      })
      const said = await until('the status says that the scan is stalled', () =>
        manager.with('STATUS').find(({ fields }) => /stalled/.test(fields.STATUS ?? '')),
      )
      assert.match(said.fields.STATUS ?? '', new RegExp(`^the scan of ${spool} is stalled; `))
      fed = manager.with('WATCHDOG').length // all that was sent before that status has arrived
      daemon.child.kill('SIGHUP') // for further messages, with which the watchdog could be fed
      await until('the daemon has reloaded', () => manager.with('READY').length === 2)
      assert.equal(manager.with('WATCHDOG').length, fed)
    } finally {
      hang.child.kill('SIGTERM')
    }
    await hang.exited
    await daemon.waitFor(/the scan makes progress again/)
    await until('the watchdog is fed again', () => manager.with('WATCHDOG').length >= fed + 2)
    await until('the task has run', () => daemon.journal().length > 0)
  })

  it('is not fed if WATCHDOG_PID names another process', async () => {
    const own = await start({ watchdogUsec: SECOND })
    assert.equal((await own.manager.heard('READY')).fields.WATCHDOG, '1')
    const others = await start({ watchdogUsec: SECOND, env: { WATCHDOG_PID: '1' } })
    assert.equal((await others.manager.heard('READY')).fields.WATCHDOG, undefined)
  })
})

/** Returns true if a tracer holds one of the threads of the process. */
function isTraced(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).some(thread =>
    /^State:\tt/m.test(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')),
  )
}

describe('a daemon that is not the process that systemd started', { skip }, () => {
  /** A program that becomes spoold, so that WATCHDOG_PID is its own pid. */
  const BECOME =
    'import os, sys; os.environ["WATCHDOG_PID"] = str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])'

  /** Halts a process that has said that the daemon runs until `go` is there: what the service manager hears was sent before. */
  const STANDS_STILL = (go: string) =>
    `--import=data:text/javascript,${encodeURIComponent(`
      import { existsSync } from 'node:fs'
      const { send } = process
      if (send !== undefined) process.send = (...all) => {
        const isSent = send.apply(process, all)
        const cell = new Int32Array(new SharedArrayBuffer(4))
        while (all[0]?.started === true && !existsSync(${JSON.stringify(go)})) Atomics.wait(cell, 0, 0, 10)
        return isSent
      }`)}`

  async function launch(ini: DaemonSetup['ini'], owner?: number) {
    const manager = await ServiceManagerSocket.listen()
    chmodSync(dirname(manager.socket), 0o755)
    const spool = spoolDirectory()
    const home = dirname(spool)
    chmodSync(home, 0o755)
    if (owner !== undefined) giveAway(spool)
    writeFileSync(join(home, 'h.mjs'), 'export default () => -2')
    writeIni(join(home, 'app.ini'), { spooler: spool, 'spooler-import': 'h.mjs', pidfile: 'pid', ...ini })
    const go = join(home, 'go')
    const starter = new TestProcess(PYTHON, ['-c', BECOME, process.execPath, BIN, 'app.ini'], {
      cwd: home,
      env: { NOTIFY_SOCKET: manager.socket, WATCHDOG_USEC: String(SECOND), NODE_OPTIONS: STANDS_STILL(go) },
    })
    const pidIn = () => Number(existsSync(join(home, 'pid')) ? readFileSync(join(home, 'pid'), 'utf8') : 0)
    return { manager, starter, pidIn, goOn: () => writeFileSync(go, '') }
  }

  it('sends its MAINPID after daemonize, before the first process ends, and feeds the watchdog', async () => {
    const { manager, starter, pidIn, goOn } = await launch({ daemonize: 'log' })
    assert.equal(await starter.code(), 0, starter.output)
    endWithTest(pidIn())
    assert.equal((await manager.heard('READY')).fields.MAINPID, String(pidIn()))
    goOn()
    await until('the watchdog is fed', () => manager.with('WATCHDOG').length >= 2)
    process.kill(pidIn(), 'SIGTERM')
    await untilGone(pidIn())
    await manager.heard('STOPPING')
    assert.equal(manager.with('STOPPING').length, 1)
  })

  // systemd kills a main process that is not its own child at once when it stops the service
  it('is no child of the first process any more when it sends its MAINPID', async () => {
    const { manager, starter, pidIn, goOn } = await launch({ daemonize: 'log' })
    await until('the daemon has written its pid', () => pidIn() > 0)
    starter.child.kill('SIGSTOP')
    endWithTest(pidIn())
    await manager.heard('READY')
    assert.match(readFileSync(`/proc/${starter.pid}/stat`, 'latin1'), /\) T /)
    assert.doesNotMatch(
      readFileSync(`/proc/${pidIn()}/status`, 'latin1'),
      new RegExp(`PPid:\t${starter.pid}\n`),
    )
    starter.child.kill('SIGCONT')
    goOn()
    assert.equal(await starter.code(), 0, starter.output)
    process.kill(pidIn(), 'SIGTERM')
    await untilGone(pidIn())
  })

  const asRoot = { 'master-as-root': true, uid: USER, gid: USER }

  it('speaks for its root parent without a MAINPID', { skip: skipUnless('root') }, async () => {
    const { manager, starter, goOn } = await launch(asRoot, USER)
    goOn()
    const ready = await manager.heard('READY')
    assert.equal(ready.fields.MAINPID, undefined)
    await until('the watchdog is fed', () => manager.with('WATCHDOG').length >= 2)
    starter.child.kill('SIGTERM')
    await manager.heard('STOPPING')
    assert.equal(await starter.code(), 0)
  })

  it('names its root parent in the background as MAINPID', { skip: skipUnless('root') }, async () => {
    const { manager, starter, pidIn, goOn } = await launch({ ...asRoot, daemonize: 'log' }, USER)
    assert.equal(await starter.code(), 0, starter.output)
    endWithTest(pidIn())
    assert.equal((await manager.heard('READY')).fields.MAINPID, String(pidIn()))
    goOn()
    process.kill(pidIn(), 'SIGTERM')
    await untilGone(pidIn())
  })
})

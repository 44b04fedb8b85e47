import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const PASSED_OVER = ['SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGIO', 'SIGPWR'] as const

describe('signals that a daemon obeys or ignores', () => {
  it('do not end a daemon from the first line of its code on, and a SIGHUP reloads it once it runs', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory(), isUnready: true })
    await until('the daemon catches SIGHUP', () => isCaught(daemon.pid, 1))
    assert.equal(daemon.output, '')
    for (const signal of [...PASSED_OVER, 'SIGUSR1', 'SIGHUP'] as const) daemon.child.kill(signal)
    await daemon.waitFor(/is running \(pid/)
    await daemon.waitFor(/reload/)
    assert.ok(daemon.isRunning)
  })

  it('do not end a running daemon', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory() })
    for (const signal of PASSED_OVER) daemon.child.kill(signal)
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/reload/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

describe('a SIGHUP to the process group that kills a worker while Node boots it', () => {
  /** Starts a daemon whose workers do not get past Node's boot for as long as there is a file `held`. */
  const startHeld = (isHeldFromStart: boolean) => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    const [held, booting, preload] = ['held', 'booting', 'preload.cjs'].map(name => join(directory, name))
    assert.ok(held !== undefined && booting !== undefined && preload !== undefined)
    writeFileSync(
      preload,
      `const { existsSync, writeFileSync } = require('node:fs')
      if (process.argv[1]?.endsWith('worker.cjs') && existsSync(${JSON.stringify(held)})) {
        writeFileSync(${JSON.stringify(booting)}, String(process.pid))
        while (existsSync(${JSON.stringify(held)})) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
      }`,
    )
    const hold = () => writeFileSync(held, '')
    if (isHeldFromStart) hold()
    const env = { NODE_OPTIONS: `--require=${preload}` }
    const daemon = startDaemon({ spool, env, isGroup: true, isUnready: isHeldFromStart })
    const hungUpWhileItBoots = async () => {
      await until('a worker boots', () => existsSync(booting))
      const { pid } = await daemon
      process.kill(-pid, 'SIGHUP')
      await (await daemon).waitFor(`pid: ${readFileSync(booting, 'utf8')}] the process was killed by SIGHUP`)
      rmSync(held)
    }
    return { daemon, hold, hungUpWhileItBoots }
  }

  it('does not make the daemon reject a reload', async () => {
    const { daemon: started, hold, hungUpWhileItBoots } = startHeld(false)
    const daemon = await started
    hold()
    process.kill(-daemon.pid, 'SIGHUP')
    await hungUpWhileItBoots()
    await daemon.waitFor(/(the spoolers are reloaded.*){2}/s)
    assert.doesNotMatch(daemon.output, /rejected/)
  })

  it('does not end a daemon that starts, which then has no more workers than configured', async () => {
    const { daemon: started, hungUpWhileItBoots } = startHeld(true)
    const daemon = await started
    await daemon.waitFor(/spawned the uWSGI spooler/)
    await hungUpWhileItBoots()
    await daemon.waitFor(/is running.*the spoolers are reloaded/s)
    await until('the daemon has one worker', () => daemon.workers().length === 1)
  })
})

describe('SIGPROF, which belongs to V8', () => {
  /** Returns how many samples each profile in the directory has. */
  const samplesIn = (directory: string) =>
    readdirSync(directory)
      .filter(name => name.endsWith('.cpuprofile'))
      .map(name => JSON.parse(readFileSync(join(directory, name), 'utf8')).samples.length)
  const profiling = (directory: string) => ['--cpu-prof', `--cpu-prof-dir=${directory}`]

  it('is left alone by a command, so that node --cpu-prof profiles it', async () => {
    const directory = workspace()
    const command = new TestProcess(process.execPath, [...profiling(directory), BIN, 'ls', spoolDirectory()])
    assert.equal(await command.code(), 0, command.output)
    assert.equal(samplesIn(directory).length, 1)
  })

  it('is left alone by a daemon and its workers, so that node --cpu-prof profiles them all', async () => {
    const [directory, spool] = [workspace(), spoolDirectory()]
    drop(spool, 'task', packet({ n: '1' }))
    const [ini, handler] = [join(directory, 'app.ini'), join(directory, 'handler.mjs')]
    writeFileSync(handler, 'export default (env, task) => task.SPOOL_OK')
    writeIni(ini, { spooler: spool, 'spooler-import': handler, drain: true })
    const daemon = new TestProcess(process.execPath, [...profiling(directory), BIN, ini])
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.deepEqual(leftIn(spool), [])
    const samples = samplesIn(directory)
    assert.equal(samples.length, 2)
    assert.ok(Math.min(...samples) > 20, `${samples} samples`)
  })
})

/** True if the process has a function of its own for the signal. */
function isCaught(pid: number, signal: number): boolean {
  const [, mask = '0'] = /^SigCgt:\s*([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return ((BigInt(`0x${mask}`) >> BigInt(signal - 1)) & 1n) === 1n
}

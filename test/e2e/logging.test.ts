import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { untilGone } from '../helpers/proc.js'
import { childrenOf, TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const textOf = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : '')

const untilLogged = (file: string, text: string | RegExp) =>
  until(`${file} has ${text}`, () =>
    typeof text === 'string' ? textOf(file).includes(text) : text.test(textOf(file)),
  )

/** Prints the name of its task on both standard streams. */
const PRINTING = `export default (env, task) => {
  console.log('out ' + task.name)
  console.error('err ' + task.name)
  JOURNAL(task.name)
  return task.SPOOL_OK
}`

describe('the log', () => {
  it("has the life of a daemon in uWSGI's lines", async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    drop(spool, 'a')
    await daemon.waitFor('done with task a')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    const [, worker] = /with pid (\d+)/.exec(daemon.output) ?? []
    assert.deepEqual(daemon.output.split('\n'), [
      `[uWSGI] getting INI configuration from ${daemon.iniFile}`,
      `spawned uWSGI master process (pid: ${daemon.pid})`,
      `[spooler ${spool}] claims with record locks (spooler-lock = ofd)`,
      `spawned the uWSGI spooler on dir ${spool} with pid ${worker}`,
      `*** spoold 0.1.0 is running (pid: ${daemon.pid}) ***`,
      `[spooler ${spool} pid: ${worker}] managing request a ...`,
      `[spooler ${spool} pid: ${worker}] done with task a after 0 seconds`,
      'SIGINT/SIGTERM received...killing workers...',
      `killing the spooler with pid ${worker}`,
      `spooler (pid: ${worker}) annihilated`,
      'goodbye to uWSGI.',
      '',
    ])
  })

  it('has no line about single tasks with spooler-quiet', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, ini: { 'spooler-quiet': true } })
    drop(spool, 'a')
    await until('the task has run', () => leftIn(spool).length === 0)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /managing|done with/)
  })

  it('begins every line with the date with --log-date', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, args: ['--log-date'] })
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    const lines = daemon.output.trimEnd().split('\n')
    for (const line of lines)
      assert.match(line, /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} - \S/)
  })

  it('takes the format of the date from an ini, where % is doubled', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory(), ini: { 'log-date': '%%Y/%%m [%%H]' } })
    assert.match(daemon.output, /^\d{4}\/\d\d \[\d\d\] - \*\*\* spoold .* is running/m)
  })

  it('is one JSON object a line with log-format = json, with fields', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      ini: { 'log-format': 'json', 'log-date': true },
      handler: `export default (env, task) => { task.log('hello'); if (env.fail) throw new Error('boom'); return -2 }`,
    })
    drop(spool, 'a')
    drop(spool, 'b', packet({ fail: '1' }))
    await daemon.waitFor('done with task a')
    await daemon.waitFor('boom')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    const lines = daemon.output
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    for (const { level, time, pid, msg } of lines) {
      assert.ok(['info', 'warn', 'error'].includes(level))
      assert.ok(Math.abs(time - Date.now()) < 60_000)
      assert.equal(pid, daemon.pid)
      assert.equal(typeof msg, 'string')
    }
    const [worker] = lines
      .filter(({ msg }) => msg.startsWith('spawned the uWSGI spooler'))
      .map(each => each.worker)
    const find = (part: string) => lines.find(({ msg }) => msg.includes(part))
    const { level, spool: where, worker: who, task, ranMs } = find('done with task a')
    assert.deepEqual({ level, where, who, task }, { level: 'info', where: spool, who: worker, task: 'a' })
    assert.equal(typeof ranMs, 'number')
    assert.match(find('failed, runs again').msg, /Error: boom\n {4}at /)
    assert.equal(find('failed, runs again').level, 'error')
    assert.equal(find('a: hello').task, 'a')
  })
})

describe('logto', () => {
  it('appends what the daemon logs and what handlers print, and leaves standard error alone', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'log')
    writeFileSync(file, 'before\n')
    const daemon = await startDaemon({ spool, handler: PRINTING, ini: { logto: file }, isUnready: true })
    await untilLogged(file, 'is running')
    drop(spool, 'a')
    await untilLogged(file, 'done with task a')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.match(textOf(file), /^before\n/)
    assert.match(textOf(file), /^out a$/m)
    assert.match(textOf(file), /^err a$/m)
    assert.match(textOf(file), /goodbye to uWSGI\.\n$/)
    assert.equal(daemon.output, '')
  })

  it('is opened anew at a reload after a move, for handlers too, even though the daemon changed its directory', async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    mkdirSync(join(home, 'app'))
    const file = join(home, 'log')
    const daemon = await startDaemon({
      spool,
      handler: PRINTING,
      ini: { logto: 'log', chdir: 'app' },
      isUnready: true,
    })
    await untilLogged(file, 'is running')
    daemon.child.kill('SIGHUP')
    await untilLogged(file, 'the spoolers are reloaded')
    renameSync(file, `${file}.1`)
    drop(spool, 'moved')
    await untilLogged(`${file}.1`, 'done with task moved')
    assert.ok(!existsSync(file))
    daemon.child.kill('SIGHUP')
    await untilLogged(file, /reloaded[\s\S]*annihilated/)
    drop(spool, 'anew')
    await untilLogged(file, 'done with task anew')
    assert.match(textOf(file), /^out anew$/m)
    assert.match(textOf(file), /^err anew$/m)
    assert.doesNotMatch(textOf(`${file}.1`), /anew/)
    assert.equal(statSync(file).mode & 0o777, 0o640)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('is opened anew even if the reload is rejected, for workers that are spawned later, too', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'log')
    const daemon = await startDaemon({ spool, handler: PRINTING, ini: { logto: file }, isUnready: true })
    await untilLogged(file, 'is running')
    renameSync(file, `${file}.1`)
    writeIni(daemon.iniFile, { spooler: spool })
    daemon.child.kill('SIGHUP')
    await untilLogged(
      file,
      /^the reload is rejected, keeping the current configuration: .*there is no handler/m,
    )
    for (const pid of daemon.workers()) process.kill(pid, 'SIGKILL')
    await untilLogged(file, 'spawned the uWSGI spooler')
    drop(spool, 'a')
    await untilLogged(file, 'done with task a')
    assert.match(textOf(file), /^out a$/m)
    assert.match(textOf(file), /^err a$/m)
  })

  it('goes on in the old file and says so if it cannot be reopened', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    const logs = join(home, 'logs')
    mkdirSync(logs)
    const daemon = await startDaemon({ spool, ini: { logto: join(logs, 'log') }, isUnready: true })
    await untilLogged(join(logs, 'log'), 'is running')
    renameSync(logs, join(home, 'moved'))
    daemon.child.kill('SIGHUP')
    await untilLogged(join(home, 'moved', 'log'), /^the log goes on in the old file: .*ENOENT/m)
    await untilLogged(join(home, 'moved', 'log'), 'the reload is rejected, keeping the current configuration')
  })
})

describe('a log that takes nothing', () => {
  it('because its disk is full does not stop tasks, and goes on when there is room', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    const disk = join(home, 'disk')
    mkdirSync(disk)
    const journal = join(home, 'journal')
    const handler = join(home, 'h.mjs')
    writeFileSync(
      handler,
      `import { appendFileSync } from 'node:fs'
       export default (env, task) => {
         console.log('out ' + task.name)
         console.error('err ' + task.name)
         appendFileSync(${JSON.stringify(journal)}, task.name + '\\n')
         return task.SPOOL_OK
       }`,
    )
    const ini = join(home, 'app.ini')
    writeIni(ini, { spooler: spool, 'spooler-import': handler, logto: join(disk, 'log') })
    // A small disk that only this daemon sees; the test reaches it through /proc.
    const mount = `mount -t tmpfs -o size=128k tmpfs "$1" && exec "$2" "$3" "$4"`
    const daemon = new TestProcess('unshare', [
      '-m',
      'sh',
      '-c',
      mount,
      'sh',
      disk,
      process.execPath,
      BIN,
      ini,
    ])
    const seen = (name: string) => join(`/proc/${daemon.pid}/root`, disk, name)
    await untilLogged(seen('log'), 'is running')
    const fill = () => {
      try {
        writeFileSync(seen('filler'), Buffer.alloc(256 * 1024))
      } catch {}
    }
    const hasRun = (name: string) => textOf(journal).split('\n').includes(name)

    fill()
    for (let i = 0; i < 200; i++) drop(spool, `full-${i}`)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.ok(hasRun('full-199'))
    assert.ok(!textOf(seen('log')).includes('done with task full-199'))
    rmSync(seen('filler'))
    await untilLogged(seen('log'), 'done with task full-199')
    drop(spool, 'room')
    await untilLogged(seen('log'), /^out room$/m)
    await untilLogged(seen('log'), /^err room$/m)
    await untilLogged(seen('log'), 'done with task room')

    fill()
    drop(spool, 'full again')
    await until('the task has run', () => hasRun('full again'))
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  /** Starts a daemon whose standard error is a pipe that the test holds; a pipe that Node makes would be a socket. */
  function piped(spool: string, source: string) {
    const home = dirname(spool)
    const fifo = join(home, 'fifo')
    execFileSync('mkfifo', [fifo])
    const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK)
    const writer = openSync(fifo, constants.O_WRONLY)
    writeFileSync(join(home, 'h.mjs'), source)
    const ini = join(home, 'app.ini')
    writeIni(ini, { spooler: spool, 'spooler-import': join(home, 'h.mjs') })
    const child = spawn(process.execPath, [BIN, ini], { stdio: ['ignore', 'ignore', writer] })
    closeSync(writer)
    after(() => void child.kill('SIGKILL'))
    const exited = new Promise<number | null>(resolve => child.once('exit', resolve))
    return { child, exited, pid: child.pid ?? 0, reader }
  }

  /** Starts a daemon whose log is a socket, because the pipes that Node makes are sockets. */
  function unread(tasks: number): ChildProcess {
    const spool = spoolDirectory()
    for (let n = 0; n < tasks; n++) drop(spool, `${n}-${'x'.repeat(200)}`)
    const ini = join(dirname(spool), 'app.ini')
    writeFileSync(join(dirname(spool), 'h.mjs'), 'export default (env, task) => task.SPOOL_OK')
    writeIni(ini, { spooler: spool, 'spooler-import': join(dirname(spool), 'h.mjs') })
    const child = spawn(process.execPath, [BIN, ini, '--drain'], { stdio: ['ignore', 'ignore', 'pipe'] })
    after(() => void child.kill('SIGKILL'))
    return child
  }

  it('because a socket is not read does not keep the daemon from ending', async () => {
    const child = unread(2000)
    let code: number | null | undefined
    child.once('exit', own => (code = own))
    await until('the daemon ends', () => code !== undefined)
    assert.equal(code, 0)
  })

  it('because a socket is read slowly is written to its end', async () => {
    const child = unread(2000)
    const { stderr } = child
    assert.ok(stderr !== null)
    const end = new Promise(resolve => stderr.once('end', resolve))
    let text = ''
    await new Promise(resolve => setTimeout(resolve, 1000))
    stderr.on('data', chunk => {
      text += chunk
      stderr.pause()
      setTimeout(() => stderr.resume(), 100)
    })
    await end
    assert.ok(text.endsWith('goodbye to uWSGI.\n'), text.slice(-500))
  })

  it('because a pipe is not read holds up neither tasks nor a stop', {
    skip: skipUnless('mkfifo'),
  }, async () => {
    const spool = spoolDirectory()
    const daemon = piped(
      spool,
      `export default (env, task) => { task.log('x'.repeat(100_000)); return task.SPOOL_OK }`,
    )
    for (let i = 0; i < 30; i++) drop(spool) // 3 MB, more than any pipe holds
    await until('all tasks have run', () => leftIn(spool).length === 0)
    const workers = childrenOf(daemon.pid)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.exited, 0)
    await untilGone(...workers)
  })

  it('because its reader is gone does not stop tasks', { skip: skipUnless('mkfifo') }, async () => {
    const spool = spoolDirectory()
    const daemon = piped(spool, `export default (env, task) => task.SPOOL_OK`)
    const some = Buffer.alloc(64)
    await until('the daemon logs', () => readSomething(daemon.reader, some))
    closeSync(daemon.reader)
    for (let i = 0; i < 30; i++) {
      const path = drop(spool)
      await until('the task has run', () => !existsSync(path))
    }
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.exited, 0)
  })
})

/** True if there was something to read; a pipe without anything to read throws EAGAIN. */
function readSomething(fd: number, buffer: Buffer): boolean {
  try {
    return readSync(fd, buffer) > 0
  } catch {
    return false
  }
}

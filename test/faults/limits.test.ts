import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { controlOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { socketsOf } from '../helpers/proc.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'
import { hostsOf, startHost } from '../hosts/host-daemon.js'

describe('a worker that is out of descriptors', () => {
  it('is replaced, and its tasks wait for nothing', async () => {
    const spool = spoolDirectory()
    const handler = `
      import { openSync, writeSync } from 'node:fs'
      const journal = openSync(${JSON.stringify(join(dirname(spool), 'journal'))}, 'a')
      const leak = () => { for (;;) openSync('/dev/null') }
      export default async (env, task) => {
        setTimeout(() => { try { leak() } catch {} }, 5)
        await new Promise(resolve => setTimeout(resolve, 2))
        writeSync(journal, env.n + '\\n')
        return task.SPOOL_OK
      }`
    const daemon = await startDaemon({
      spool,
      handler,
      ini: { 'spooler-frequency': 1000, 'spooler-quiet': true },
      under: ['prlimit', '--nofile=120:120'],
    })
    for (let i = 0; i < 20; i++) drop(spool, `task-${i}`, packet({ n: String(i) }))
    await until('all tasks have run', () => leftIn(spool).length === 0, 60_000)
    assert.equal(daemon.journal().length, 20)
    assert.equal(new Set(daemon.journal()).size, 20)
    await daemon.waitFor(/the process cannot continue, replacing it: EMFILE/)
    assert.equal((await deadOf(spool)).size, 0)
  })
})

describe('a worker that may start no process', { skip: skipUnless('root') }, () => {
  it('is replaced without counting an attempt of its task', async () => {
    const spool = spoolDirectory()
    for (const path of [dirname(spool), spool]) chmodSync(path, 0o777)
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { ...{ uid: USER, gid: USER }, 'spooler-exec': 'echo $SPOOL_n', 'spooler-max-attempts': 1 },
    })
    const [worker] = daemon.workers()
    const asUser = [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups']
    execFileSync('setpriv', [...asUser, 'prlimit', `--pid=${worker}`, '--nproc=1'])
    const file = join(dirname(spool), 'task')
    writeFileSync(file, packet({ n: 'it' }))
    chownSync(file, USER, USER)
    renameSync(file, join(spool, 'task'))
    await daemon.waitFor(/the process cannot continue, replacing it: sh cannot be run: .*EAGAIN/)
    await daemon.waitFor('done with task task')
    assert.equal((await deadOf(spool)).size, 0)
  })
})

describe('a worker for which there is no memory to start a process', () => {
  it('is replaced without counting an attempt of its task', async () => {
    const spool = spoolDirectory()
    const [hook, isFull] = [join(dirname(spool), 'hook.cjs'), join(dirname(spool), 'full')]
    writeFileSync(isFull, '')
    writeFileSync(
      hook,
      `const { ChildProcess } = require('node:child_process')
      const { existsSync, rmSync } = require('node:fs')
      const { spawn } = ChildProcess.prototype
      ChildProcess.prototype.spawn = function (options) {
        if (!options.args.some(each => each.includes('spoold_gate')) || !existsSync('${isFull}'))
          return spawn.call(this, options)
        rmSync('${isFull}')
        throw Object.assign(new Error('spawn ENOMEM'), { code: 'ENOMEM', syscall: 'spawn' }) // as Node does
      }`,
    )
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'spooler-exec': 'echo $SPOOL_n', 'spooler-max-attempts': 1 },
      env: { NODE_OPTIONS: `--require=${hook}` },
    })
    drop(spool, 'task')
    await daemon.waitFor(/the process cannot continue, replacing it: sh cannot be run: .*ENOMEM/)
    await daemon.waitFor('done with task task')
    assert.equal((await deadOf(spool)).size, 0)
  })
})

describe('a master that is out of descriptors', () => {
  it('does not blame its spool', () => {
    const program = `
      import { closeSync, openSync } from 'node:fs'
      import { prepareSpool } from ${JSON.stringify(import.meta.resolve('#src/engines/spool/permissions.js'))}
      const open = []
      try { for (;;) open.push(openSync('/dev/null')) } catch {}
      for (let free = 0; free < 8; closeSync(open.pop()), free++)
        try { prepareSpool(${JSON.stringify(spoolDirectory())}) } catch (error) { console.log(error.message) }`
    const command = [process.execPath, '--input-type=module', '-e', program]
    const said = execFileSync('prlimit', ['--nofile=64', ...command], { encoding: 'utf8' })
    assert.doesNotMatch(said, /To fix it/)
  })

  it('says that it cannot fork, and goes on once it has descriptors again', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: 'export default (env, task) => { JOURNAL(env.n); return task.SPOOL_OK }',
    })
    const limit = (most: string) => execFileSync('prlimit', [`--pid=${daemon.pid}`, `--nofile=${most}:`])
    const limits = readFileSync(`/proc/${daemon.pid}/limits`, 'utf8')
    const [, soft = ''] = /^Max open files +(\d+)/m.exec(limits) ?? []
    limit('3')
    for (const worker of daemon.workers()) process.kill(worker, 'SIGKILL')
    await daemon.waitFor(/cannot fork a process, retrying later: .*EMFILE/)
    limit(soft)
    drop(spool, 'task', packet({ n: 'it' }))
    await until('the task has run', () => leftIn(spool).length === 0, 60_000)
    assert.deepEqual(daemon.journal(), ['it'])
  })
})

describe('a command for more spools than it may have open files', () => {
  const top = dirname(spoolDirectory())
  const spools = Array.from({ length: 80 }, (_, i) => join(top, `spool-${i}`))
  for (const each of spools) mkdirSync(join(each, '.spoold'), { recursive: true, mode: 0o700 })
  const limited = (...args: string[]) => {
    const command = ['--nofile=64:64', process.execPath, BIN, ...args]
    const { stdout, stderr } = spawnSync('prlimit', command, { encoding: 'utf8', timeout: 60_000 })
    assert.doesNotMatch(stdout + stderr, /EMFILE/)
    return { stdout, stderr }
  }

  it('shows them all with ls and status, and acts in all of them with purge and retry', () => {
    const run = (...args: string[]) => limited(...args, ...spools).stdout.split('\n')
    const [listed, seen] = [run('ls'), run('status')]
    for (const each of spools) assert.ok(listed.includes(`${each}:`) && seen.includes(each), each)
    for (const command of ['purge', 'retry']) run(command, '--all')
  })

  it('looks for daemons and named tasks in all of them with quiet, logs, hold, release, show and wait, also beside leases', () => {
    for (const command of ['quiet', 'logs']) {
      const { stderr } = limited(command, ...spools)
      for (const each of spools) assert.ok(stderr.includes(`${each}: no daemon runs it`), each)
    }
    for (const each of spools) mkdirSync(join(each, '.spoold/locks'), { mode: 0o700 })
    const files = spools.map(each => drop(each))
    for (const command of ['hold', 'release']) limited(command, ...files)
    const { stdout: shown } = limited('show', ...files)
    const { stderr: awaited } = limited('wait', '--timeout', '1s', ...files)
    for (const each of files) assert.ok(shown.includes(each), each)
    assert.match(awaited, /^spoold: nor have 70 more$/m)
    assert.doesNotMatch(awaited, /unreadable/)
  })

  it('waits in all of them, and says of each task that it is dead, although no daemon answers at their sockets', async t => {
    const files = spools.map(each => drop(each))
    for (const each of spools) {
      const stuck = createServer().listen(controlOf(each))
      t.after(() => stuck.close())
      await once(stuck, 'listening')
    }
    const command = ['--nofile=96:96', process.execPath, BIN, 'wait', ...files]
    const wait = new TestProcess('prlimit', command)
    await until('it is connected', () => socketsOf(wait.pid) > 0)
    assert.equal((await spoold(['cancel', ...files])).code, 0)
    assert.equal(await wait.code(), 1)
    const said = wait.output.trim().split('\n')
    const dead = files.map(
      each => `spoold: dead ${each}: cancelled: it was cancelled, and was not running (attempts: 0)`,
    )
    assert.deepEqual(said.sort(), dead.sort())
  })
})

describe('a directory that goes away', () => {
  it('under a handler that changed to it costs the next task nothing', async () => {
    const spool = spoolDirectory()
    const handler = `
      import { mkdtempSync, rmSync } from 'node:fs'
      export default (env, task) => {
        JOURNAL(env.n + ' ' + task.attempt + (env.n === 'stays' ? ' in ' + process.cwd() : ''))
        if (env.n === 'goes') { const gone = mkdtempSync('/tmp/spoold-test-gone-'); process.chdir(gone); rmSync(gone, { recursive: true }) }
        return task.SPOOL_OK
      }`
    // After fast tasks many are given at once, and one follows another in the same turn of the event loop.
    for (let i = 0; i < 100; i++) drop(spool, `a-${1000 + i}`, packet({ n: 'fast' }))
    const pairs = Array.from({ length: 20 }, (_, i) => [
      [`b-${100 + i}-0`, 'goes'],
      [`b-${100 + i}-1`, 'stays'],
    ]).flat()
    for (const [name = '', n = ''] of pairs) drop(spool, name, packet({ n }))
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-ordered': true } })
    const workers = daemon.workers()
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(
      daemon.journal().slice(100),
      pairs.map(([, n]) => (n === 'goes' ? 'goes 1' : `stays 1 in ${spool}`)),
    )
    assert.deepEqual(daemon.workers(), workers)
  })

  it('and is made again is where handlers run', async () => {
    const spool = spoolDirectory()
    const handler = `
      import { statSync } from 'node:fs'
      export default (env, task) => {
        JOURNAL(env.n + ' ' + process.cwd() + ' ' + (statSync('.').ino === statSync(env.spool).ino)) // Node remembers cwd()
        return task.SPOOL_OK
      }`
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-frequency': 1 } })
    drop(spool, 'a', packet({ n: 'a', spool }))
    await until('the first task has run', () => leftIn(spool).length === 0)
    renameSync(spool, join(dirname(spool), 'was'))
    await daemon.waitFor('the directory cannot be listed')
    rmSync(join(dirname(spool), 'was'), { recursive: true })
    mkdirSync(spool)
    drop(spool, 'b', packet({ n: 'b', spool }))
    await until('the second task has run', () => daemon.journal().length === 2)
    assert.deepEqual(daemon.journal(), [`a ${spool} true`, `b ${spool} true`])
  })
})

describe('a body that a host cannot take', { skip: skipUnless('python3') }, () => {
  for (const [title, handlers] of [
    ['alone', {}],
    ['one of several handlers', { 'spooler-import': 'handler.mjs' }],
  ] as const)
    it(`fails its own task alone (the host is ${title})`, async () => {
      const spool = spoolDirectory()
      writeFileSync(join(dirname(spool), 'handler.mjs'), 'export default () => 0\n') // SPOOL_IGNORE
      const file = drop(spool, 'huge', packet({ n: 'huge' }))
      truncateSync(file, 5 * 2 ** 30)
      for (let i = 0; i < 5; i++) drop(spool, `small-${i}`, packet({ n: String(i) }))
      const daemon = await startHost('python', {
        spool,
        handler: `def spooler(env):\n    journal(env['spooler_task_name'].decode())\n    return -2\nuwsgi.spooler = spooler\n`,
        ini: { 'spooler-frequency': 1, 'spooler-max-attempts': 2, ...handlers },
      })
      await until('only dead letters are left', () => leftIn(spool).length === 0)
      const letter = JSON.parse(readFileSync(join(spool, '.spoold/dead/huge.json'), 'utf8'))
      assert.equal(letter.reason, 'attempts')
      assert.match(letter.lastError, /its body has \d+ bytes, a handler in another language takes/)
      assert.equal(daemon.journal().length, 5)
    })

  for (const [title, misdeed, line, dead] of [
    [
      'the disk cannot read it',
      `throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' })`,
      /EIO: i\/o error, read/,
      ['bad'],
    ],
    [
      'the file is cut after its header was read',
      `fs.truncateSync('/proc/self/fd/' + fd, 1000)`,
      /the body ends after \d+ of 200000 bytes: the file was cut while it ran/,
      [], // the next time the body is as long as the file
    ],
  ] as const)
    it(`fails its own task alone if ${title}`, async () => {
      const spool = spoolDirectory()
      const hook = join(dirname(spool), 'body.cjs')
      writeFileSync(
        hook,
        `const fs = require('node:fs')
const { readSync } = fs
fs.readSync = (...args) => { // the byte at 3 is the state
  const [fd, , , , position] = args
  if (position > 3 && fs.readlinkSync('/proc/self/fd/' + fd).endsWith('/bad')) ${misdeed}
  return readSync(...args)
}
require('node:module').syncBuiltinESMExports()\n`,
      )
      drop(spool, 'bad', packet({ n: 'bad' }, 'x'.repeat(200_000)))
      for (let i = 0; i < 5; i++) drop(spool, `good-${i}`, packet({ n: String(i) }, 'a body'))
      const daemon = await startHost('python', {
        spool,
        handler: `def spooler(env):\n    journal(env['spooler_task_name'].decode())\n    return -2\nuwsgi.spooler = spooler\n`,
        ini: { 'spooler-frequency': 1, 'spooler-max-attempts': 2 },
        env: { ...process.env, NODE_OPTIONS: `--require=${hook}` },
      })
      const workers = daemon.workers()
      await until('only dead letters are left', () => leftIn(spool).length === 0)
      await daemon.waitFor(line)
      assert.deepEqual([...(await deadOf(spool)).keys()], dead)
      assert.equal(daemon.journal().length, 6 - dead.length)
      assert.deepEqual(daemon.workers(), workers, 'no process went down with it')
    })
})

describe('an interpreter that cannot be replaced, for want of descriptors', {
  skip: skipUnless('python3'),
}, () => {
  it('ends its worker, which says why, and the next worker runs new tasks', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `def spooler(env):\n    journal('ran')\n    return -2\nuwsgi.spooler = spooler\n`,
    })
    drop(spool)
    await until('the first task has run', () => leftIn(spool).length === 0)
    const [worker = 0] = daemon.workers()
    const [host = 0] = hostsOf(daemon)
    execFileSync('prlimit', [`--pid=${worker}`, '--nofile=3:'])
    process.kill(host, 'SIGKILL')
    await until('another worker is there', () => daemon.workers().some(pid => pid !== worker))
    await daemon.waitFor(/EMFILE/)
    assert.doesNotMatch(daemon.output, /outside of a handler|unhandled/i)
    drop(spool)
    await until('the next task has run', () => daemon.journal().length === 2)
  })
})

it('status warns of tasks that cannot be begun', async () => {
  const spool = spoolDirectory()
  for (let i = 0; i < 3; i++) drop(spool, `task-${i}`)
  const daemon = await startDaemon({ spool, under: ['prlimit', '--fsize=0'] })
  await daemon.waitFor(/task-2 is left alone: was not started, .*EFBIG/)
  const { code, stdout } = await spoold(['status', '--max-unreadable', '2,9', spool])
  assert.match(
    stdout,
    /^SPOOLD WARNING: 3 tasks cannot be read or begun, more than 2; .* unreadable=3;2;9;0$/m,
  )
  assert.match(stdout, /3 waiting.*\s+3 of them cannot be read or begun: see the log/)
  assert.equal(code, 1)
})

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { COARSEST_TIME_MS } from '#src/base/own-clock.js'
import { encodePacket } from '#src/formats/protocol/packet.js'
import { inProcess } from '../helpers/cli.js'
import { clockBeforeMinute } from '../helpers/clock.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { journaled, withSignals } from '../helpers/signals.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

/** Journals the start of a task; with `gate`, blocks its process until that file is there. */
const HANDLER = `
  import { existsSync } from 'node:fs'
  const sleep = ms => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  export default (env, task) => {
    JOURNAL(env.n)
    if (env.gate !== undefined) while (!existsSync(env.gate)) sleep(5)
    return task.SPOOL_OK
  }`

/** By then, in ms, a task that may begin has begun. */
const SOON_MS = 400

const run = async (...args: string[]) => {
  const { code, stdout, stderr } = await inProcess(args)
  assert.equal(code, 0, stdout + stderr)
  return stdout
}

async function pause(daemon: Daemon, spool: string, ...more: string[]): Promise<void> {
  const before = daemon.output.length
  await run('pause', spool, ...more)
  await until('the daemon knows of the pause', () => daemon.output.slice(before).includes('] paused: '), 5000)
}

const start = (spool: string, ini: Record<string, string | number | string[]> = {}, handler = HANDLER) =>
  startDaemon({ spool, handler, ini: { 'spooler-frequency': 1, ...ini } })

describe('a paused spool', () => {
  it('begins nothing, before its daemon starts and while it runs, and takes new tasks all the while', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ n: 'a' }))
    await run('pause', spool)
    const daemon = await start(spool)
    await daemon.waitFor(/\] paused: all tasks$/m)
    await run('enqueue', '--spooler', spool, 'n=b')
    await run('kick', join(spool, 'a'))
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), [])
    assert.equal(leftIn(spool).length, 2)
    await run('resume', spool)
    await until('both tasks have run', () => leftIn(spool).length === 0, 5000)
    assert.deepEqual(daemon.journal().sort(), ['a', 'b'])
  })

  it('begins nothing that a blocked process had ahead when that process wakes', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const daemon = await start(spool, { 'spooler-quiet': 'true' })
    for (let i = 0; i < 2000; i++) drop(spool, `1-${i}`, packet({ n: 'fast' }))
    await until('the fast tasks have run', () => leftIn(spool).length === 0) // from now on the worker is given many tasks at a time
    drop(spool, '2', packet({ n: 'blocked', gate }))
    for (let i = 0; i < 200; i++) drop(spool, `3-${i}`, packet({ n: 'ahead' }))
    await until('the task blocks', () => daemon.journal().includes('blocked'))
    await pause(daemon, spool)
    const before = daemon.journal().length
    writeFileSync(gate, '')
    await until('the blocked task has ended', () => !leftIn(spool).includes('2'))
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal().slice(before), [])
    await run('resume', spool)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.equal(daemon.journal().filter(n => n === 'ahead').length, 200)
  })

  it('begins nothing that a stopped process was given when that process continues', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { 'spooler-processes': 1 })
    const [worker = 0] = daemon.workers()
    process.kill(worker, 'SIGSTOP')
    drop(spool, 'a', packet({ n: 'a' }))
    await setTimeout(SOON_MS) // meanwhile the task is given to the stopped process
    await pause(daemon, spool)
    process.kill(worker, 'SIGCONT')
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), [])
    await run('resume', spool)
    await until('the task has run', () => leftIn(spool).length === 0, 5000)
  })

  it('begins nothing that was left to a stopped process when the rest was taken back from it', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { 'spooler-quiet': 'true' })
    const many = (prefix: string) => {
      // such names fill more than one read of the worker
      for (let i = 0; i < 4000; i++) drop(spool, `${prefix}-${i}-${'x'.repeat(230)}`, packet({ n: prefix }))
    }
    many('fast')
    await until('the fast tasks have run', () => leftIn(spool).length === 0) // from now on the worker is given many tasks at a time
    await pause(daemon, spool)
    many('ahead')
    const [worker = 0] = daemon.workers()
    process.kill(worker, 'SIGSTOP')
    await run('resume', spool)
    await until('of all that was given to the stopped process, one task is left to it', async () => {
      const { processes } = await spoolSnapshotOf(spool)
      return processes.workers[0]?.outstanding === 1
    })
    await pause(daemon, spool)
    process.kill(worker, 'SIGCONT')
    await setTimeout(SOON_MS)
    assert.deepEqual(
      daemon.journal().filter(n => n === 'ahead'),
      [],
    )
    await run('resume', spool)
    await until('the tasks have run', () => leftIn(spool).length === 0)
  })

  it('is resumed by itself at the time of --until', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    const endsAtMs = Date.now() + 5000
    await run('pause', spool, '--until', String(Math.ceil(endsAtMs / 1000)))
    await daemon.waitFor(/paused: all tasks, until \S+$/m)
    drop(spool, 'a', packet({ n: 'a' }))
    await daemon.waitFor('] resumed')
    assert.ok(Date.now() >= endsAtMs)
    await until('the task has run', () => leftIn(spool).length === 0, 5000)
  })

  it('begins nothing while its pause file is damaged, and says why', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    await run('pause', spool, '--key', 'n=other')
    writeFileSync(join(spool, '.spoold/paused'), '{"pauses":[{"sin')
    await daemon.waitFor(/paused: all tasks, because .*paused is not JSON/)
    drop(spool, 'a', packet({ n: 'a' }))
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), [])
    const fsck = await inProcess(['fsck', spool])
    assert.match(fsck.stdout, /pause-broken/)
    assert.equal(fsck.code, 1)
    assert.equal((await inProcess(['resume', spool])).code, 1)
    await run('resume', '--all', spool)
    await until('the task has run', () => leftIn(spool).length === 0, 5000)
  })

  it('is paused as before once its daemon has descriptors again to read the pause file', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    const limits = readFileSync(`/proc/${daemon.pid}/limits`, 'utf8')
    const [, soft = ''] = /^Max open files +(\d+)/m.exec(limits) ?? []
    const limit = (most: string) => execFileSync('prlimit', [`--pid=${daemon.pid}`, `--nofile=${most}:`])
    limit('3')
    await run('pause', spool, '--key', 'n=other')
    await daemon.waitFor(/paused: all tasks, because .*paused cannot be read: EMFILE/)
    const { ctimeMs } = statSync(join(spool, '.spoold/paused'))
    // by then, the daemon would look at the file again only after a change
    await until('the pause file is old', () => Date.now() > ctimeMs + COARSEST_TIME_MS + 2000)
    limit(soft)
    await daemon.waitFor(/paused: tasks with n=other/)
  })

  it('lets commands of cron run, and keeps what they enqueue waiting', async () => {
    const spool = spoolDirectory()
    await run('pause', spool)
    const enqueue = `${process.execPath} ${BIN} enqueue --spooler ${spool} n=cron`
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      env: clockBeforeMinute(10).env,
      ini: { cron: `-1 -1 -1 -1 -1 ${enqueue}` },
    })
    await daemon.waitFor(/\[uwsgi-cron\] command ".* enqueue .*" .* exited/, 70_000)
    assert.equal(leftIn(spool).length, 1)
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), [])
    await run('resume', spool)
    await until('the task has run', () => daemon.journal().includes('cron'))
  })

  it('runs no signal handler until it is resumed, and then one instance of a timer', async () => {
    const spool = spoolDirectory()
    await run('pause', spool)
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', () => JOURNAL('1'))
      spoold.addRbTimer(1, 0.1, 10)`,
      { spool, ini: { 'spooler-processes': 2 } },
    )
    await setTimeout(2000) // the last instant of the timer is over
    assert.deepEqual(daemon.journal(), [])
    await run('resume', spool)
    await journaled(daemon, /1/, 1)
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), ['1'])
  })

  it('makes --drain exit with 3 if it has paused tasks', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ n: 'a' }))
    drop(spool, 'b', packet({ n: 'b' }))
    const drained = async () => {
      const daemon = await startDaemon({ spool, handler: HANDLER, ini: { drain: 'true' }, isUnready: true })
      return [await daemon.code(10_000), /drained: .*/.exec(daemon.output)?.[0]]
    }
    await run('pause', spool)
    assert.deepEqual(await drained(), [3, 'drained: 0 done, 2 paused'])
    await run('pause', spool, '--key', 'n=b')
    await run('resume', spool)
    assert.deepEqual(await drained(), [3, 'drained: 1 done, 1 paused'])
    await run('resume', '--all', spool)
    assert.deepEqual(await drained(), [0, 'drained: 1 done'])
  })

  for (const uwsgi of UWSGIS)
    it(`makes pause exit with 1 beside ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const spool = spoolDirectory()
      const peer = startUwsgi({ uwsgi, spool, handler: 'uwsgi.spooler = lambda env: uwsgi.SPOOL_OK' })
      await peer.waitFor(/spawned the uWSGI spooler/)
      await until('pause names the uWSGI', async () => {
        const { code, stderr } = await inProcess(['pause', spool])
        return code === 1 && /a uWSGI \(pid \d+\) works on it/.test(stderr)
      })
    })
})

describe('paused tasks of one kind', () => {
  it('wait while others run, and are read once, however often the spool is scanned', async () => {
    const spool = spoolDirectory()
    await run('pause', spool, '--key', 'kind=mail')
    const daemon = await start(spool, { 'spooler-quiet': 'true' })
    for (let i = 0; i < 3000; i++) drop(spool, `m-${i}`, packet({ n: `${i}`, kind: 'mail' }))
    drop(spool, 'other', packet({ n: 'other', kind: 'mails' }))
    await until('the other task has run', () => daemon.journal().length > 0)
    const [worker = 0] = daemon.workers()
    const reads = () => Number(/^syscr: (\d+)/m.exec(readFileSync(`/proc/${worker}/io`, 'utf8'))?.[1])
    await until('all tasks are parked', async () => {
      const before = reads()
      await setTimeout(200)
      return reads() === before
    })
    const before = reads()
    for (let i = 0; i < 5; i++) {
      daemon.child.kill('SIGUSR1')
      await setTimeout(300)
    }
    assert.ok(reads() - before < 100, `${reads() - before} reads`)
    drop(spool, 'late', packet({ n: 'late' }))
    await until('the late task has run', () => daemon.journal().length === 2)
    assert.deepEqual(daemon.journal(), ['other', 'late'])
    await run('resume', spool, '--key', 'kind=mail')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.equal(new Set(daemon.journal()).size, 3002)
    assert.equal(daemon.journal().length, 3002)
  })

  it('are those that ls --key shows: the last value of a repeated key counts', async () => {
    const spool = spoolDirectory()
    const twice = (n: string, ...kinds: string[]) => {
      const pairs = [['n', n] as const, ...kinds.map(kind => ['kind', kind] as const)]
      drop(spool, n, encodePacket(pairs.map(([key, value]) => [Buffer.from(key), Buffer.from(value)])))
    }
    twice('last', 'letter', 'mail')
    twice('first', 'mail', 'letter')
    await run('pause', spool, '--key', 'kind=mail')
    const daemon = await start(spool)
    await until('one task has run', () => daemon.journal().length > 0)
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), ['first'])
    twice('next', 'mail', 'letter')
    await run('pause', spool)
    const shown = (await run('ls', spool, '--key', 'kind=mail', '--json')).trimEnd().split('\n')
    assert.deepEqual(
      shown.map(line => JSON.parse(line).name),
      ['last'],
    )
  })

  it('are taken back from an interpreter that was given them already', {
    skip: skipUnless('python3'),
  }, async () => {
    const spool = spoolDirectory()
    const [gate, journal] = [join(dirname(spool), 'gate'), join(dirname(spool), 'journal')]
    const script = join(dirname(spool), 'h.py')
    writeFileSync(
      script,
      `import os, time, uwsgi
def spooler(env):
    with open(${JSON.stringify(journal)}, 'a') as f: f.write(env[b'n'].decode() + '\\n')
    while b'gate' in env and not os.path.exists(env[b'gate']): time.sleep(0.01)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
    )
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { python: PYTHON, import: script, 'spooler-quiet': 'true' },
    })
    for (let i = 0; i < 2000; i++) drop(spool, `1-${i}`, packet({ n: 'fast' }))
    await until('the fast tasks have run', () => leftIn(spool).length === 0)
    drop(spool, '2', packet({ n: 'blocked', gate }))
    for (let i = 0; i < 100; i++) drop(spool, `3-${i}`, packet({ n: 'ahead', kind: 'mail' }))
    await until('the task blocks', () => daemon.journal().includes('blocked'))
    await pause(daemon, spool, '--key', 'kind=mail')
    const before = daemon.journal().length
    writeFileSync(gate, '')
    await until('the blocked task has ended', () => !leftIn(spool).includes('2'))
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal().slice(before), [])
    rmSync(join(spool, '.spoold/paused'))
    await until('all tasks have run', () => leftIn(spool).length === 0)
  })
})

describe('a quiet daemon', () => {
  it('begins nothing until the next SIGTSTP or a reload, and stops on SIGTERM as ever', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    const toggle = async (pattern: RegExp) => {
      const before = daemon.output.length
      daemon.child.kill('SIGTSTP')
      await until(`the daemon says ${pattern}`, () => pattern.test(daemon.output.slice(before)))
    }
    await toggle(/\*\*\* PAUSE \(press start to resume/)
    drop(spool, 'a', packet({ n: 'a' }))
    await setTimeout(SOON_MS)
    assert.deepEqual(daemon.journal(), [])
    await toggle(/SIGTSTP received\) resuming workers/)
    await until('the first task has run', () => daemon.journal().length === 1, 5000)
    await setTimeout(SOON_MS) // a second signal at once would count as the same one
    await toggle(/\*\*\* PAUSE/)
    drop(spool, 'b', packet({ n: 'b' }))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    await until('the second task has run', () => daemon.journal().length === 2, 5000)
    await setTimeout(SOON_MS)
    await toggle(/\*\*\* PAUSE/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(5000), 0)
  })
})

describe('SIGTTIN', () => {
  it('logs what every worker does, even one that blocks', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const daemon = await start(spool, { 'spooler-processes': 2 })
    drop(spool, 'a', packet({ n: 'a', gate }))
    await until('the task blocks', () => daemon.journal().includes('a'))
    await until('both workers are ready', async () => {
      const { processes } = await spoolSnapshotOf(spool)
      return processes.workers.filter(({ state }) => state === 'ready').length === 2
    })
    daemon.child.kill('SIGTTIN')
    await daemon.waitFor(/pid: \d+\] ready: runs a for [\d.]+ m?s; 0 ahead; [RS] \(/)
    await daemon.waitFor(/pid: \d+\] ready: runs nothing; 0 ahead; S \(sleeping\)/)
    writeFileSync(gate, '')
    await until('the task has run', () => leftIn(spool).length === 0)
  })
})

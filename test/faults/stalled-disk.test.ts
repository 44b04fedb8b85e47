import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { slotTaker } from '#src/engines/spool/slot-files.js'
import { STARTED } from '#src/engines/spool/state-byte.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import { tryHold } from '#src/system/libc.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { movableClock } from '../helpers/clock.js'
import { snapshotOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet, taskName } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

/** A daemon looks at least this often whether its control sockets are there, in ms. */
const LOOKS_MS = 5000

/** Mounts a directory behind a file server, which can be stopped. */
async function servedDirectory(): Promise<{ path: string; server: TestProcess }> {
  const path = mkdtempSync(join(tmpdir(), 'spoold-served-'))
  const { dev } = statSync(path)
  const server = new TestProcess('bindfs', ['-f', '--no-allow-other', workspace(), path])
  after(async () => {
    server.child.kill('SIGKILL')
    await server.exited
    execFileSync('umount', ['-l', path])
    rmdirSync(path)
  })
  await until('the directory is mounted', () => statSync(path).dev !== dev)
  return { path, server }
}

/** Drops a task. @returns its name */
function put(spool: string, vars: Readonly<Record<string, string>> = {}): string {
  const name = taskName()
  drop(spool, name, packet({ name, ...vars }))
  return name
}

/** The task `few` keeps its only slot for as long as the disk stalls. */
const HANDLER = `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('few', { maxConcurrency: 1, maxRetries: 9 }, async () => {
  JOURNAL('few')
  await new Promise(resolve => setTimeout(resolve, ${2.5 * LOOKS_MS}))
})
export default (env, task) => { JOURNAL(task.name); return task.SPOOL_OK }`

describe('a command for a spool whose disk hangs', {
  skip: skipUnless('root', 'fuse'),
  concurrency: true,
}, () => {
  for (const words of [
    'ls SPOOL',
    'status SPOOL',
    'pause SPOOL',
    'cancel SPOOL/task',
    'ls --ini INI',
    'show --ini INI task',
    'enqueue --spooler SPOOL to=joe',
    'move --to SPOOL OTHER',
    'check INI',
    'doctor INI',
  ])
    it(`says on which disk it waits, and ends by SIGINT (${words})`, async () => {
      const { path, server } = await servedDirectory()
      const spool = join(path, 'spool')
      mkdirSync(spool)
      drop(spool, 'task', packet({}))
      const ini = join(workspace(), 'app.ini')
      writeFileSync(ini, `[uwsgi]\nspooler = ${spool}\n`)
      server.child.kill('SIGSTOP')
      after(() => server.child.kill('SIGCONT'))
      const line = words.replace('SPOOL', spool).replace('INI', ini).replace('OTHER', spoolDirectory())
      const run = new TestProcess(process.execPath, [BIN, ...line.split(' ')])
      await run.waitFor(new RegExp(`waiting for the disk of ${path}\\S*, which has not answered for 5 s`))
      run.child.kill('SIGINT')
      await run.exited
      assert.equal(run.child.signalCode, 'SIGINT')
    })
})

/** Looks how a spool is claimed with each small number of descriptors to spare. */
const PROBE = `
import { closeSync, openSync } from 'node:fs'
import { probeSpool } from ${JSON.stringify(new URL('../../src/engines/spool/probe.js', import.meta.url).href)}
await probeSpool(process.argv[1], 'auto')
const fill = () => { try { for (;;) taken.push(openSync('/dev/null')) } catch {} }
const taken = []
for (let free = 0; free < 10; free++) {
  fill()
  for (const fd of taken.splice(0, free)) closeSync(fd)
  await probeSpool(process.argv[1], 'auto').catch(() => {})
}`

describe('a spool on an unknown file system', { skip: skipUnless('root', 'fuse') }, () => {
  it('keeps no file of the look at its locks, however few descriptors that has', async () => {
    const { path } = await servedDirectory()
    const node = `ulimit -n 128; exec "$0" --input-type=module -e "$1" "$2"`
    const probe = new TestProcess('sh', ['-c', node, process.execPath, PROBE, path])
    assert.equal(await probe.code(), 0, probe.output)
    assert.deepEqual(
      readdirSync(join(path, '.spoold')).filter(name => name.startsWith('probe-')),
      [],
    )
  })
})

describe('a disk that stalls', { skip: skipUnless('root', 'fuse') }, () => {
  it('stalls no other spool, and loses no task', async () => {
    const { path, server } = await servedDirectory()
    const [spool, stalling] = [spoolDirectory(), join(path, 'spool')]
    mkdirSync(stalling)
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: { spooler: [spool, stalling], 'spooler-frequency': 1, 'spooler-concurrency': 4 },
    })
    const runs = async (name: string) => await until(`${name} ran`, () => daemon.journal().includes(name))
    await runs(put(stalling))
    for (const n of [1, 2]) drop(stalling, `few-${n}`, packet({ task: 'few', args: `[${n}]` }))
    await until('one task has the slot', () => daemon.journal().includes('few'))
    await until('the other task waits for the slot', async () =>
      (await snapshotOf(spool)).spools.some(({ tasks }) => tasks.parked.slot === 1),
    )
    const waiting = put(stalling, { at: String(Math.ceil(Date.now() / 1000) + 2) })

    server.child.kill('SIGSTOP')
    const since = performance.now()
    while (performance.now() - since < 1.5 * LOOKS_MS) {
      const droppedAt = performance.now()
      await runs(put(spool))
      assert.ok(performance.now() - droppedAt < 2000, 'it waited for the disk')
    }
    server.child.kill('SIGCONT')
    await runs(waiting)
  })

  it('keeps status from no other spool, and its daemon from no stop, and makes it refuse a reload', async () => {
    const { path, server } = await servedDirectory()
    const [spool, stalling] = [spoolDirectory(), join(path, 'spool')]
    mkdirSync(stalling)
    const ini = { spooler: [spool, stalling], 'worker-reload-mercy': 1 }
    const daemon = await startDaemon({ spool, ini })
    for (const each of [spool, stalling]) {
      const name = put(each)
      await until(`the task in ${each} ran`, () => daemon.journal().includes(name))
    }
    // a process whose call the server has taken, and not answered, cannot be killed
    await until('no worker uses the disk', async () =>
      (await snapshotOf(spool)).spools.every(({ tasks: { due, running } }) => due + running === 0),
    )
    server.child.kill('SIGSTOP')
    const { stdout } = await spoold(['status', spool])
    assert.match(stdout, /^SPOOLD OK: 0 due, 0 running/)
    assert.match(stdout, new RegExp(`daemon +pid ${daemon.pid} on`))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(`the disk of ${stalling} has not answered for 5 s`)
    const name = put(spool)
    await until('the task ran', () => daemon.journal().includes(name))
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('goodbye to uWSGI')
    server.child.kill('SIGCONT')
    assert.equal(await daemon.code(), 0)
  })
})

describe('a disk behind a file server', { skip: skipUnless('root', 'fuse') }, () => {
  it('has control sockets on which each of two daemons answers', async () => {
    const spool = join((await servedDirectory()).path, 'spool')
    mkdirSync(spool)
    const daemons = [await startDaemon({ spool }), await startDaemon({ spool })]
    const { stdout, stderr } = await inProcess(['status', '--json', spool])
    const pids = [...stdout.matchAll(/"daemon":\{"pid":(\d+)/g)].map(([, pid]) => Number(pid))
    assert.deepEqual(pids.sort(), daemons.map(({ pid }) => pid).sort(), `${stdout}${stderr}`)
  })
})

const STRACE = 'strace -f -y -qq --seccomp-bpf -s 4096 -e signal=none -e trace=%file,fcntl,flock -o'.split(
  ' ',
)

const pidOf = ({ output }: Daemon) => Number(/is running \(pid: (\d+)\)/.exec(output)?.[1])

/**
 * Returns the calls of a daemon's own threads, not of its workers, that name a task or a record. A start checks that records
 * can be written.
 */
function looksOf(daemon: Daemon, log: string): string[] {
  const own = new Set(readdirSync(`/proc/${pidOf(daemon)}/task`))
  const lines = readFileSync(log, 'utf8').split('\n')
  assert.ok(lines.some(line => !own.has(line.split(' ')[0] ?? '') && line.includes('uwsgi_spoolfile')))
  return lines.filter(
    line =>
      own.has(line.split(' ')[0] ?? '') && /uwsgi_spoolfile|\.spoold\/records(?!", [RWX]_OK)/.test(line),
  )
}

/**
 * Leaves what a sweep removes, on a clock that is days ahead: the record of a task that is gone, and a file of a dead writer.
 */
function leaveBehind(spool: string): string[] {
  const records = join(spool, '.spoold/records')
  for (const each of [join(spool, '.spoold'), records]) mkdirSync(each, { mode: 0o700 })
  const left = [join(records, `${taskName()}.json`), join(spool, `.spoold-${taskName()}.tmp`)]
  for (const path of left) writeFileSync(path, JSON.stringify({ attempts: 1, crashes: 0 }))
  return left
}

describe('a master', { skip: skipUnless('strace') }, () => {
  for (const [where, daemons] of [
    ['alone', 1],
    ['beside another daemon', 2],
  ] as const)
    it(`opens, stats and locks neither a due task nor a record: ${where}`, async () => {
      const spool = spoolDirectory()
      const log = join(dirname(spool), 'strace')
      const clock = movableClock()
      clock.jump(2 * 86_400)
      const left = leaveBehind(spool)
      const locked = put(spool)
      const fd = openSync(join(spool, locked), 'r+')
      after(() => closeSync(fd))
      assert.ok(await tryHold(fd))
      const setup = {
        env: clock.env,
        spool,
        handler: `export default async (env, task) => {
          JOURNAL(process.ppid + ' ' + env.n)
          await new Promise(resolve => setTimeout(resolve, 3))
          return task.SPOOL_OK
        }`,
        ini: { 'spooler-processes': 2, 'spooler-quiet': true, 'spooler-frequency': 1 },
      }
      for (let n = 0; n < 100; n++) put(spool, { n: String(n) })
      const [traced = assert.fail()] = await Promise.all(
        Array.from({ length: daemons }, (_, i) =>
          startDaemon({ ...setup, ...(i === 0 && { under: [...STRACE, log] }) }),
        ),
      )
      for (let n = 100; n < 1000; n++) put(spool, { n: String(n) })
      await until(
        'each daemon has run some tasks',
        () => {
          const isAll = leftIn(spool).every(name => name === locked)
          const masters = new Set(traced.journal().map(line => line.split(' ')[0]))
          for (let n = 0; isAll && masters.size < daemons && n < 100; n++) put(spool, { n: 'more' })
          return isAll && masters.size === daemons
        },
        60_000,
      )
      await traced.waitFor(
        new RegExp(`${locked} has been locked for \\d+.* by process ${process.pid} `),
        30_000,
      )
      await until('the sweep is over', () => !left.some(existsSync), 30_000)
      assert.deepEqual(looksOf(traced, log), [])
    })

  it('opens, stats and locks no task for later, and finds a task that comes due without an event', async () => {
    const spool = spoolDirectory()
    const log = join(dirname(spool), 'strace')
    const tomorrow = Date.now() / 1000 + 86_400
    const names = Array.from({ length: 50 }, () => taskName())
    for (const name of names) drop(spool, name, packet({ name }), tomorrow)
    const daemon = await startDaemon({
      spool,
      ini: { 'spooler-frequency': 1, 'spooler-watch': 'off' },
      under: [...STRACE, log],
    })
    await until('all tasks wait', async () => (await snapshotOf(spool)).spools[0]?.tasks.waiting === 50)
    const touched = names[20] ?? ''
    const now = Date.now() / 1000
    utimesSync(join(spool, touched), now, now)
    await until('the touched task has run', () => daemon.journal().length > 0, 20_000)
    assert.deepEqual(daemon.journal(), [touched])
    assert.equal((await snapshotOf(spool)).spools[0]?.tasks.waiting, 49)
    assert.deepEqual(looksOf(daemon, log), [])
  })

  it('looks at no slot that another process has', async () => {
    const spool = spoolDirectory()
    const log = join(dirname(spool), 'strace')
    const slot = slotTaker('ofd')(spool, { name: 'few', count: 1 }, 0, new Set()) ?? assert.fail()
    drop(spool, 'few-1', packet({ task: 'few', args: '[1]' }))
    const daemon = await startDaemon({ spool, handler: HANDLER, under: [...STRACE, log] })
    const calls = () => readFileSync(log, 'utf8').match(/\/\.spoold\/slots\/\w+\/0>/g)?.length ?? 0
    await until('the slot has been looked at again and again', () => calls() > 20)
    slot.release()
    await until('the task has run', () => daemon.journal().includes('few'))
    const own = new Set(readdirSync(`/proc/${pidOf(daemon)}/task`))
    const lines = readFileSync(log, 'utf8').split('\n')
    assert.deepEqual(
      lines.filter(
        line => own.has(line.split(' ')[0] ?? '') && /\/\.spoold\/slots(?!", [RWX]_OK)/.test(line),
      ),
      [],
    )
  })

  it('has the mark of a run that mercy ended taken off by a process that loads no handler', async () => {
    const spool = spoolDirectory()
    const log = join(dirname(spool), 'strace')
    const path = join(spool, put(spool))
    const daemon = await startDaemon({
      spool,
      handler: 'export default () => { JOURNAL("begun"); for (;;); }',
      ini: { 'worker-reload-mercy': 1 },
      under: [...STRACE, log],
    })
    await until('the task has begun', () => daemon.journal().length > 0)
    assert.equal(readFileSync(path)[MODIFIER2_OFFSET], STARTED)
    await inProcess(['pause', spool])
    process.kill(pidOf(daemon), 'SIGHUP')
    await until('the mark is taken off', () => readFileSync(path)[MODIFIER2_OFFSET] === 0)
    const lines = readFileSync(log, 'utf8').split('\n')
    const asides = lines.filter(line => line.includes('execve(') && line.includes('/dist/aside.cjs'))
    const its = lines.filter(line => asides.some(each => each.split(' ')[0] === line.split(' ')[0]))
    assert.ok(its.some(line => line.includes(path)))
    assert.deepEqual(
      its.filter(line => /worker\.cjs|runner|handler\.mjs/.test(line)),
      [],
    )
  })
})

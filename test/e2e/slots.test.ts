import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { type Daemon, type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = (count: number) => `
import { existsSync, readFileSync } from 'node:fs'
import { Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 9, retryDelay: 0 })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const kept = () => {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0 // this kernel does not say
  }
}
const now = () => [(performance.timeOrigin + performance.now()).toFixed(1), process.pid, kept()].join(' ')
tasks.task('few', { maxConcurrency: ${count} }, async (n, ms = 0) => {
  JOURNAL('begin ' + n + ' ' + now())
  if (ms === 'go') while (!existsSync(new URL('go', import.meta.url))) await sleep(5)
  else await sleep(ms)
  JOURNAL('end ' + n + ' ' + now())
})
tasks.task('others', { maxConcurrency: ${count} }, async n => { JOURNAL('other ' + n) })
tasks.task('free', async n => { JOURNAL('free ' + n) })
`

interface Line {
  readonly word: string
  readonly n: number
  readonly at: number
  readonly pid: number
  /** For how long, in ms, the process could have run by then and had no processor. */
  readonly kept: number
}

function lines(daemon: Daemon): Line[] {
  return daemon.journal().map(line => {
    const [word = '', n, at, pid, kept] = line.split(' ')
    return { word, n: Number(n), at: Number(at), pid: Number(pid), kept: Number(kept) }
  })
}

/** Returns how many tasks ran at most at the same time. */
function mostAtOnce(daemon: Daemon): number {
  let [running, most] = [0, 0]
  for (const { word } of lines(daemon)) {
    if (word === 'begin') most = Math.max(most, ++running)
    if (word === 'end') running--
  }
  return most
}

let next = 0
function schedule(spool: string, task: string, ...args: unknown[]): string {
  const name = `uwsgi_spoolfile_on_test_1_${++next}_1_1700000000_${next}`
  drop(spool, name, packet({ task, args: JSON.stringify(args) }))
  return name
}

function start(count: number, ini: DaemonSetup['ini'] = {}, spool = spoolDirectory()): Promise<Daemon> {
  return startDaemon({ spool, handler: TASKS(count), ini: { 'spooler-processes': 3, ...ini } })
}

const done = (spool: string) => until('the spool is empty', () => leftIn(spool).length === 0)

describe('maxConcurrency', { concurrency: 3 }, () => {
  it('lets that many tasks of a name run at a time, in whatever workers, and the others wait in order', async () => {
    const spool = spoolDirectory()
    const daemon = await start(2, {}, spool)
    const [first = '', second = ''] = [0, 1].map(n => schedule(spool, 'few', n, 3_600_000))
    await until('two tasks run', () => lines(daemon).length === 2)
    for (let n = 2; n < 12; n++) schedule(spool, 'few', n, 20)
    await until('the other tasks wait', async () => (await tasksOf(spool)).parked.slot === 10)
    assert.equal(mostAtOnce(daemon), 2)
    await spoold(['cancel', join(spool, first)])
    await until('one task is left', () => leftIn(spool).length === 1)
    assert.deepEqual(leftIn(spool), [second])
    const begun = lines(daemon).filter(({ word }) => word === 'begin')
    assert.equal(new Set(begun.slice(0, 2).map(({ pid }) => pid)).size, 2)
    const order = begun.slice(2).map(({ n }) => n)
    assert.equal(order.length, 10)
    // A worker that has no processor for 50 ms lets another one go first.
    assert.ok(
      order.every((n, place) => Math.abs(n - 2 - place) <= 1),
      `${order}`,
    )
    daemon.child.kill('SIGQUIT')
  })

  it('counts over all daemons, and a slot that another daemon gave back is used soon', async () => {
    const spool = spoolDirectory()
    const [first, second] = [await start(1, {}, spool), await start(1, {}, spool)]
    for (let n = 0; n < 12; n++) schedule(spool, 'few', n, 50)
    await done(spool)
    assert.equal(mostAtOnce(first), 1)
    assert.equal(lines(first).length, 24)
    const gaps = gapsOf(lines(first))
    assert.ok((gaps[Math.floor(gaps.length / 2)] ?? 0) < 100 * patience(), `${gaps}`)
    assert.equal(second.journal().length, 24, 'they share a journal')
  })

  it('lets the next task begin as soon as one has ended, and holds up no task of another name', async () => {
    const spool = spoolDirectory()
    for (let n = 0; n < 300; n++) schedule(spool, 'few', n, 100)
    for (let n = 0; n < 5; n++) for (const task of ['others', 'free']) schedule(spool, task, n)
    const daemon = await start(1, {}, spool)
    await until('the tasks of other names have run', () =>
      ['other', 'free'].every(name => lines(daemon).filter(({ word }) => word === name).length === 5),
    )
    const few = lines(daemon).filter(({ word }) => word === 'begin').length
    assert.ok(few < 100, `${few} of the tasks in front had run by then`)
    await until('twenty tasks have run', () => lines(daemon).filter(({ word }) => word === 'end').length > 20)
    const gaps = gapsOf(lines(daemon))
    assert.ok((gaps[Math.floor(gaps.length / 2)] ?? 0) < 20 * patience(), `${gaps}`)
    assert.equal(mostAtOnce(daemon), 1)
    const order = lines(daemon).flatMap(({ word, n }) => (word === 'begin' ? [n] : []))
    const overtaken = order.filter((n, i) => n < (order[i - 1] ?? 0))
    assert.ok(overtaken.length <= 3 * patience(), `${order}`) // until the first task waits, each worker may take any
    daemon.child.kill('SIGTERM')
    await daemon.exited
    assert.ok(
      leftIn(spool).every(name => readFileSync(join(spool, name))[3] === 0),
      'no task that waited is marked',
    )
  })

  it('lets the next task begin in the worker that has the slot, even while the master is stopped', async () => {
    const spool = spoolDirectory()
    for (let n = 0; n < 300; n++) schedule(spool, 'few', n, 30)
    const daemon = await start(1, {}, spool)
    const count = (word: string) => lines(daemon).filter(line => line.word === word).length
    /** True if another task begins once the task has ended that runs now. */
    const goesOn = async (): Promise<boolean> => {
      const before = count('begin')
      await until('a task begins', () => count('begin') > before)
      daemon.child.kill('SIGSTOP')
      const stoppedAt = performance.timeOrigin + performance.now() + 2
      const isNext = await until('another task begins', () => hasBegunAfter(stoppedAt), 300).then(
        () => true,
        () => false,
      )
      daemon.child.kill('SIGCONT')
      return isNext
    }
    const hasBegunAfter = (stoppedAt: number): boolean => {
      const all = lines(daemon)
      const end = all.findIndex(({ word, at }) => word === 'end' && at > stoppedAt)
      return end >= 0 && all.slice(end).some(({ word }) => word === 'begin')
    }
    let tries = 1 // on a busy machine a task may take too long for another one to wait behind it
    while (!(await goesOn())) assert.ok(tries++ < 20, 'none began')
    assert.equal(mostAtOnce(daemon), 1)
    daemon.child.kill('SIGQUIT')
  })

  it('holds with spooler-lock = lockfile, too', async () => {
    const spool = spoolDirectory()
    const ini = { 'spooler-lock': 'lockfile' }
    const [first, second] = [await start(1, ini, spool), await start(1, ini, spool)]
    schedule(spool, 'few', 0, 'go')
    await until('the task runs', () => lines(first).length === 1)
    const slots = join(spool, '.spoold/slots')
    assert.deepEqual(readdirSync(join(slots, readdirSync(slots)[0] ?? '')), ['0.lock'])
    for (let n = 1; n < 8; n++) schedule(spool, 'few', n, 20)
    for (let n = 0; n < 3; n++) schedule(spool, 'free', n)
    const free = () => lines(second).filter(({ word }) => word === 'free').length
    await until('the tasks of another name have run', () => free() === 3)
    assert.equal(mostAtOnce(first), 1)
    writeFileSync(join(first.directory, 'go'), '')
    await done(spool)
    assert.equal(mostAtOnce(first), 1)
    await until('no lease is left', () => readdirSync(join(slots, readdirSync(slots)[0] ?? '')).length === 0)
  })

  it('gives the slot of a killed worker to another worker', async () => {
    const spool = spoolDirectory()
    const daemon = await start(1, { 'spooler-max-crashes': 9 }, spool)
    schedule(spool, 'few', 0, 3_600_000)
    await until('the task runs', () => lines(daemon).length === 1)
    for (let n = 1; n < 4; n++) schedule(spool, 'few', n, 10)
    await until('the other tasks wait', async () => (await tasksOf(spool)).parked.slot === 3)
    const [holder] = lines(daemon)
    process.kill(holder?.pid ?? 0, 'SIGKILL')
    await until(
      'another task has begun',
      () => lines(daemon).filter(({ word }) => word === 'begin').length > 1,
    )
    assert.ok((lines(daemon)[1]?.pid ?? 0) !== holder?.pid)
  })

  it('is shown by status with the names of the tasks', async () => {
    const spool = spoolDirectory()
    const daemon = await start(2, { 'spooler-processes': 4 }, spool)
    for (let n = 0; n < 7; n++) schedule(spool, 'few', n, 3_600_000)
    await until('five tasks wait', async () => (await tasksOf(spool)).parked.slot === 5)
    assert.deepEqual((await tasksOf(spool)).slotQueues, [{ name: 'few', count: 2, parked: 5 }])
    const { stdout } = await spoold(['status', spool])
    assert.match(stdout, /5 parked: slot,\s+5 of few \(2 at a time\)/)
    daemon.child.kill('SIGQUIT')
  })

  it('changes with a reload: two tasks run at once, then three', async () => {
    const spool = spoolDirectory()
    // Old workers run on, because the slot of a killed worker would be taken in any case.
    const daemon = await start(1, { 'spooler-processes': 6, 'worker-reload-mercy': 3600 }, spool)
    for (let n = 0; n < 9; n++) schedule(spool, 'few', n, 'go')
    await until('eight tasks wait', async () => (await tasksOf(spool)).parked.slot === 8)
    const text = readFileSync(daemon.handlerFile, 'utf8')
    writeFileSync(daemon.handlerFile, text.replaceAll('maxConcurrency: 1', 'maxConcurrency: 2'))
    daemon.child.kill('SIGHUP')
    await until('two tasks run at once', () => mostAtOnce(daemon) === 2)
    writeFileSync(daemon.handlerFile, text.replaceAll('maxConcurrency: 1', ''))
    daemon.child.kill('SIGHUP')
    await until('three tasks run at once', () => mostAtOnce(daemon) > 2)
    writeFileSync(join(daemon.directory, 'go'), '')
    await done(spool)
  })

  it('ends the wait of tasks that are removed or cancelled, and lets the next one begin', async () => {
    const spool = spoolDirectory()
    const daemon = await start(1, {}, spool)
    schedule(spool, 'few', 0, 'go')
    await until('the task runs', () => lines(daemon).length === 1)
    const names = [1, 2, 3].map(n => schedule(spool, 'few', n, 0))
    await until('three tasks wait', async () => (await tasksOf(spool)).parked.slot === 3)
    await spoold(['rm', join(spool, names[0] ?? '')])
    await spoold(['cancel', join(spool, names[1] ?? '')])
    writeFileSync(join(daemon.directory, 'go'), '')
    await done(spool)
    assert.deepEqual(
      lines(daemon).flatMap(({ word, n }) => (word === 'begin' ? [n] : [])),
      [0, 3],
    )
  })

  for (const [what, spoil] of [
    ['a link that leads out of the spool', (at: string, outside: string) => symlinkSync(outside, at)],
    ['a file', (at: string) => writeFileSync(at, '')],
  ] as const)
    it(`makes tasks wait, and says why, if its slots are ${what}, while others run and nothing outside is touched`, async () => {
      const spool = spoolDirectory()
      const [outside, state] = [join(dirname(spool), 'outside'), join(spool, '.spoold')]
      mkdirSync(outside)
      mkdirSync(state, { mode: 0o700 })
      spoil(join(state, 'slots'), outside)
      const daemon = await start(1, { 'spooler-frequency': 1 }, spool)
      for (let n = 0; n < 3; n++) schedule(spool, 'few', n)
      schedule(spool, 'free', 0)
      await daemon.waitFor(/waits: a slot of few cannot be taken: .*slots/)
      await until('the other task has run', () => daemon.journal().length === 1)
      assert.deepEqual(readdirSync(outside), [])
      assert.equal(daemon.output.split('cannot be taken').length, 2, 'it is logged once per name')
      rmSync(join(state, 'slots'))
      await done(spool)
      assert.equal(lines(daemon).filter(({ word }) => word === 'end').length, 3)
    })

  it('makes a task wait while the file of its slot is a link, and lets it run afterwards', async () => {
    const spool = spoolDirectory()
    const daemon = await start(1, {}, spool)
    schedule(spool, 'few', 0)
    await done(spool)
    const slots = join(spool, '.spoold/slots')
    const [hash = ''] = readdirSync(slots)
    const file = join(slots, hash, '0')
    assert.deepEqual(readdirSync(join(slots, hash)), ['0'])
    renameSync(file, join(dirname(spool), 'slot'))
    symlinkSync(join(dirname(spool), 'elsewhere'), file)
    schedule(spool, 'few', 1)
    await daemon.waitFor(/waits: a slot of few cannot be taken: ELOOP.*slots/)
    rmSync(file)
    await done(spool)
    assert.equal(lines(daemon).length, 4)
  })
})

/**
 * Returns the times from each end to the next begin, sorted, in ms. A worker that does both counts only the time for which it
 * had a processor.
 */
function gapsOf(all: readonly Line[]): number[] {
  const gaps = all.flatMap(({ word, at, pid, kept }, i) => {
    const before = all.slice(0, i).findLast(line => line.word === 'end')
    if (word !== 'begin' || before === undefined) return []
    return [at - before.at - (pid === before.pid ? kept - before.kept : 0)]
  })
  return gaps.sort((a, b) => a - b)
}

interface StatusTasks {
  readonly parked: { readonly slot?: number }
  readonly slotQueues?: unknown
}

async function tasksOf(spool: string): Promise<StatusTasks> {
  const { stdout } = await spoold(['status', '--json', spool])
  return (JSON.parse(stdout) as { spools: [{ tasks: StatusTasks }] }).spools[0].tasks
}

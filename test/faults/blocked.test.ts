import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { inProcess } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { type Daemon, readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { recordOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Blocks its process for as long as the task says, or until a file is there. */
const HANDLER = `
  import { existsSync } from 'node:fs'
  const sleep = ms => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  export default (env, task) => {
    if (env.n !== undefined) JOURNAL(Date.now() + ' ' + env.n + ' ' + process.pid)
    if (env.gate !== undefined) while (!existsSync(env.gate)) sleep(20)
    if (env.ms !== undefined) sleep(Number(env.ms))
    if (env.later !== undefined) return { retry: '1h' }
    return task.SPOOL_OK
  }`

const PROCESSES = 4
const WATCHED_MS = isLong ? 300_000 : 10_000

/** Runs many fast tasks, after which the workers are given many tasks at a time. */
async function warmUp(spool: string): Promise<void> {
  for (let i = 0; i < 3000; i++) drop(spool, `fast-${i}`, packet({}))
  await until('the fast tasks have run', () => leftIn(spool).length === 0, 60_000)
}

function residentKib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Returns the processor time of a process in ms, in steps of 10 ms. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

async function blockAll(spool: string, gate: string): Promise<void> {
  for (let i = 0; i < PROCESSES; i++) drop(spool, `5-block-${i}`, packet({ gate, n: `block-${i}` }))
  await until('all processes are blocked', () => blocked(spool).length === PROCESSES, 60_000)
}

function blocked(spool: string): string[] {
  return readJournal(dirname(spool)).filter(line => line.includes(' block-'))
}

async function start(spool: string, ini: Record<string, string | number | string[]>): Promise<Daemon> {
  return startDaemon({ spool, handler: HANDLER, ini: { 'spooler-quiet': 'true', ...ini } })
}

describe('handlers that block their process, after a fast phase, with a backlog', () => {
  it('cost the master neither memory nor a core, and do not hold up another spool', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const gate = join(dirname(spool), 'gate')
    const daemon = await start(spool, { 'spooler-processes': PROCESSES, spooler: [spool, other] })
    await warmUp(spool)
    await blockAll(spool, gate)
    for (let i = 0; i < 5000; i++) drop(spool, `6-fast-${i}`, packet({}))
    await setTimeout(1000) // by then the master knows the backlog
    const [rss, cpu, since] = [residentKib(daemon.pid), cpuMsOf(daemon.pid), performance.now()]
    await setTimeout(WATCHED_MS)
    const grownMib = (residentKib(daemon.pid) - rss) / 1024
    const share = (cpuMsOf(daemon.pid) - cpu) / (performance.now() - since)
    assert.ok(grownMib <= 10, `the master grew by ${grownMib.toFixed(1)} MiB`)
    assert.ok(share <= 0.05, `the master took ${(share * 100).toFixed(1)} % of a core`)
    for (let i = 0; i < 20; i++) {
      drop(other, `quick-${i}`, packet({}))
      await until('the task has run', () => leftIn(other).length === 0, 5000)
    }
    writeFileSync(gate, '')
    await until('nothing is left', () => leftIn(spool).length === 0, 60_000)
  })

  it('do not keep the daemon from knowing which new files are due, for later, or no tasks', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    await start(spool, { 'spooler-processes': 1 })
    drop(spool, 'block', packet({ gate, n: 'block-0' }))
    await until('the worker is blocked', () => blocked(spool).length === 1)
    const tomorrow = Math.ceil(Date.now() / 1000) + 86_400
    for (let i = 0; i < 5000; i++)
      drop(spool, `new-${i}`, packet(i % 2 === 0 ? {} : { at: String(tomorrow) }))
    for (let i = 0; i < 3; i++) drop(spool, `junk-${i}`, Buffer.from('this is not a packet'))
    const known = async () => {
      const { due, unseen, later, unreadable, running } = (await spoolSnapshotOf(spool)).tasks
      return { due, unseen, later, unreadable, running }
    }
    const all = { due: 2500, unseen: 0, later: 2500, unreadable: 3, running: 1 }
    await until('all files are known', async () => isDeepStrictEqual(await known(), all), 20_000).catch(
      async error => assert.deepEqual(await known(), all, error),
    )
    writeFileSync(gate, '')
    await until('all due tasks have run', () => leftIn(spool).length === 2503, 60_000)
  })

  it('let an urgent task begin within one run', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { 'spooler-processes': 2, 'spooler-ordered': 'true' })
    await warmUp(spool)
    for (let i = 0; i < 20; i++) drop(spool, `5-slow-${i}`, packet({ n: `slow-${i}`, ms: '1000' }))
    await until('some tasks run', () => daemon.journal().length >= 2)
    await setTimeout(300)
    const before = daemon.journal().length
    drop(spool, '1-urgent', packet({ n: 'urgent' }))
    await until('the urgent task has run', () => daemon.journal().some(line => line.includes(' urgent ')))
    const place = daemon.journal().findIndex(line => line.includes(' urgent '))
    assert.ok(place - before <= 1, `${place - before} others began before it`)
  })

  it('leave tasks that they had not begun to other workers', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const daemon = await start(spool, { 'spooler-processes': 2, 'spooler-ordered': 'true' })
    await warmUp(spool)
    drop(spool, '0-block', packet({ gate, n: 'block-0' }))
    for (let i = 0; i < 300; i++) drop(spool, `1-${1000 + i}`, packet({ n: `fast-${i}` }))
    await until(
      'all other tasks have run',
      () => daemon.journal().length === 301 && leftIn(spool).length === 1,
    )
    assert.deepEqual(leftIn(spool), ['0-block'])
    writeFileSync(gate, '')
    await until('nothing is left', () => leftIn(spool).length === 0)
    assert.equal(new Set(daemon.journal().map(line => line.split(' ')[1])).size, 301)
  })

  it('keep their task when another worker is given it meanwhile, without an event, a wait or a count', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const daemon = await start(spool, {
      'spooler-processes': 2,
      'spooler-ordered': 'true',
      'spooler-quiet': 'false',
    })
    await warmUp(spool)
    await inProcess(['pause', spool])
    await daemon.waitFor(' paused: ')
    // The task is neither the first of its batch nor alone in it.
    for (let i = 0; i < 60; i++)
      drop(spool, `1-${100 + i}`, packet(i === 5 ? { gate, n: 'block-5' } : { n: `fast-${i}` }))
    await inProcess(['resume', spool])
    await until(
      'all other tasks have run',
      () => daemon.journal().length === 60 && leftIn(spool).length === 1,
    )
    const pidsOf = new Map(daemon.journal().map(line => line.split(' ').slice(1) as [string, string]))
    const pid = Number(pidsOf.get('block-5'))
    assert.notEqual(
      Number(pidsOf.get('fast-6')),
      pid,
      'the task after the blocked one was given to the other process',
    )
    const told = async () => {
      const { tasks, processes } = await spoolSnapshotOf(spool)
      const running = processes.workers.flatMap(worker =>
        worker.running.map(({ task }) => [worker.pid, task]),
      )
      return { due: tasks.due, waiting: tasks.waiting, running }
    }
    const its = { due: 0, waiting: 0, running: [[pid, '1-105']] }
    await until(
      'the snapshot shows only this task',
      async () => isDeepStrictEqual(await told(), its),
      5000,
    ).catch(async error => assert.deepEqual(await told(), its, error))
    writeFileSync(gate, '')
    await until('nothing is left', () => leftIn(spool).length === 0)
    await daemon.waitFor('done with task 1-105 ')
    const lines = daemon.output.split('\n').filter(line => line.includes('1-105 '))
    assert.deepEqual(
      lines.map(line => line.replace(/^.* pid: /, '').replace(/\d+ seconds$/, '')),
      [`${pid}] managing request 1-105 ...`, `${pid}] done with task 1-105 after `],
    )
    const { totals } = await spoolSnapshotOf(spool)
    assert.deepEqual([totals.done, daemon.journal().length], [3060, 60])
  })

  it('do not make their worker begin a task that was removed or held meanwhile', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const daemon = await start(spool, { 'spooler-processes': 1, 'spooler-ordered': 'true' })
    await warmUp(spool)
    await inProcess(['pause', spool])
    await daemon.waitFor(' paused: ')
    drop(spool, '0-block', packet({ gate, n: 'block-0' }))
    const [removed, held] = ['1-removed', '2-held'].map(name => drop(spool, name, packet({ n: name }))) as [
      string,
      string,
    ]
    drop(spool, '3-last', packet({ n: 'last' }))
    await inProcess(['resume', spool])
    await until('the worker is blocked', () => blocked(spool).length === 1)
    await inProcess(['rm', removed])
    await inProcess(['hold', held])
    writeFileSync(gate, '')
    await until('all other tasks have run', () => leftIn(spool).length === 1)
    assert.deepEqual(leftIn(spool), ['2-held'])
    assert.deepEqual(
      daemon.journal().map(line => line.split(' ')[1]),
      ['block-0', 'last'],
    )
  })

  it('are named by status, and no task that ran before them counts as due', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const name = (i: number) => `uwsgi_spoolfile_on_host_1_${1000 + i}_1_1700000000_${1000 + i}`
    for (let i = 0; i < 300; i++) drop(spool, name(i), packet(i === 298 ? { later: 'yes' } : {}))
    drop(spool, name(300), packet({ gate, n: 'block' }))
    for (const i of [301, 302]) drop(spool, name(i), packet({ n: `behind-${i}` }))
    const daemon = await start(spool, { 'spooler-frequency': 1, 'spooler-watch': 'off' })
    await until('the worker is blocked', () => daemon.journal().length === 1)
    const isRunning = async () => {
      const { tasks, processes } = await spoolSnapshotOf(spool)
      return JSON.stringify([
        ...[tasks.due, tasks.running, tasks.waiting],
        ...processes.workers.flatMap(({ running }) => running.map(({ task }) => task)),
      ])
    }
    const told = JSON.stringify([2, 1, 1, name(300)])
    await until('the snapshot shows the blocked task', async () => (await isRunning()) === told, 2000)
    await setTimeout(500) // what comes later changes nothing
    assert.equal(await isRunning(), told)
    await inProcess(['pause', spool])
    await setTimeout(1500) // neither does a withdraw for the pause
    assert.equal(await isRunning(), told)
    writeFileSync(gate, '')
    await inProcess(['resume', spool])
    await until('no due task is left', () => leftIn(spool).length === 1)
    const { totals } = await spoolSnapshotOf(spool)
    assert.deepEqual([totals.done, totals.retried], [302, 1])
  })

  it('are ended by spooler-harakiri, even in a task that had been withdrawn', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { 'spooler-harakiri': 2, 'spooler-max-crashes': 1 })
    await warmUp(spool)
    const [worker = 0] = daemon.workers()
    process.kill(worker, 'SIGSTOP')
    const gate = join(dirname(spool), 'never')
    for (let i = 0; i < 4; i++) drop(spool, `hang-${i}`, packet({ gate, n: `block-${i}` }))
    await setTimeout(300) // the worker is silent, so what it was given is withdrawn
    process.kill(worker, 'SIGCONT')
    await until('one task hangs', () => blocked(spool).length >= 1)
    await daemon.waitFor('HARAKIRI')
    await until('all hanging tasks are dead', () => leftIn(spool).length === 0, 60_000)
  })
})

/**
 * Journals begin and end. A task with a gate takes 5 s; it waits for the gate if `waits` says so, or if it was begun elsewhere
 * before.
 */
const SLEEPER = `
  import { existsSync } from 'node:fs'
  import { setTimeout } from 'node:timers/promises'
  export default async (env, task) => {
    JOURNAL('begin ' + task.name + ' ' + process.pid)
    const waits = env.waits === 'true' || (env.gate !== undefined && existsSync(env.gate + '-elsewhere'))
    if (env.gate !== undefined) await setTimeout(5000)
    while (waits && !existsSync(env.gate)) await setTimeout(20)
    JOURNAL('end ' + task.name + ' ' + process.pid)
    return task.SPOOL_OK
  }`

describe('a process that is stopped for more than a minute, and goes on', {
  skip: isLong ? false : 'takes a minute',
  concurrency: true,
}, () => {
  it('keeps its record locks, so that nothing runs twice', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const setup = { spool, handler: SLEEPER, ini: { 'spooler-ordered': true, 'spooler-frequency': 1 } }
    const daemon = await startDaemon(setup)
    drop(spool, '0-slow', packet({ gate }))
    for (let i = 0; i < 100; i++) drop(spool, `1-${100 + i}`, packet({}))
    await until('the task runs', () => daemon.journal().length === 1)
    const [worker = 0] = daemon.workers()
    process.kill(worker, 'SIGSTOP')
    const since = performance.now()
    const other = await startDaemon(setup)
    await until('the other tasks have run', () => leftIn(spool).length === 1)
    await until('more than a minute is over', () => performance.now() > since + 65_000, 90_000)
    process.kill(worker, 'SIGCONT')
    await until('nothing is left', () => leftIn(spool).length === 0)
    const [begun, ended] = ['begin ', 'end '].map(word =>
      daemon
        .journal()
        .filter(line => line.startsWith(word))
        .map(line => line.split(' ')[1]),
    )
    assert.deepEqual([begun?.length, new Set(begun).size, new Set(ended).size], [101, 101, 101])
    assert.doesNotMatch(daemon.output + other.output, /crash|failed/)
  })

  for (const waits of [false, true])
    it(`settles nothing under a lease that it has lost, while its handler ${waits ? 'goes on' : 'ends at once'}`, async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const setup = {
        spool,
        handler: SLEEPER,
        ini: { 'spooler-lock': 'lockfile', 'spooler-frequency': 1, 'spooler-quiet': true },
      }
      const daemon = await startDaemon(setup)
      const path = drop(spool, 'slow', packet({ gate, waits: String(waits) }))
      await until('the task runs', () => daemon.journal().length === 1)
      const [worker = 0] = daemon.workers()
      process.kill(worker, 'SIGSTOP')
      writeFileSync(`${gate}-elsewhere`, '')
      const other = await startDaemon(setup)
      await until('the task runs elsewhere', () => daemon.journal().length === 2, 120_000)
      const before = [readFileSync(path), recordOf(spool, 'slow'), leftIn(join(spool, '.spoold/locks'))]
      process.kill(worker, 'SIGCONT')
      await until(
        'the run in the stopped process is over',
        async () => (await spoolSnapshotOf(spool)).tasks.running === 0,
      )
      if (waits) await daemon.waitFor('the lease on slow was lost')
      assert.deepEqual(
        [readFileSync(path), recordOf(spool, 'slow'), leftIn(join(spool, '.spoold/locks'))],
        before,
      )
      writeFileSync(gate, '')
      await until('nothing is left', () => leftIn(spool).length === 0)
      const { totals } = await spoolSnapshotOf(spool)
      assert.deepEqual([totals.done, totals.retried, totals.errors, totals.buried], [0, 0, 0, 0])
      assert.doesNotMatch(other.output, /gone|failed|lost/)
    })
})

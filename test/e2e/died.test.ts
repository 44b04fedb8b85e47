import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = `
import { currentTask, events, Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 9 })
const told = kind => ({ task, error }) =>
  JOURNAL([kind, task.args[0], task.retries, error.name + ': ' + error.message].join(' '))
for (const name of ['task-retried', 'task-failed'])
  events.on(name, () => { throw new Error('a listener that fails') }).on(name, told(name))
events.on('task-finished', ({ task }) => JOURNAL('finished ' + task.args[0]))
const die = async (name, deaths, how) => {
  JOURNAL(name + ' runs')
  if (currentTask().retries >= deaths) return
  if (how === 'sleeps') await new Promise(() => setInterval(() => {}, 1000))
  if (how === 'blocks') for (;;);
  if (how === 'stopping') await new Promise(resolve => process.once('SIGUSR2', resolve))
  process.kill(process.pid, 'SIGKILL')
}
tasks.task('dies', die)
tasks.task('once', { maxRetries: 0 }, die)
`

const named = (task: string, ...args: unknown[]) => packet({ task, args: JSON.stringify(args) })

async function run(packets: readonly Buffer[], ini: Record<string, string | number | boolean> = {}) {
  const spool = spoolDirectory()
  for (const [i, each] of packets.entries()) drop(spool, `uwsgi_spoolfile_on_${i}`, each)
  const daemon = await startDaemon({
    spool,
    handler: TASKS,
    ini: { 'spooler-frequency': 1, 'spooler-max-crashes': 2, 'spooler-ordered': true, ...ini },
  })
  return { daemon, spool, done: () => until('all have run', () => leftIn(spool).length === 0) }
}

describe('the death of a process that ran a JavaScript task', { concurrency: 3 }, () => {
  it('reaches task-retried in the next process, with its cause, and task-failed at spooler-max-crashes', async () => {
    const { daemon } = await run([named('dies', 'twice', 2), named('dies', 'once', 1)])
    const ended = () => daemon.journal().filter(line => line.startsWith('finished ')).length
    await until('all tasks have finished', () => ended() === 4) // the last task is told after its file is gone
    const ofOne = (name: string) => daemon.journal().filter(line => line.includes(` ${name}`))
    assert.deepEqual(ofOne('once'), [
      'task-retried once 1 WorkerDied: its process was killed by SIGKILL',
      ...['finished once', 'finished once'],
    ])
    assert.deepEqual(ofOne('twice'), [
      'task-retried twice 1 WorkerDied: its process was killed by SIGKILL',
      'finished twice',
      'task-failed twice 1 WorkerDied: its process was killed by SIGKILL',
      'finished twice',
    ])
  })

  it('reaches task-failed when the task runs at most once', async () => {
    const { daemon, done } = await run([named('once', 'only', 9)])
    await done()
    await until('the death is told', () => daemon.journal().length === 3)
    assert.deepEqual(daemon.journal(), [
      'only runs',
      'task-failed only 0 WorkerDied: its process was killed by SIGKILL',
      'finished only',
    ])
  })

  it('reaches task-retried with the deadline that the task overran', async () => {
    const { daemon, done } = await run([named('dies', 'slow', 1, 'blocks')], { 'spooler-harakiri': 1 })
    await done()
    const told = daemon.journal().filter(line => line.startsWith('task-retried'))
    assert.deepEqual(told, ['task-retried slow 1 WorkerDied: it overran spooler-harakiri (1 s)'])
  })

  it('is not caused by spooler-harakiri if the task ended while the daemon was stopped by SIGSTOP', async () => {
    const handler = `export default async (env, task) => {
      JOURNAL('begun')
      await new Promise(resolve => setTimeout(resolve, 200))
      setTimeout(() => JOURNAL('told'), 100)
      return task.SPOOL_OK
    }`
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-harakiri': 1 } })
    drop(spool)
    await until('the task runs', () => daemon.journal().length > 0)
    const since = performance.now()
    daemon.child.kill('SIGSTOP')
    await until('the task has ended', () => daemon.journal().includes('told'))
    await until('the deadline of the task is over', () => performance.now() > since + 1500)
    daemon.child.kill('SIGCONT')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /HARAKIRI/)
  })

  it('is logged even if the process was to be replaced as soon as its tasks ended', async () => {
    const handler = `export default async (env, task) => {
      JOURNAL(task.name)
      if (task.name.endsWith('quick') || task.attempt > 1) return task.SPOOL_OK
      await new Promise(() => setInterval(() => {}, 1000))
    }`
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_1_slow')
    const limits = { 'reload-on-rss': 1, 'min-worker-lifetime': 0 }
    const ini = { 'spooler-processes': 1, 'spooler-concurrency': 2, ...limits }
    const daemon = await startDaemon({ spool, handler, ini })
    const [worker = 0] = daemon.children()
    await until('the slow task runs', () => daemon.journal().length > 0)
    drop(spool, 'uwsgi_spoolfile_on_2_quick')
    await until('the worker recycles', () => daemon.output.includes('recycling'))
    process.kill(worker, 'SIGKILL')
    const line = `pid: ${worker}] the process was killed by SIGKILL; it had uwsgi_spoolfile_on_1_slow`
    await until('the death is logged', () => daemon.output.includes(line))
  })

  it('reaches task-failed with its own cause even if the next process overran a deadline with another task', async () => {
    const { daemon, spool, done } = await run([named('once', 'only', 9, 'stopping')], {
      'spooler-processes': 1,
      'spooler-harakiri': 2,
    })
    await until('the task runs', () => daemon.journal().includes('only runs'))
    const [worker = 0] = daemon.children()
    for (const priority of ['1', '2']) mkdirSync(join(spool, priority))
    // After the first of these, the next process is given all the others, and behind them what is left of the dead process.
    for (let i = 0; i < 40; i++) drop(spool, `1/uwsgi_spoolfile_on_${i}`, named('dies', 'quick', 0))
    drop(spool, '2/uwsgi_spoolfile_on_1', named('dies', 'slow', 1, 'blocks'))
    process.kill(worker, 'SIGUSR2')
    await done()
    const isTold = () => daemon.journal().find(line => line.startsWith('task-failed only'))
    assert.equal(
      await until('the death is told', isTold),
      'task-failed only 0 WorkerDied: its process was killed by SIGKILL',
    )
  })

  it('reaches no listener of tasks that shared the process with the guilty task', async () => {
    const packets = [named('dies', 'before', 0), named('dies', 'guilty', 1), named('dies', 'behind', 0)]
    const { daemon, done } = await run(packets, { 'spooler-concurrency': 3, 'spooler-max-crashes': 3 })
    await done()
    assert.deepEqual(
      daemon.journal().filter(line => line.startsWith('task-')),
      ['task-retried guilty 1 WorkerDied: its process was killed by SIGKILL'],
    )
  })

  it('reaches no listener if the process was killed when its mercy was over', async () => {
    const { daemon } = await run([named('dies', 'patient', 1, 'sleeps')], { 'worker-reload-mercy': 1 })
    const runs = () => daemon.journal().filter(line => line === 'patient runs').length
    await until('the task runs', () => runs() === 1)
    daemon.child.kill('SIGHUP')
    await until('the task runs again', () => runs() === 2)
    assert.deepEqual(daemon.journal(), ['patient runs', 'patient runs'])
  })

  for (const [what, signal] of [
    ['a stop', 'SIGTERM'],
    ['a reload', 'SIGHUP'],
  ] as const)
    it(`is logged even while the process ends for ${what}`, async () => {
      const { daemon, done } = await run([named('dies', 'one', 1, 'stopping')])
      await until('the task runs', () => daemon.journal().includes('one runs'))
      const [worker = 0] = daemon.workers()
      daemon.child.kill(signal)
      await daemon.waitFor(what === 'a stop' ? 'SIGTERM' : 'reload')
      process.kill(worker, 'SIGUSR2')
      await daemon.waitFor(/the process was killed by SIGKILL; it had uwsgi_spoolfile_on_0\b/)
      await (what === 'a stop' ? daemon.code() : done())
      assert.doesNotMatch(daemon.output, /trying respawn/) // a process that ended anyway needs no successor
    })
})

import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { Daemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'

const TASKS = `
import signal, threading
from spoold import Tasks, WorkerDied, current_job, signals
tasks = Tasks(namespace='shop', max_retries=9)

@signals.job_schedule_retry.connect
@signals.job_failed.connect
def broken(namespace, job, err, **kwargs): raise KeyError('a receiver that fails')

def told(kind, namespace, job, err):
    assert current_job().id == job.id
    data = ' '.join(map(str, [job.task_args[0], job.retries, job.status.name, type(err).__name__]))
    journal('%s %s %s: %s' % (namespace, kind, data, err))
@signals.job_schedule_retry.connect
def retried(namespace, job, err, **kwargs): told('retry', namespace, job, err)
@signals.job_failed.connect
def failed(namespace, job, err, **kwargs): told('failed', namespace, job, err)

def run(name, deaths, whose):
    journal('%s runs' % name)
    if current_job().attempt > deaths: return
    if whose == 'fails': raise ValueError('no')
    os.kill(os.getpid() if whose == 'own' else os.getppid(), 9)
    time.sleep(60)
tasks.add(run, name='run')
tasks.add(run, name='once', max_retries=0)
@tasks.task(name='coroutine')
async def coroutine(*args): run(*args)
@tasks.task(name='sleeps')
def sleeps(name):
    journal('%s runs' % name)
    if not os.path.exists(os.environ['SLEPT']):
        open(os.environ['SLEPT'], 'w').close()
        time.sleep(60)
`

type Arguments = readonly [name: string, deaths: number, whose: 'own' | 'worker' | 'fails']

const named = (task: string, args: readonly unknown[]) =>
  packet({ task: `shop:${task}`, args: JSON.stringify(args) })

describe('the death of a process that ran a task in Python', { skip: skipUnless('python3') }, () => {
  const spool = spoolDirectory()
  let daemon: Daemon
  const toldOf = (name: string) => daemon.journal().filter(line => line.includes(` ${name} `))
  const runsOf = (name: string) => daemon.journal().filter(line => line === `${name} runs`).length
  const done = () => until('the spool is empty', () => leftIn(spool).length === 0)
  const run = async (task: string, ...args: Arguments) => {
    drop(spool, undefined, named(task, args))
    await done()
  }

  const starting = startHost('python', {
    spool,
    handler: TASKS,
    ini: { 'spooler-max-crashes': 2, 'spooler-frequency': 1, 'spooler-retry-delay': '1s' },
  })
  before(async () => {
    daemon = await starting
  })

  it('reaches job_schedule_retry in the next interpreter, with its cause, even if a receiver fails', async () => {
    await run('run', 'host', 1, 'own')
    assert.deepEqual(toldOf('host'), [
      'shop retry host 1 QUEUED WorkerDied: the Python interpreter that ran it was killed by SIGKILL',
    ])
    assert.equal(runsOf('host'), 2)
  })

  it('reaches job_schedule_retry in the next worker if the worker died, with the recorded cause', async () => {
    await run('run', 'worker', 1, 'worker')
    assert.deepEqual(toldOf('worker'), [
      'shop retry worker 1 QUEUED WorkerDied: its process was killed by SIGKILL',
    ])
    assert.equal(runsOf('worker'), 2)
  })

  for (const [whose, how] of [
    ['own', 'the Python interpreter that ran it was killed by SIGKILL'],
    ['worker', 'its process was killed by SIGKILL'],
  ] as const)
    it(`reaches job_failed if the task does not run again, at spooler-max-crashes or at most once: ${whose}`, async () => {
      await run('run', `max-${whose}`, 9, whose)
      await run('once', `once-${whose}`, 9, whose)
      await until('job_failed has got both tasks', () => toldOf(`once-${whose}`).length === 1)
      assert.deepEqual(toldOf(`max-${whose}`), [
        `shop retry max-${whose} 1 QUEUED WorkerDied: ${how}`,
        `shop failed max-${whose} 1 FAILED WorkerDied: ${how}`,
      ])
      assert.deepEqual(toldOf(`once-${whose}`), [`shop failed once-${whose} 0 FAILED WorkerDied: ${how}`])
      assert.deepEqual([runsOf(`max-${whose}`), runsOf(`once-${whose}`)], [2, 1])
    })

  it('reaches job_schedule_retry with the arguments of the task, even if they are in the body', async () => {
    for (const whose of ['own', 'worker']) {
      const body = Buffer.from(JSON.stringify({ args: [`body-${whose}`, 1, whose] }))
      drop(spool, undefined, Buffer.concat([packet({ task: 'shop:run', args: '@body' }), body]))
      await done()
      assert.match(toldOf(`body-${whose}`).join(), /^shop retry body-\w+ 1 QUEUED WorkerDied: [^,]+$/)
    }
  })

  it('is not what a failing run is taken for, whose own process reports the error', async () => {
    await run('run', 'failing', 1, 'fails')
    assert.deepEqual(toldOf('failing'), ['shop retry failing 1 WAITING ValueError: no'])
  })
})

describe('signals for a Python task that did not kill its process', { skip: skipUnless('python3') }, () => {
  it('are not sent if another task killed the process', async () => {
    const spool = spoolDirectory()
    for (let i = 1000; i < 1600; i++)
      drop(spool, `uwsgi_spoolfile_on_${i}`, named('run', [`innocent${i}`, 0, 'own']))
    drop(spool, 'uwsgi_spoolfile_on_1300', named('run', ['guilty', 2, 'worker']))
    const ini = { 'spooler-ordered': true, 'spooler-frequency': 1 }
    const daemon = await startHost('python', { spool, handler: TASKS, ini })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(
      daemon.journal().filter(line => line.startsWith('shop ')),
      ['1 QUEUED', '2 WAITING'].map(
        after => `shop retry guilty ${after} WorkerDied: its process was killed by SIGKILL`,
      ),
    )
    assert.equal(daemon.journal().filter(line => line === 'guilty runs').length, 4) // the first, beside others, does not count
  })

  it('are not sent if mercy ended the task', async () => {
    const spool = spoolDirectory()
    drop(spool, undefined, named('sleeps', ['patient']))
    const daemon = await startHost('python', {
      spool,
      handler: TASKS,
      ini: { 'worker-reload-mercy': 1 },
      env: { ...process.env, SLEPT: `${spool}.slept` },
    })
    const runs = () => daemon.journal().filter(line => line === 'patient runs').length
    await until('the task runs', () => runs() === 1)
    daemon.child.kill('SIGHUP')
    await until('the task has run again', () => runs() === 2 && leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['patient runs', 'patient runs'])
  })

  it('are not sent if the task waited while a coroutine killed the interpreter', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: TASKS,
      ini: { 'spooler-concurrency': 4, 'spooler-frequency': 1, 'spooler-max-crashes': 2 },
    })
    drop(spool, undefined, named('coroutine', ['coroutine', 1, 'own']))
    drop(spool, undefined, named('run', ['other', 0, 'own']))
    await until('both tasks have run', () => leftIn(spool).length === 0)
    const [told = '', ...more] = daemon.journal().filter(line => line.startsWith('shop '))
    assert.match(told, /^shop retry coroutine 1 QUEUED WorkerDied: .* was killed by SIGKILL$/)
    assert.deepEqual(more, [])
  })
})

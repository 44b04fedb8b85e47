import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { hostsOf, startHost } from './host-daemon.js'
import { drain, pythonEnv, runPython, sample, schedule } from './named-host.js'

const RETRIES = sample('python/retries.py')

/** Returns the dead letters of a spool: the name of each task, and why it is dead. */
function deadIn(spool: string): Record<string, { reason: string; attempts: number; detail: string }> {
  const dead = join(spool, '.spoold/dead')
  const letters = leftInDead(dead).map(name => {
    return [taskIn(join(dead, name)), JSON.parse(readFileSync(join(dead, `${name}.json`), 'utf8'))]
  })
  return Object.fromEntries(letters)
}

/** Returns the value of the key `task` in a packet. */
function taskIn(file: string): string {
  const bytes = readFileSync(file)
  const at = bytes.indexOf('task') + 4
  return bytes.toString('utf8', at + 2, at + 2 + bytes.readUInt16LE(at))
}

const leftInDead = (dead: string) => leftIn(dead).filter(name => !name.endsWith('.json'))

/** Starts a daemon with the tasks of retries.py. @returns it and its journal */
async function startRetries(spool: string) {
  const env = { JOURNAL: join(dirname(spool), 'journal') }
  const daemon = await startDaemon({ spool, isForeign: true, env, ini: { python: PYTHON, import: RETRIES } })
  const enqueue = (code: string) => schedule(RETRIES, code, spool, env)
  return { daemon, enqueue, journal: () => readJournal(dirname(spool)) }
}

describe('named tasks in Python', { skip: skipUnless('python3') }, () => {
  it('run after a program has scheduled them by function and by name, as in the quickstart', async () => {
    const spool = spoolDirectory()
    runPython([sample('python/quickstart.py')], pythonEnv(spool))
    assert.equal(leftIn(spool).length, 2)
    const { code, stdout, stderr } = await drain(spool, sample('python/quickstart.py'))
    assert.equal(code, 0, stderr)
    for (const line of ['Computed 5 + 3 = 8', 'Computed 6 + 4 = 10'])
      assert.ok((stdout + stderr).includes(line), stdout + stderr)
    assert.deepEqual(leftIn(spool), [])
  })

  it('are scheduled by the daemon if they are periodic, by a period or by cron', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'coffee.py')
    writeFileSync(
      file,
      `from datetime import timedelta
from spoold import Tasks
tasks = Tasks(namespace='shop')
@tasks.task(name='make-coffee', periodicity=timedelta(seconds=1))
def make_coffee():
    print('Making coffee...', flush=True)
@tasks.task(name='report', cron='* * * * * *', time_zone='Europe/Paris', missed='skip', overlap=True)
async def report():
    print('Reporting...', flush=True)
`,
    )
    const daemon = await startDaemon({ spool, isForeign: true, ini: { python: PYTHON, import: file } })
    for (const line of [/Making coffee/g, /Reporting/g])
      await until(`two of ${line}`, () => [...daemon.output.matchAll(line)].length >= 2)
    await daemon.waitFor(/\(shop:make-coffee\)/)
  })

  const REFUSED: Array<[options: string, message: RegExp]> = [
    ['periodicity=0.5', /periodicity must be a timedelta or seconds, 1 at least, got 0.5/],
    ['periodicity=True', /periodicity must be a timedelta or seconds, 1 at least, got True/],
    ['periodicity=5, cron="@daily"', /periodicity and cron cannot both be given/],
    ['periodicity=5, missed="all"', /missed must be one of one, skip, got 'all'/],
    ['cron=5', /cron must be an expression such as '0 3 \* \* \*', got 5/],
    ['overlap=True', /overlap is of no use without periodicity or cron/],
    ['periodicity=5, often=1', /there is no option often/],
  ]
  for (const [options, message] of REFUSED)
    it(`are refused as periodic with ${options}`, () => {
      const program = `from spoold import Tasks\nTasks().add(lambda: 0, name='a', ${options})`
      assert.throws(() => runPython(['-c', program], pythonEnv()), message)
    })

  it('are refused as periodic if they need arguments, and a wrong cron expression fails the start', async () => {
    const program = "from spoold import Tasks\nTasks().add(lambda a: a, name='a', periodicity=5)"
    assert.throws(
      () => runPython(['-c', program], pythonEnv()),
      /called without arguments: missing a required argument: 'a'/,
    )
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'bad.py')
    writeFileSync(file, "from spoold import Tasks\nTasks().add(lambda: 0, name='a', cron='0 0 25 * * *')\n")
    const ini = { python: PYTHON, import: file }
    const daemon = await startDaemon({ spool, isForeign: true, isUnready: true, ini })
    await daemon.waitFor(/task a \(\S+bad\.py:2\): cron: expected a cron expression, got "0 0 25 \* \* \*"/)
    assert.notEqual((await daemon.exited).code, 0)
  })

  it('of a slow queue do not hold up those of a fast queue, which has a spool of its own', async () => {
    const high = spoolDirectory()
    const low = join(dirname(high), 'low')
    mkdirSync(low)
    const queues = `high-priority=${high},low-priority=${low}`
    runPython([sample('python/queues.py')], pythonEnv(queues))
    assert.deepEqual([leftIn(high).length, leftIn(low).length], [1, 1])
    const daemon = await startDaemon({
      spool: high,
      isForeign: true,
      ini: { spooler: [high, low], python: PYTHON, import: sample('python/queues.py') },
    })
    await daemon.waitFor(/^slow$/m)
    await daemon.waitFor(/^fast$/m)
    await until('only the slow task is left', () => leftIn(high).length === 0)
    assert.equal(leftIn(low).length, 1)
  })

  it('run again at the time of a RetryException, in UTC if it is naive, and after an error', async () => {
    const spool = spoolDirectory()
    const { daemon, enqueue, journal } = await startRetries(spool)
    const began = Date.now()
    enqueue(`m.tasks.schedule('foo', 1, b='two'); m.tasks.schedule(m.naive); m.tasks.schedule(m.index)`)
    await daemon.waitFor(/foo got 1 two/)
    assert.ok(Date.now() - began >= 1900, 'the retry waited for its time')
    await until('all tasks are done', () => leftIn(spool).length === 0)
    assert.deepEqual(journal().sort(), ['foo', 'foo', 'index', 'index', 'naive', 'naive'])
    await daemon.waitFor(/Should retry in 2 seconds/)
    await daemon.waitFor(/Traceback[\s\S]*retries.py", line \d+, in index[\s\S]*IndexError/)
    assert.doesNotMatch(daemon.output, /spoold\/run.py|spoold_host/)
  })

  it('succeed whatever they return, and are buried at their limit, by AbortException or without retries', async () => {
    const spool = spoolDirectory()
    const { enqueue, journal } = await startRetries(spool)
    enqueue(`for name in ['always', 'once', 'abort', 'quits', 'returns']: m.tasks.schedule(name)`)
    await until(
      'one task is done and four are dead',
      () => leftIn(spool).length === 0 && leftInDead(join(spool, '.spoold/dead')).length === 4,
    )
    assert.deepEqual(journal().sort(), ['abort', 'always', 'always', 'once', 'quits', 'returns'])
    const dead = deadIn(spool)
    assert.deepEqual(
      Object.entries(dead)
        .map(([task, { reason, attempts }]) => `${task}: ${reason} after ${attempts}`)
        .sort(),
      [
        'abort: asked after 1',
        'always: attempts after 2',
        'once: attempts after 1',
        'quits: attempts after 1',
      ],
    )
    assert.equal(dead.abort?.detail, 'no such customer')
    for (const args of [
      ['ls', spool],
      ['ls', '--by', 'error', '--state', 'dead', spool],
    ]) {
      const { stdout } = await spoold(args)
      assert.match(stdout, /\w+(Error|Exit)\b/)
      assert.doesNotMatch(stdout, /Traceback/, 'the error is shown, not the first line of the traceback')
    }
  })

  it('send signals to the receivers of their namespace, in order, even if a receiver fails', async () => {
    const spool = spoolDirectory()
    const env = { JOURNAL: join(dirname(spool), 'journal') }
    runPython([sample('python/signals.py')], { ...pythonEnv(spool), ...env })
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      env,
      ini: { python: PYTHON, import: sample('python/signals.py') },
    })
    const journal = () => readJournal(dirname(spool))
    await until('the task of bar has run again', () => leftIn(spool).length === 0)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(journal().slice(0, 2), ['foo worker started', 'bar worker started'])
    assert.deepEqual(journal().slice(-2), ['foo worker terminated', 'bar worker terminated'])
    assert.deepEqual(
      journal().filter(line => /foo work|Foo/.test(line) && !line.includes('worker')),
      ['Job work started on Foo', 'foo work finished SUCCEEDED'],
    )
    assert.deepEqual(
      journal().filter(line => line.startsWith('bar work ')),
      [
        'bar work retry 1: it fails',
        'bar work finished WAITING',
        'bar work failed: it fails',
        'bar work finished FAILED',
      ],
    )
    await daemon.waitFor(/a receiver of job_started failed/)
  })

  it('run beside a dictionary handler, which gets the packets that no registry knows', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
from spoold import Tasks
tasks = Tasks()
@tasks.task(name='known')
def known(*args, **kwargs):
    journal('named %r %r' % (args, kwargs))
    if args[:1] == ('again',): tasks.schedule(known, 'scheduled in a task', é='ß')
def spooler(env):
    journal('dictionary ' + repr(sorted(k if isinstance(k, str) else k.decode() for k in env)))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
    })
    drop(spool, 'a', packet({ to: 'joe' }))
    drop(spool, 'b', packet({ task: 'mine' }))
    drop(spool, 'c', packet({ task: 'known' }))
    drop(spool, 'd', packet({ task: 'known', args: '["again", 1]' }))
    drop(spool, 'e', packet({ task: 'known', args: '@body' }, '{"args":["in the body"],"kwargs":{"k":null}}'))
    await until('all tasks have run', () => daemon.journal().length === 6)
    assert.deepEqual(daemon.journal().sort(), [
      "dictionary ['spooler_task_name', 'task']",
      "dictionary ['spooler_task_name', 'to']",
      "named ('again', 1) {}",
      "named ('in the body',) {'k': None}",
      "named ('scheduled in a task',) {'é': 'ß'}",
      'named () {}',
    ])
    drop(spool, 'f', packet({ task: 'known', args: '{"not": "a list"}' }))
    drop(spool, 'g', packet({ task: 'known', args: '["cut' }))
    await until('both tasks are buried', () => leftInDead(join(spool, '.spoold/dead')).length === 2)
    await daemon.waitFor(/task f.*args: expected a JSON array, got \{'not': 'a list'\}/)
    await daemon.waitFor(/task g.*args: expected JSON, got b'\["cut'/)
  })

  it('fail the start if two of them have one name, and the error names both places', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
from spoold import Tasks
one, two = Tasks(), Tasks()
@one.task(name='twice')
def first(): pass
@two.task(name='twice')
def second(): pass
`,
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    await daemon.waitFor(/two tasks have the name twice: .*tasks\.py:\d+ and .*tasks\.py:\d+/)
  })
})

describe('scheduling in Python', { skip: skipUnless('python3') }, () => {
  it('writes the same packet as the other writers, with a fraction of a second in at', () => {
    const spool = spoolDirectory()
    schedule(RETRIES, `m.tasks.schedule_at('foo', m.datetime(2033, 5, 18, 3, 33, 20, 500000), 1, [2])`, spool)
    const [name = ''] = leftIn(spool)
    const bytes = readFileSync(join(spool, name))
    const id = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(bytes.toString('latin1'))?.[0] ?? ''
    assert.deepEqual(bytes, packet({ task: 'foo', args: '[1,[2]]', id, at: '2000000000.5' }))
  })

  it('refuses each wrong call with its own error, and stores nothing of it', () => {
    const spool = spoolDirectory()
    writeFileSync(join(dirname(spool), 'tasks.py'), REFUSALS)
    const printed = runPython([join(dirname(spool), 'tasks.py')], pythonEnv(spool))
    assert.deepEqual(printed.trim().split('\n'), [
      'InvalidJobSignatureError: missing a required argument',
      "InvalidJobSignatureError: got an unexpected keyword argument 'c'",
      'UnknownTask: no task sub is in this registry; it has: add, mail',
      'InvalidJobSignatureError: Object of type object is not JSON serializable',
      'InvalidJobSignatureError: Circular reference detected',
      'InvalidJobSignatureError: Out of range float values',
      'InvalidJobSignatureError: surrogates not allowed',
      'InvalidJobSignatureError: 1048577',
      'DestinationUnknown: no spool is known for the queue mail (known: default)',
      'TypeError: expected a datetime',
      'TypeError: expected a datetime, got None',
      'TypeError: expected a datetime, got None',
      'InvalidJobSignatureError: missing a required argument',
      'RuntimeError: make a new one',
      'DestinationUnknown: there is no spool directory',
      'DestinationUnknown: (spooler-fallback), or the socket of a daemon',
      'DestinationUnknown: one of three ways',
    ])
    assert.equal(leftIn(spool).length, 2, 'only the tasks of the valid batch are stored')
  })
})

const REFUSALS = `
import os
from spoold import Batch, Tasks
tasks = Tasks()
@tasks.task(name='add')
def add(a, b): pass
tasks.add(lambda: None, name='mail', queue='mail')
def said(wanted, f):
    try: print('stored', f())
    except Exception as error: print('%s: %s' % (type(error).__name__, wanted if wanted in str(error) else error))
loop = []
loop.append(loop)
batch, good = Batch(), Batch()
batch.schedule(add, 1, 2)
batch.schedule(add, 1)
good.schedule(add, 1, 2)
good.schedule('add', 1, b=2)
said('missing a required argument', lambda: tasks.schedule(add, 1))
said("got an unexpected keyword argument 'c'", lambda: tasks.schedule(add, 1, 2, c=3))
said('no task sub is in this registry; it has: add, mail', lambda: tasks.schedule('sub', 1, 2))
said('Object of type object is not JSON serializable', lambda: tasks.schedule(add, 1, object()))
said('Circular reference detected', lambda: tasks.schedule(add, 1, loop))
said('Out of range float values', lambda: tasks.schedule(add, 1, float('inf')))
said('surrogates not allowed', lambda: tasks.schedule(add, 1, '\\udcff'))
said('1048577', lambda: tasks.schedule(add, 1, 'x' * (1048577 - 6)))
said('no spool is known for the queue mail (known: default)', lambda: tasks.schedule('mail'))
said('expected a datetime', lambda: tasks.schedule_at(add, 5, 1, 2))
said('expected a datetime, got None', lambda: tasks.schedule_at(add, None, 1, 2))
said('expected a datetime, got None', lambda: Batch().schedule_at(add, None, 1, 2))
said('missing a required argument', lambda: tasks.schedule_batch(batch))
tasks.schedule_batch(good)
said('make a new one', lambda: tasks.schedule_batch(good))
os.environ['SPOOLD_ENQUEUE_TO'] += '-missing'
said('there is no spool directory', lambda: tasks.schedule(add, 1, 2))
os.environ['SPOOLD_ENQUEUE_TO'] = 'redis://:secret@127.0.0.1/0/mail'
said('(spooler-fallback), or the socket of a daemon', lambda: tasks.schedule(add, 1, 2))
del os.environ['SPOOLD_ENQUEUE_TO']
said('one of three ways', lambda: tasks.schedule(add, 1, 2))
`

/** Starts a server that answers nobody until it has been asked `together` times. */
async function pokemonApi(together: number): Promise<{ port: number; asked: () => number }> {
  let asked = 0
  const waiting: Array<() => void> = []
  const server = createServer((request, response) => {
    asked++
    const name = `pokemon-${request.url?.split('/').at(-1)}`
    waiting.push(() => response.end(JSON.stringify({ name })))
    if (asked >= together) for (const answer of waiting.splice(0)) answer()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  return { port: typeof address === 'object' && address !== null ? address.port : 0, asked: () => asked }
}

describe('tasks that are coroutines', { skip: skipUnless('python3') }, () => {
  const BATCH = sample('python/batch.py')

  it('run beside each other in one interpreter, all 150 of a batch', async () => {
    const spool = spoolDirectory()
    const api = await pokemonApi(150) // it answers nobody before all have asked
    runPython([BATCH], pythonEnv(spool))
    assert.equal(leftIn(spool).length, 150)
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      env: { POKEMON_API: `http://127.0.0.1:${api.port}` },
      ini: { python: PYTHON, import: BATCH, 'spooler-concurrency': 256 },
    })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.equal(api.asked(), 150)
    await daemon.waitFor(/Pokemon #150 is pokemon-150/)
    assert.equal(daemon.output.match(/Pokemon #(\d+) is pokemon-\1$/gm)?.length, 150)
    assert.equal(hostsOf(daemon).length, 1)
  })

  it('all run without spooler-concurrency', async () => {
    const spool = spoolDirectory()
    const api = await pokemonApi(1)
    runPython([BATCH], pythonEnv(spool))
    const env = { POKEMON_API: `http://127.0.0.1:${api.port}` }
    const { code, stderr } = await drain(spool, BATCH, env)
    assert.equal(code, 0, stderr)
    assert.equal(api.asked(), 150)
  })

  it('fail, retry and print each by itself, beside functions and a dictionary handler', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
import asyncio
from spoold import AbortException, RetryException, Tasks, signals
tasks = Tasks()
both = {}
@signals.job_finished.connect
def finished(namespace, job, **kwargs): journal('%s %s' % (job.task_name, job.status.name))
@signals.job_started.connect
def started(namespace, job, **kwargs):
    if job.task_name == 'meets': journal('meets starts %s' % asyncio.run(here()))
@tasks.task(name='meets')
async def meets(me, other):
    for name, place in ((me, both), (other, both)):
        place.setdefault(name, asyncio.Event())
    both[me].set()
    print('I am', me, end='')
    await both[other].wait()
    print(' and met', other)
@tasks.task(name='again', max_retries=1)
async def again():
    journal('again')
    raise RetryException('once more', at=__import__('datetime').datetime(2000, 1, 1))
@tasks.task(name='aborts', max_retries=9)
async def aborts(): raise AbortException('no such customer')
async def here(): return asyncio.get_running_loop() is not None
@tasks.task(name='plain')
def plain(): print('plain', asyncio.get_event_loop().run_until_complete(here()), asyncio.run(here()))
def spooler(env):
    journal('dictionary %s' % asyncio.run(here()))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
      ini: { 'spooler-concurrency': 8 },
    })
    drop(spool, 'a', packet({ task: 'meets', args: '["a","b"]' }))
    drop(spool, 'b', packet({ task: 'meets', args: '["b","a"]' }))
    for (const task of ['again', 'aborts', 'plain', 'other']) drop(spool, task, packet({ task }))
    const dead = join(spool, '.spoold/dead')
    await until('all tasks have ended', () => leftIn(spool).length === 0 && leftInDead(dead).length === 2)
    assert.deepEqual(
      daemon.journal().sort(),
      [
        'again',
        'again',
        'again FAILED',
        'again WAITING',
        'aborts FAILED',
        'dictionary True',
        'meets SUCCEEDED',
        'meets SUCCEEDED',
        'meets starts True',
        'meets starts True',
        'plain SUCCEEDED',
      ].sort(),
    )
    for (const line of [/^\[?.*I am a and met b$/m, /I am b and met a$/m, /plain True True$/m])
      await daemon.waitFor(line)
    await daemon.waitFor(/task again.*once more/)
  })

  it('run again if one of them kills their interpreter, and that one alone is counted', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
import asyncio
from spoold import Tasks
tasks = Tasks(max_retries=9)
running = []
@tasks.task(name='kills')
async def kills():
    journal('kills beside %d' % len(running))
    while running == [] and not os.path.exists('${spool}/../gate'): await asyncio.sleep(0.01)
    os.kill(os.getpid(), 9)
@tasks.task(name='waits')
async def waits():
    running.append(1)
    while not os.path.exists('${spool}/../gate'): await asyncio.sleep(0.01)
    journal('waited')
`,
      ini: { 'spooler-concurrency': 4, 'spooler-max-crashes': 2 },
    })
    drop(spool, 'waits', packet({ task: 'waits' }))
    drop(spool, 'kills', packet({ task: 'kills' }))
    await until('a task has begun that kills', () => daemon.journal().length > 0)
    writeFileSync(join(dirname(spool), 'gate'), '')
    const dead = join(spool, '.spoold/dead')
    await until(
      'that task is buried, and the other is done',
      () => leftIn(spool).length === 0 && leftInDead(dead).length === 1,
    )
    assert.equal(deadIn(spool).kills?.reason, 'crashes')
    assert.ok(daemon.journal().includes('waited'))
  })
})

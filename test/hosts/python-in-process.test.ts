import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { TestProcess } from '../helpers/process.js'
import { PYTHON, virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { patience } from '../helpers/until.js'
import { FIXTURES, workspace } from '../helpers/workspace.js'
import { PYTHON_LIBRARY, runPython } from './named-host.js'
import { Snippets } from './python-snippets.js'

const SPINACH = join(FIXTURES, 'named/spinach')

describe("the programs of Spinach's manual, with their import lines changed", {
  skip: skipUnless('python3'),
}, () => {
  function start(name: string): TestProcess {
    const text = readFileSync(join(SPINACH, `${name}.py`), 'utf8')
    const file = join(workspace(), `${name}.py`)
    const changed = text.replace(/^from spinach import/m, 'from spoold import')
    assert.notEqual(changed, text)
    writeFileSync(file, changed)
    return new TestProcess(PYTHON, ['-u', file], { env: { PYTHONPATH: `${PYTHON_LIBRARY}:${SPINACH}` } })
  }

  it('page 1: a function runs, and ^C ends the workers', async () => {
    const program = start('quickstart')
    await program.waitFor(/^Computed 5 \+ 3 = 8$/m)
    program.child.kill('SIGINT')
    assert.equal(await program.code(), 0)
    assert.equal(program.output, 'Starting workers, ^C to quit\nComputed 5 + 3 = 8\n')
  })

  it('a SIGINT that comes while threads start ends all of them', async () => {
    const file = join(workspace(), 'interrupted.py')
    writeFileSync(
      file,
      `import os, signal, threading
from spoold import Engine, MemoryBroker
start = threading.Thread.start
def interrupted(self):
    start(self)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread.start = interrupted
Engine(MemoryBroker()).start_workers()
print('ended')
`,
    )
    const program = new TestProcess(PYTHON, ['-u', file], { env: { PYTHONPATH: PYTHON_LIBRARY } })
    assert.equal(await program.code(), 0, program.output)
    assert.equal(program.output, 'ended\n')
  })

  it('page 2.3: a periodic task runs first after five seconds, and SIGTERM ends the workers', async () => {
    const began = performance.now()
    const program = start('periodic')
    await program.waitFor(/Making coffee\.\.\./)
    assert.ok(performance.now() - began >= 5000)
    program.child.kill('SIGTERM')
    assert.equal(await program.code(), 0)
  })

  it('page 5: workers of one queue run its tasks alone, and stop when the queue is empty', async () => {
    const began = performance.now()
    const program = start('queues')
    assert.equal(await program.code(), 0, program.output)
    assert.ok(performance.now() - began < 9000, 'the slow task did not run')
    assert.match(program.output, /INFO: Starting execution of Job <fast RUNNING /)
    assert.match(program.output, /INFO: Finished execution of Job <fast SUCCEEDED \S+> in 1 s/)
    assert.match(program.output, /Stopping workers because queue "high-priority" is empty/)
    assert.doesNotMatch(program.output, /<slow RUNNING/)
  })

  it('page 6.3: 150 coroutines run beside each other', async () => {
    const program = start('asyncio_workers')
    assert.equal(await program.code(), 0, program.output)
    assert.equal(program.output.match(/^Pokemon #(\d+) is pokemon-\1$/gm)?.length, 150)
  })
})

const LIBRARIES = {
  spoold: `
import spoold, spoold.utils
from spoold import *
from spoold import signals
from spoold.utils import exponential_backoff
QUEUE = 'default'
`,
  spinach: `
from spinach import *
from spinach import signals, Engine, MemoryBroker, Tasks, Batch, RetryException, AbortException, AsyncioWorkers
from spinach.exc import UnknownTask, InvalidJobSignatureError
from spinach.job import JobStatus
from spinach.utils import exponential_backoff
QUEUE = 'spinach'
`,
} as const

const RECORDER = `
def record(namespace=None):
    """What is heard, in order: the signal, the task and its status."""
    heard = []
    def of(name):
        def hear(sender, job=None, err=None, worker_name=None, **kwargs):
            about = worker_name if job is None else '%s %s' % (job.task_name, job.status.name)
            heard.append('%s %s%s' % (name, about, '' if err is None else ' %s' % type(err).__name__))
        signal = getattr(signals, name)
        signal.connect(hear, **({} if namespace is None else {'sender': namespace}))
        keep.append(hear)
    for name in ('job_started', 'job_schedule_retry', 'job_failed', 'job_finished'): of(name)
    return heard
keep = []
PAST = datetime(2000, 1, 1, tzinfo=timezone.utc)
logging.disable(logging.CRITICAL)
def drain(spin, **options): spin.start_workers(number=1, stop_when_queue_empty=True, **options)
`

/** What Spinach's manual promises and its own tests check. */
const BEHAVIOURS: ReadonlyArray<readonly [title: string, code: string]> = [
  [
    'a task is scheduled by its name, its function or itself, and a decorated function stays as it is',
    `
spin, got = Engine(MemoryBroker(), namespace='by'), []
@spin.task(name='add')
def add(a, b=2): got.append((a, b)); return a + b
assert add(40) == 42 and add.task_name == 'add'
for task in ('add', add): spin.schedule(task, 1, b=3)
drain(spin)
assert got == [(40, 2), (1, 3), (1, 3)], got
`,
  ],
  [
    'the life of a job: started and finished, in this order, with its status',
    `
spin = Engine(MemoryBroker(), namespace='life')
heard = record('life')
spin.task(lambda: 0, name='fine')
job = spin.schedule('fine')
assert job.status is JobStatus.QUEUED and job.retries == 0 and job.task_args == () and job.task_kwargs == {}
drain(spin)
assert heard == ['job_started fine RUNNING', 'job_finished fine SUCCEEDED'], heard
`,
  ],
  [
    'a failure without retries: failed, then finished',
    `
spin = Engine(MemoryBroker(), namespace='once')
heard = record('once')
def bad(): raise KeyError('no')
spin.task(bad, name='bad')
spin.schedule('bad')
drain(spin)
assert heard == ['job_started bad RUNNING', 'job_failed bad FAILED KeyError', 'job_finished bad FAILED'], heard
`,
  ],
  [
    'a retry that is due runs again at once, up to max_retries times',
    `
spin, runs = Engine(MemoryBroker(), namespace='again'), []
heard = record('again')
def bad(): runs.append(1); raise RetryException('once more', at=PAST)
spin.task(bad, name='bad', max_retries=2)
spin.schedule('bad')
drain(spin)
time.sleep(0.1)
drain(spin)
assert len(runs) == 3, runs
assert [line.split()[0] for line in heard] == ['job_started', 'job_schedule_retry', 'job_finished'] * 2 + ['job_started', 'job_failed', 'job_finished'], heard
`,
  ],
  [
    'after an error a job waits, and waiting jobs keep nothing alive',
    `
spin, seen = Engine(MemoryBroker(), namespace='waits'), []
def bad(): raise KeyError('no')
spin.task(bad, name='bad', max_retries=5)
def retried(namespace, job, err, **kwargs): seen.append((job.retries, (job.at - datetime.now(timezone.utc)).total_seconds()))
signals.job_schedule_retry.connect(retried, sender='waits')
spin.schedule('bad')
spin.schedule_at('bad', datetime.now(timezone.utc) + timedelta(hours=1))
began = time.monotonic()
drain(spin)
assert time.monotonic() - began < 2 and len(seen) == 1 and seen[0][0] == 1 and 2 < seen[0][1] <= 6, seen
`,
  ],
  [
    'AbortException stops all retries',
    `
spin = Engine(MemoryBroker(), namespace='abort')
heard = record('abort')
def bad(): raise AbortException('no such customer')
spin.task(bad, name='bad', max_retries=10)
spin.schedule('bad')
drain(spin)
assert heard == ['job_started bad RUNNING', 'job_failed bad FAILED AbortException', 'job_finished bad FAILED'], heard
`,
  ],
  [
    'max_concurrency: no more at a time, however many are queued and workers there are',
    `
spin, lock, now, most = Engine(MemoryBroker(), namespace='limit'), threading.Lock(), [0], [0]
def work():
    with lock: now[0] += 1; most[0] = max(most[0], now[0])
    time.sleep(0.03)
    with lock: now[0] -= 1
    done.append(1)
done = []
spin.task(work, name='work', max_retries=1, max_concurrency=2)
for _ in range(8): spin.schedule('work')
spin.start_workers(number=5, block=False)
while len(done) < 8: time.sleep(0.01)
spin.stop_workers()
assert most == [2], most
`,
  ],
  [
    'max_concurrency needs retries, and names are needed, and taken once',
    `
spin = Engine(MemoryBroker(), namespace='needs')
raises(ValueError, '', lambda: spin.task(print, name='a', max_concurrency=1))
raises(ValueError, '', lambda: spin.task(print, name='a', max_retries=1, max_concurrency=0))
raises(ValueError, '', lambda: spin.task(print))
def f(): pass
spin.task(f, name='b')
raises(ValueError, '', lambda: spin.task(f, name='b'))
raises(ValueError, '', lambda: spin.task(f, name='c', queue='_reserved'))
`,
  ],
  [
    'a periodic task runs first after one period, and at most every period',
    `
spin, began, runs = Engine(MemoryBroker(), namespace='period'), time.monotonic(), []
spin.task(lambda: runs.append(time.monotonic() - began), name='tick', periodicity=timedelta(seconds=1))
spin.start_workers(number=1, block=False)
while len(runs) < 2: time.sleep(0.02)
spin.stop_workers()
assert runs[0] >= 1 and runs[1] - runs[0] >= 0.9, runs
`,
  ],
  [
    'workers run one queue, and leave the others',
    `
spin, runs = Engine(MemoryBroker(), namespace='queues'), []
spin.task(lambda: runs.append('fast'), name='fast', queue='high')
spin.task(lambda: runs.append('slow'), name='slow', queue='low')
spin.schedule('slow'); spin.schedule('fast')
drain(spin, queue='high')
assert runs == ['fast']
drain(spin, queue='low')
assert runs == ['fast', 'slow']
`,
  ],
  [
    'workers are started once, and again when they have stopped; there is one at least',
    `
spin, running, go = Engine(MemoryBroker(), namespace='start'), threading.Event(), threading.Event()
ended = []
def work(): running.set(); go.wait(10); ended.append(1)
spin.task(work, name='work')
spin.schedule('work')
spin.start_workers(number=1, block=False)
raises(RuntimeError, 'already running', lambda: spin.start_workers())
running.wait(10)
threading.Timer(0.1, go.set).start()
spin.stop_workers()
assert ended == [1]  # what runs comes to its end
drain(spin)
raises(ValueError, '', lambda: spin.start_workers(number=0))
`,
  ],
  [
    'a batch is checked, stored and runs as its jobs would alone',
    `
spin, got = Engine(MemoryBroker(), namespace='batch'), []
spin.task(lambda a, b=0: got.append((a, b)), name='add')
batch, wrong = Batch(), Batch()
batch.schedule('add', 1); batch.schedule_at('add', PAST, 2, b=3)
wrong.schedule('add', 4); wrong.schedule('add')
raises(InvalidJobSignatureError, '', lambda: spin.schedule_batch(wrong))
jobs = list(spin.schedule_batch(batch))
assert [(job.task_name, job.task_args, job.task_kwargs) for job in jobs] == [('add', (1,), {}), ('add', (2,), {'b': 3})]
assert [(task, args, kwargs) for task, at, args, kwargs in batch.jobs_to_create] == [('add', (1,), {}), ('add', (2,), {'b': 3})]
drain(spin)
assert sorted(got) == [(1, 0), (2, 3)], got
`,
  ],
  [
    'registries are attached, and schedule by themselves then',
    `
tasks, others, got = Tasks(queue='of-tasks', max_retries=10), Tasks(), []
tasks.add(lambda: got.append('a'), 'a')
tasks.add(lambda: got.append('b'), 'b', queue=QUEUE, max_retries=20)
assert tasks.tasks['a'].queue == 'of-tasks' and tasks.tasks['a'].max_retries == 10 and tasks.tasks['b'].max_retries == 20
assert sorted(tasks.names) == ['a', 'b'] and tasks.get('a').name == 'a'
raises(RuntimeError, '', lambda: tasks.schedule('a'))
spin = Engine(MemoryBroker(), namespace='attach')
spin.attach_tasks(tasks)
tasks.schedule('a'); spin.schedule('b')
assert spin.execute('a') is None
drain(spin); drain(spin, queue='of-tasks')
assert got == ['a', 'b', 'a'], got
others.update(tasks)
assert sorted(others.names) == ['a', 'b']
for wrong in ('c', None, object(), b'a', RuntimeError): raises(UnknownTask, '', lambda: tasks.get(wrong))
`,
  ],
  [
    'signals of one engine are not heard by receivers of another, and one that raises harms nothing',
    `
one, two, heard = Engine(MemoryBroker(), namespace='one'), Engine(MemoryBroker(), namespace='two'), []
for spin in (one, two): spin.task(lambda: heard.append('ran'), name='x'); spin.schedule('x')
@signals.job_started.connect_via(one.namespace)
def started(namespace, job, **kwargs): heard.append(namespace)
@signals.job_started.connect_via('two')
def broken(namespace, job, **kwargs): raise ValueError('a receiver that fails')
drain(one); drain(two)
assert heard == ['one', 'ran', 'ran'], heard
`,
  ],
  [
    'workers say that they start and end, by name',
    `
spin, heard = Engine(MemoryBroker(), namespace='named'), []
def started(namespace, worker_name, **kwargs): heard.append('started ' + worker_name)
def ended(namespace, worker_name, **kwargs): heard.append('ended ' + worker_name)
signals.worker_started.connect(started, sender='named'); signals.worker_terminated.connect(ended, sender='named')
spin.start_workers(number=2, block=False)
spin.stop_workers()
assert sorted(heard) == ['ended named-worker-1', 'ended named-worker-2', 'started named-worker-1', 'started named-worker-2'], heard
`,
  ],
  [
    'coroutines run beside each other',
    `
import asyncio
spin, ran = Engine(MemoryBroker(), namespace='async'), []
@spin.task(name='work')
async def work(i): await asyncio.sleep(0.2); ran.append(i)
for i in range(50): spin.schedule(work, i)
began = time.monotonic()
spin.start_workers(number=256, workers_class=AsyncioWorkers, stop_when_queue_empty=True)
assert len(ran) == 50 and time.monotonic() - began < 5, (len(ran), time.monotonic() - began)
`,
  ],
  [
    'a job that schedules another one',
    `
spin, ran = Engine(MemoryBroker(), namespace='chain'), []
def work(n):
    ran.append(n)
    if n: spin.schedule('work', n - 1)
spin.task(work, name='work')
spin.schedule('work', 3)
spin.start_workers(number=2, block=False)
while len(ran) < 4: time.sleep(0.01)
spin.stop_workers()
assert ran == [3, 2, 1, 0]
`,
  ],
  [
    'the backoff doubles, with chance, up to a cap',
    `
for attempt, least in ((1, 3), (2, 6), (5, 48)):
    delays = [exponential_backoff(attempt).total_seconds() for _ in range(50)]
    assert least <= min(delays) and max(delays) <= 2 * least and len(set(delays)) > 2, delays
assert exponential_backoff(10000) <= timedelta(minutes=20) and exponential_backoff(10000, cap=60) <= timedelta(minutes=1)
`,
  ],
]

describe('the Engine of spoold, as that of Spinach', { skip: skipUnless('python3') }, () => {
  const python = new Snippets(LIBRARIES.spoold + RECORDER)
  for (const [title, code] of BEHAVIOURS) python.it(title, code)
})

describe('Spinach itself', { skip: skipUnless('venv:spinach') }, () => {
  const python = new Snippets(LIBRARIES.spinach + RECORDER, join(virtualenv('spinach'), 'bin/python'))
  for (const [title, code] of BEHAVIOURS) python.it(title, code)
})

describe('workers in the process', { skip: skipUnless('python3') }, () => {
  const python = new Snippets(LIBRARIES.spoold + RECORDER)

  python.it(
    'functions and coroutines of one queue run side by side, in threads and in one loop',
    `
import asyncio
spin, loops, met = Engine(MemoryBroker()), set(), threading.Barrier(3, timeout=10)
@spin.task(name='coroutine')
async def coroutine(): loops.add(id(asyncio.get_running_loop())); await asyncio.sleep(0.01)
@spin.task(name='function')
def function(): met.wait()
for _ in range(3): spin.schedule(coroutine); spin.schedule(function)
spin.start_workers(number=6, stop_when_queue_empty=True)
assert len(loops) == 1 and threading.active_count() == 1
spin.schedule(coroutine); spin.schedule(coroutine)
for number in (1, 2): spin.start_workers(number=number, stop_when_queue_empty=True)
`,
  )

  python.it(
    'a task that schedules another one, or stops its workers, is no reason to hang',
    `
spin, ran = Engine(MemoryBroker()), []
def work(n):
    ran.append(n)
    if n: spin.schedule('work', n - 1)
    else: spin.stop_workers()
spin.task(work, name='work')
spin.schedule('work', 2)
spin.start_workers(number=1, stop_when_queue_empty=True)
assert ran == [2, 1, 0]
`,
  )

  python.it(
    'SystemExit and KeyboardInterrupt of a task are failures, and end no worker',
    `
spin, ran = Engine(MemoryBroker()), []
heard = record()
for error in (SystemExit, KeyboardInterrupt):
    def bad(error=error): raise error(3)
    spin.task(bad, name=error.__name__)
    spin.schedule(error.__name__)
spin.task(lambda: ran.append(1), name='next')
spin.schedule('next')
drain(spin)
assert ran == [1] and [line for line in heard if 'failed' in line] == ['job_failed SystemExit FAILED SystemExit', 'job_failed KeyboardInterrupt FAILED KeyboardInterrupt'], heard
`,
  )

  python.it(
    'arguments go through JSON, ids are stored once, and middleware is around runs',
    `
import contextlib
spin, got = Engine(MemoryBroker()), []
@contextlib.contextmanager
def around(job): got.append('in'); yield; got.append('out')
spin.middleware(run=around)
spin.task(lambda *args: got.append((args, current_job().headers, current_job().body)), name='x')
for _ in range(2): spin.with_options(id='once', headers={'a': 'b'}, body=b'c').schedule('x', (1, 2))
drain(spin)
assert got == ['in', (([1, 2],), {'a': 'b'}, b'c'), 'out'], got
`,
  )

  python.it(
    'an engine of a real spool schedules, and says who runs',
    `
place = spool()
spin = Engine(place, namespace='shop')
spin.task(lambda: 0, name='x')
spin.schedule('x')
assert [each['task'] for each in stored(place)] == ['shop:x']
raises(RuntimeError, 'start one with \`spoold app.ini\`', spin.start_workers)
raises(TypeError, 'workers_class: expected ThreadWorkers or AsyncioWorkers', lambda: spin.start_workers(workers_class=dict))
`,
  )

  python.it(
    'a failure is printed with its traceback where logging is not configured, and cron tasks are named',
    `
logging.disable(logging.NOTSET)
import io
spin, error = Engine(MemoryBroker()), io.StringIO()
def bad(): raise KeyError('no')
spin.task(bad, name='bad'); spin.task(lambda: 0, name='cron', cron='* * * * *')
spin.schedule('bad')
before, sys.stderr = sys.stderr, error
try: drain(spin)
finally: sys.stderr = before
assert "Error during execution 1/1 of Job <bad FAILED" in error.getvalue() and "KeyError: 'no'" in error.getvalue()
assert 'engine.py' not in error.getvalue() and 'The task cron is scheduled by cron' in error.getvalue(), error.getvalue()
`,
  )
})

const KIT = `${LIBRARIES.spoold}${RECORDER}
from spoold.testing import fake, inline
`

describe('spoold.testing', { skip: skipUnless('python3') }, () => {
  const python = new Snippets(KIT)

  python.it(
    'fake collects what is scheduled, whatever the registries say about places, and drain runs it',
    `
tasks, used, got = Tasks(spooler='/no/such/place'), Tasks(), []
tasks.use(used)
@used.task(name='send')
def send(to, subject=''): got.append((to, subject)); return 'sent'
@tasks.task(name='fails', max_retries=2)
async def fails(): raise KeyError('no')
with fake(tasks) as kit:
    kit.assert_nothing_scheduled()
    send_job = used.schedule(send, 'joe', subject=('a', 1))
    tasks.schedule('fails')
    assert kit.assert_scheduled(send, 'joe', subject=['a', 1]) == [kit.scheduled(send)[0]] and kit.scheduled()[0].id == send_job.id
    kit.assert_scheduled('fails', times=1)
    raises(AssertionError, "expected that send('jane') was scheduled; there was\\n  send('joe', subject=['a', 1])", lambda: kit.assert_scheduled(send, 'jane'))
    raises(AssertionError, 'expected that send was scheduled 2 times', lambda: kit.assert_scheduled(send, times=2))
    raises(AssertionError, 'expected that send was not scheduled', lambda: kit.assert_not_scheduled(send))
    raises(AssertionError, 'expected that nothing was scheduled', kit.assert_nothing_scheduled)
    raises(InvalidJobSignatureError, '', lambda: tasks.schedule('send'))
    raises(UnknownTask, '', lambda: kit.scheduled('nothing'))
    runs = kit.drain()
    assert [(run.job.task_name, run.job.status.name, run.value) for run in runs] == [('send', 'SUCCEEDED', 'sent'), ('fails', 'WAITING', None)], runs
    assert got == [('joe', ['a', 1])] and [job.task_name for job in kit.waiting()] == ['fails']
    assert kit.drain() == [] and isinstance(runs[1].error, KeyError)
    assert [run.job.retries for run in kit.drain(future=True)] == [2, 2] and len(kit.failed('fails')) == 1
    kit.clear()
    kit.assert_nothing_scheduled()
    raises(RuntimeError, 'call its restore() first', lambda: fake(tasks))
raises(DestinationUnknown, '/no/such/place', lambda: tasks.schedule('fails'))
raises(TypeError, 'expected Tasks, got nothing', fake)
`,
  )

  python.it(
    'it has a clock of its own',
    `
tasks, ran = Tasks(), []
tasks.add(lambda: ran.append(current_job().at), 'remind')
with fake(tasks) as kit:
    now = datetime.now(timezone.utc)
    job = tasks.schedule_at('remind', now + timedelta(days=14))
    assert job.status is JobStatus.WAITING and kit.drain() == []
    kit.advance(timedelta(days=13)); assert kit.drain() == []
    kit.advance(86400); assert len(kit.drain()) == 1 and ran == [now + timedelta(days=14)]
    kit.travel_to(datetime(2033, 5, 18, 3, 33, 20))
    assert 0 <= (kit.now() - datetime(2033, 5, 18, 3, 33, 20, tzinfo=timezone.utc)).total_seconds() < 5
    assert tasks.schedule_at('remind', datetime(2033, 5, 17)).status is JobStatus.QUEUED
    assert datetime.now(timezone.utc).year < 2033
`,
  )

  python.it(
    'receivers hear of a failure amid its handling, as in a daemon, so that they may report what is being handled',
    `
tasks, heard = Tasks(namespace='amid'), []
@tasks.task(name='bad', max_retries=1)
def bad(): raise KeyError('no')
for name in ('job_schedule_retry', 'job_failed'):
    getattr(signals, name).connect(lambda namespace, job, err, name=name: heard.append((name, sys.exc_info()[1] is err)), 'amid')
with fake(tasks) as kit:
    tasks.schedule(bad); kit.drain(future=True)
assert heard == [('job_schedule_retry', True), ('job_failed', True)], heard
`,
  )

  python.it(
    'inline runs before schedule returns, which raises what the task raises',
    `
import asyncio
tasks, got = Tasks(), []
@tasks.task(name='outer')
def outer(): got.append('outer'); tasks.schedule('inner'); got.append(current_job().task_name)
@tasks.task(name='inner')
async def inner(): got.append(current_job().task_name)
@tasks.task(name='bad', max_retries=3)
def bad(): raise KeyError('no')
with inline(tasks) as kit:
    tasks.schedule(outer)
    assert got == ['outer', 'inner', 'outer'] and current_job() is None, got
    raises(KeyError, 'no', lambda: tasks.schedule(bad))
    assert [job.task_name for job in kit.waiting()] == ['bad']
    tasks.schedule_at('inner', kit.now() + timedelta(hours=1))
    assert len(kit.drain(future=True)) == 4
    async def test():
        tasks.schedule('inner')
        kit.assert_scheduled('inner', times=3)
    asyncio.run(test())
    assert got[-1] == 'inner' and len(kit.failed()) == 1
`,
  )

  python.it(
    'a task that schedules itself for ever is an error, not a test that hangs',
    `
tasks = Tasks()
tasks.add(lambda: tasks.schedule('again') and None, 'again')
with fake(tasks) as kit:
    tasks.schedule('again')
    raises(RuntimeError, 'drain: 5 runs, and again still waits', lambda: kit.drain(max_runs=5))
`,
  )

  it('ten tests that schedule and run one task take less than 0.2 s', () => {
    const code = `${KIT.replace('logging.disable(logging.CRITICAL)', '')}`
    const program = `import time
from datetime import datetime, timezone
import logging
${code}
times = []
for engine in (False, True):
    began = time.monotonic()
    for i in range(10):
        spin, got = Engine(MemoryBroker()), []
        spin.task(lambda n: got.append(n), name='work')
        if engine:
            spin.schedule('work', i)
            spin.start_workers(number=1, stop_when_queue_empty=True)
        else:
            with fake(spin) as kit:
                spin.schedule('work', i)
                kit.drain()
        assert got == [i]
    times.append(time.monotonic() - began)
print(*times)`
    const rounds = [1, 2, 3].map(() =>
      runPython(['-c', program], { PYTHONPATH: PYTHON_LIBRARY }).trim().split(' ').map(Number),
    )
    for (const i of [0, 1]) {
      const fastest = Math.min(...rounds.map(round => round[i] ?? Number.POSITIVE_INFINITY))
      assert.ok(fastest < 0.2 * patience(), `${fastest} s`)
    }
  })
})

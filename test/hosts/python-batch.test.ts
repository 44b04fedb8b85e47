import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { retryDelayMs } from '#src/base/task/terms.js'
import { enqueue, TaskBatch, Tasks } from '#src/index.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { FIXTURES, spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'
import { pythonEnv, runPython } from './named-host.js'
import { Snippets } from './python-snippets.js'

const SHOP = `
from spoold import *
def shop(*places):
    tasks = Tasks(spooler=places[0], queues={'second': each for each in places[1:]})
    tasks.add(lambda *a: 0, 'a'); tasks.add(lambda *a: 0, 'b', 'second')
    return tasks
def batch_of(*names):
    batch = Batch()
    for i, name in enumerate(names): batch.schedule(name, i)
    return batch
`

describe('batches in Python', { skip: skipUnless('python3') }, () => {
  const python = new Snippets(SHOP)

  python.it(
    'an error stores nothing in any queue, and the same batch may be scheduled again, once',
    `
import resource
a, b = spool(), spool()
tasks, batch = shop(a, b), batch_of('a', 'a')
batch.with_options(body=b'x' * 100000).schedule('b', 2)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (50000, limits[1]))
try: error = raises(OSError, b, lambda: tasks.schedule_batch(batch))
finally: resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert error.errno == errno.EFBIG and os.listdir(a) == os.listdir(b) == []
jobs = tasks.schedule_batch(batch)
assert [job.task_name for job in jobs] == ['a', 'a', 'b']
assert [each['id'] for each in stored(a) + stored(b)] == [str(job.id) for job in jobs]
raises(RuntimeError, 'this batch has been scheduled: make a new one', lambda: tasks.schedule_batch(batch))
assert tasks.schedule_batch(Batch()) == []
`,
  )

  python.it(
    'what fails while it is published says which tasks are stored, and the same batch stores the rest',
    `
a = spool()
tasks, batch, rename, calls = shop(a), batch_of('a', 'a', 'a', 'a'), os.rename, []
def failing(*args, **kwargs):
    calls.append(1)
    if len(calls) == 3: raise OSError(errno.EIO, 'broken')
    return rename(*args, **kwargs)
os.rename = failing
try: error = raises(BatchError, '2 of 4 tasks are stored: ', lambda: tasks.schedule_batch(batch))
finally: os.rename = rename
assert [job.task_args for job in error.stored] == [(0,), (1,)] and error.unknown == []
assert [each['args'] for each in stored(a)] == ['[0]', '[1]'] and len(os.listdir(a)) == 2
jobs = tasks.schedule_batch(batch)
assert [job.task_args for job in jobs] == [(0,), (1,), (2,), (3,)] and jobs[:2] == error.stored
assert [each['id'] for each in stored(a)] == [str(job.id) for job in jobs]
`,
  )

  python.it(
    'files are written to disk side by side, then the directory once',
    `
a, calls = spool(), []
side_by_side, fdatasync, fsync = threading.Barrier(8, timeout=20), os.fdatasync, os.fsync
def data(fd): side_by_side.wait(); calls.append('file'); fdatasync(fd)
def directory(fd): calls.append('directory'); fsync(fd)
os.fdatasync, os.fsync = data, directory
try: shop(a).schedule_batch(batch_of(*'a' * 160))
finally: os.fdatasync, os.fsync = fdatasync, fsync
assert calls == ['file'] * 160 + ['directory'], calls
assert [each['args'] for each in stored(a)] == ['[%d]' % i for i in range(160)] and len(os.listdir('/proc/self/fd')) < 20
`,
  )

  python.it(
    'an id is stored once, whoever brings it',
    `
a = spool()
tasks = shop(a)
for i in range(2): assert tasks.with_options(id='invoice-17').schedule('a', i).id == 'invoice-17'
batch = Batch()
for i in (17, 18, 18): batch.with_options(id='invoice-%d' % i).schedule('a', i)
batch.schedule('a', 0)
tasks.schedule_batch(batch)
assert sorted(each['args'] for each in stored(a)) == ['[0]', '[0]', '[18]']
for name in tasks_in(a): os.unlink(os.path.join(a, name))
tasks.with_options(id='invoice-18').schedule('a')
assert tasks_in(a) == [] and [name for name in os.listdir(a) if name != '.spoold'] == []
socket_place = os.path.join(os.environ['WORKSPACE'], 'x.sock')
raises(ValueError, 'an id needs a spool directory', lambda: shop('127.0.0.1:1').with_options(id='a').schedule('a'))
os.unlink(os.path.join(a, '.spoold/ids', os.listdir(os.path.join(a, '.spoold/ids'))[0]))
for link in os.listdir(os.path.join(a, '.spoold/ids')):
    os.unlink(os.path.join(a, '.spoold/ids', link)); os.symlink('/etc/passwd', os.path.join(a, '.spoold/ids', link))
raises(OSError, "it is no id of spoold (it says '/etc/passwd'); remove it", lambda: [tasks.with_options(id='invoice-%d' % i).schedule('a') for i in (17, 18)])
`,
  )

  python.it(
    'over a socket: one connection, and what a daemon did not answer is said',
    `
import socket, socketserver
class Server:
    """Answers pings as asked, and so many tasks; then it goes away."""
    def __init__(self, answers, keeps_open=True):
        self.path, self.connections, self.tasks = os.path.join(spool(), 's'), 0, []
        self.answers, self.keeps_open = answers, keeps_open
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path); self.listening.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()
    def serve(self):
        while True:
            connection, _ = self.listening.accept()
            self.connections += 1
            with connection, connection.makefile('rb') as stream:
                while True:
                    head = stream.read(4)
                    if len(head) < 4: break
                    if head[0] == 100: connection.sendall(bytes((100, 0, 0, 1)))
                    else:
                        self.tasks.append(stream.read(struct.unpack_from('<H', head, 1)[0]))
                        if self.answers <= 0: break
                        self.answers -= 1
                        connection.sendall(bytes((255, 0, 0, 1)))
                    if not self.keeps_open: break
daemon, uwsgi, dying = Server(10**6), Server(10**6, keeps_open=False), Server(100)
shop(daemon.path).schedule_batch(batch_of(*'a' * 500))
assert (daemon.connections, len(daemon.tasks)) == (1, 500)
shop(uwsgi.path).schedule_batch(batch_of(*'a' * 3))
assert (uwsgi.connections, len(uwsgi.tasks)) == (4, 3)
batch = batch_of(*'a' * 500)
error = raises(BatchError, '100 of 500 tasks are stored, and ', lambda: shop(dying.path).schedule_batch(batch))
assert [job.task_args[0] for job in error.stored] == list(range(100)) and 0 < len(error.unknown) <= 64
dying.answers, before = 10**6, len(dying.tasks)
shop(dying.path).schedule_batch(batch)
assert len(dying.tasks) - before == 400
`,
  )

  python.it(
    'a batch that goes to directories and to a daemon is stored nowhere if the daemon refuses',
    `
import socket
a = spool()
path = os.path.join(spool(), 's')
def serve():
    listening = socket.socket(socket.AF_UNIX); listening.bind(path); listening.listen(1); ready.set()
    connection, _ = listening.accept()
    connection.recv(65536); connection.sendall(bytes((255, 0, 0, 0)))
ready = threading.Event()
threading.Thread(target=serve, daemon=True).start(); ready.wait()
raises(OSError, 'did not store the task: see its log', lambda: shop(a, path).schedule_batch(batch_of('a', 'a', 'b')))
assert os.listdir(a) == []
`,
  )
})

describe('batches in Python, killed', { skip: skipUnless('python3') }, () => {
  it('between two renames are stored in part, and the same batch with ids stores the rest without doubles', () => {
    const spool = spoolDirectory()
    const program = (after: number) => `${SHOP}
import os, signal
rename, left = os.rename, [${after}]
def killing(*args, **kwargs):
    rename(*args, **kwargs)
    left[0] -= 1
    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)
os.rename = killing
batch = Batch()
for i in range(20): batch.with_options(id='invoice-%d' % i).schedule('a', i)
shop(${JSON.stringify(spool)}).schedule_batch(batch)
`
    const visible = () => leftIn(spool).filter(name => !name.startsWith('.'))
    const run = (after: number) =>
      spawnSync(PYTHON, ['-c', program(after)], { env: { ...process.env, ...pythonEnv() } })
    assert.equal(run(7).signal, 'SIGKILL')
    assert.equal(visible().length, 7)
    assert.equal(run(5).signal, 'SIGKILL')
    assert.equal(visible().length, 12)
    assert.equal(run(1000).status, 0)
    assert.equal(leftIn(spool).length, 20)
    assert.equal(run(1000).status, 0)
    const ids = leftIn(spool).map(name => /invoice-\d+/.exec(readFileSync(join(spool, name), 'latin1'))?.[0])
    assert.equal(new Set(ids).size, 20)
    const links = readdirSync(join(spool, '.spoold/ids')).map(name =>
      readlinkSync(join(spool, '.spoold/ids', name)),
    )
    assert.deepEqual(links.sort(), leftIn(spool).sort())
    assert.deepEqual(
      readdirSync(spool).filter(name => name.endsWith('.tmp')),
      [],
    )
  })

  it('know an id that JavaScript has stored, and JavaScript knows theirs', async () => {
    const spool = spoolDirectory()
    await enqueue({ to: 'joe' }, { spooler: spool, id: 'one' })
    const code = `${SHOP}
for name in ('one', 'two'): shop(${JSON.stringify(spool)}).with_options(id=name).schedule('a')`
    runPython(['-c', code], pythonEnv())
    assert.equal((await enqueue({ to: 'joe' }, { spooler: spool, id: 'two' })).isDuplicate, true)
    assert.equal(leftIn(spool).length, 2)
  })
})

describe('batches in Python, in a daemon', { skip: skipUnless('python3') }, () => {
  it('go from a task to its own spool and to that of a queue, and an id is stored once', async () => {
    const spool = spoolDirectory()
    const mail = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
from spoold import Batch, Tasks
tasks = Tasks(max_retries=1)
@tasks.task(name='start')
def start():
    batch = Batch()
    for i in range(300): batch.schedule(work, i)
    for i in range(2): batch.with_options(id='once', body=b'of bytes', headers={'h': 'é'}).schedule(work, 'once')
    batch.schedule(send)
    journal('stored %d' % len(tasks.schedule_batch(batch)))
@tasks.task(name='work')
def work(i):
    from spoold import current_job
    job = current_job()
    journal('work %s%s' % (i, '' if job.body is None else ' %s %s' % (job.body.decode(), job.headers['h'])))
tasks.add(lambda: journal('mail'), 'send', 'mail')
send = 'send'
`,
      ini: { spooler: [spool, mail], 'spooler-queue': `mail=${mail}` },
    })
    await enqueue({ task: 'start' }, { spooler: spool })
    await until('all tasks have run', () => daemon.journal().length === 303)
    const journal = daemon.journal().sort()
    assert.deepEqual(journal.slice(0, 2), ['mail', 'stored 303'])
    assert.deepEqual(
      journal.filter(line => line.includes('once')),
      ['work once of bytes é'],
    )
    assert.equal(new Set(journal).size, 303)
  })

  it('are stored once while the code is loaded by two processes, and an id is stored once', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
from spoold import Batch, Tasks
tasks = Tasks()
@tasks.task(name='work')
def work(what): journal(what)
batch = Batch()
for i in range(2): batch.with_options(id='invoice-17').schedule(work, 'in a batch')
batch.schedule(work, 'without an id')
tasks.schedule_batch(batch)
for i in range(2): tasks.with_options(id='invoice-18').schedule(work, 'alone')
`,
      ini: { 'spooler-processes': 2 },
    })
    await until('all tasks have run', () => leftIn(spool).length === 0 && daemon.journal().length >= 3)
    assert.deepEqual(daemon.journal().sort(), ['alone', 'in a batch', 'without an id'])
  })

  it('are stored over one connection to the socket of a daemon', async () => {
    const spool = spoolDirectory()
    const socket = join(dirname(spool), 's')
    const handler = 'export default env => (JOURNAL(env.args), SPOOL_OK)'
    const daemon = await startDaemon({ spool, handler, ini: { socket } })
    const code = `${SHOP}
import socket
opened, connect = [], socket.socket.connect
def counted(self, address): opened.append(address); return connect(self, address)
socket.socket.connect = counted
jobs = shop(${JSON.stringify(socket)}).schedule_batch(batch_of(*'a' * 400))
print(len(jobs), len(opened))`
    assert.equal(runPython(['-c', code], pythonEnv()), '400 1\n')
    await until('all tasks have run', () => daemon.journal().length === 400)
    assert.equal(new Set(daemon.journal()).size, 400)
  })
})

describe('batches in Python, timed', { skip: skipUnless('python3') }, () => {
  it('store 1,000 tasks in at most three times the time that JavaScript takes', async () => {
    const [ours, theirs]: [number[], number[]] = [[], []]
    for (let round = 0; round < 5; round++) {
      const spooler = spoolDirectory()
      const tasks = new Tasks({ spooler })
      tasks.task('a', async (i: number) => i)
      const batch = new TaskBatch()
      for (let i = 0; i < 1000; i++) batch.schedule('a', i)
      const began = performance.now()
      await tasks.scheduleBatch(batch)
      theirs.push(performance.now() - began)
      const place = spoolDirectory()
      const code = `${SHOP}
import time
tasks, batch = shop(${JSON.stringify(place)}), batch_of(*'a' * 1000)
began = time.monotonic()
tasks.schedule_batch(batch)
print((time.monotonic() - began) * 1000)`
      ours.push(Number(runPython(['-c', code], pythonEnv())))
      assert.equal(leftIn(place).length, 1000)
    }
    const [python, javascript] = [Math.min(...ours), Math.min(...theirs)]
    assert.ok(python <= 3 * javascript, `Python ${python} ms, JavaScript ${javascript} ms`)
  })
})

it('the delay of a retry is the same in Python and JavaScript', { skip: skipUnless('python3') }, () => {
  const file = join(FIXTURES, 'named/delays.json')
  const [, ...rows]: number[][] = JSON.parse(readFileSync(file, 'utf8'))
  for (const [attempt = 0, delayMs = 0, capMs = 0, chance = 0, expected] of rows) {
    const policy = { maxAttempts: 0, maxCrashes: 0, backoff: 'exponential', delayMs, capMs } as const
    assert.equal(
      retryDelayMs(policy, attempt, 0, () => chance),
      expected,
      `${attempt}, ${delayMs}, ${capMs}`,
    )
  }
  const code = `
import json
from spoold.utils import exponential_backoff, retry_delay
for attempt, first, cap, chance, expected in json.load(open(${JSON.stringify(file)}))[1:]:
    got = retry_delay(attempt, first / 1000, cap / 1000, chance)
    assert round(got * 1000, 6) == expected, (attempt, first, cap, chance, expected, got)
assert 3 <= exponential_backoff(1).total_seconds() <= 6 and exponential_backoff(10000).total_seconds() <= 1200
assert 30 <= exponential_backoff(10000, cap=60).total_seconds() <= 60`
  execFileSync(PYTHON, ['-c', code], { env: { ...process.env, ...pythonEnv() } })
})

describe('a server that forks after the import', { skip: skipUnless('python3') }, () => {
  const python = new Snippets('from spoold import *')

  python.it(
    'has a thousand ids of eight processes, each once, and no descriptor that they share',
    `
place = spool()
tasks = Tasks(spooler=place)
tasks.add(lambda: 0, 't')
before = sorted(os.listdir('/proc/self/fd'))
tasks.schedule('t')
batch = Batch()
for _ in range(3): batch.schedule('t')
tasks.schedule_batch(batch)
assert sorted(os.listdir('/proc/self/fd')) == before and threading.active_count() == 1
for name in os.listdir(place): os.unlink(os.path.join(place, name))
children = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(25): tasks.schedule('t')
            batch = Batch()
            for _ in range(100): batch.schedule('t')
            tasks.schedule_batch(batch)
            os._exit(0)
        finally: os._exit(1)
    children.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 8
assert len({each['id'] for each in stored(place)}) == len(tasks_in(place)) == 1000
numbers = [tuple(name.split('_')[4:7]) for name in tasks_in(place)]
assert {pid for pid, _, _ in numbers} <= {str(pid) for pid in children}, numbers[0]
assert len({chance for _, _, chance in numbers}) > 990
`,
  )
})

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { quietly } from '#src/base/errors.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import type { Daemon } from '../helpers/daemon.js'
import { withoutKoffi } from '../helpers/elsewhere.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { hostsOf, type Language, startHost } from './host-daemon.js'

/** Does what the key `do` of a task asks for; a task without it is done at once. */
const HANDLER = `
import signal
def spooler(env):
    what = env.get(b'do', b'').decode()
    journal(env['spooler_task_name'].decode() + ' ' + what)
    if what == 'exit': sys.exit(3)
    if what == '_exit': os._exit(0)
    if what == 'kill': os.kill(os.getpid(), signal.SIGKILL)
    if what == 'segv': os.kill(os.getpid(), signal.SIGSEGV)
    if what == 'close': os.closerange(3, 100)
    if what == 'close and hang':
        for fd in range(3, 100):
            if fd != _fd: os.closerange(fd, fd + 1)
        journal('closed')
        time.sleep(3600)
    if what == 'full':
        os.set_blocking(1, False)
        try:
            while True: os.write(1, b'x' * 1023 + b'\\n')
        except BlockingIOError: pass
    if what == 'garbage':
        os.write(3, b'no frame at all')
        time.sleep(60)
    if what == 'garbage4':
        os.write(4, b'\\xff' * 100)
        time.sleep(60)
    if what == 'fork':
        if os.fork() == 0: return 0
    if what == 'outlive':
        if os.fork() == 0:
            journal('child %d' % os.getpid())
            time.sleep(30)
    if what == 'print':
        for _ in range(1024): sys.stdout.write('x' * (int(env[b'mib']) * 1023) + '\\n')
    if what == 'hang': time.sleep(3600)
    if what == 'deadline':
        uwsgi.set_user_harakiri(1)
        time.sleep(3600)
    return -2
uwsgi.spooler = spooler
`

/** What the dictionary of a task holds is destroyed when the task has ended. */
const DESTROYED = {
  python: `
class Bad:
    def __del__(self): os._exit(3)
def spooler(env):
    journal(env[b'n'].decode())
    if env[b'n'] == b'bad': env[b'held'] = Bad()
    return -2
uwsgi.spooler = spooler`,
  perl: `
use POSIX ();
sub Bad::DESTROY { POSIX::_exit(3) }
uwsgi::spooler(sub {
    my ($env) = @_;
    journal($env->{n});
    $env->{held} = bless {}, 'Bad' if $env->{n} eq 'bad';
    return -2;
});`,
} as const

for (const [language, handler] of Object.entries(DESTROYED))
  describe(`a destructor in ${language} that ends its interpreter`, {
    skip: skipUnless(language === 'perl' ? 'perl' : 'python3'),
  }, () => {
    it('is the crash of the task whose dictionary held the object, and each other task runs once', async () => {
      const spool = spoolDirectory()
      const others = Array.from({ length: 600 }, (_, i) => `${i}`.padStart(3, '0'))
      for (const n of others) drop(spool, `uwsgi_spoolfile_on_${n}`, packet({ n }))
      drop(spool, 'uwsgi_spoolfile_on_500_bad', packet({ n: 'bad' }))
      const ini = { drain: true, 'spooler-ordered': true, 'spooler-max-crashes': 1 }
      const daemon = await startHost(language as Language, { spool, handler, ini, isUnready: true })
      assert.equal(await daemon.code(), 3)
      assert.deepEqual(
        [...daemon.output.matchAll(/uwsgi_spoolfile_on_(\w+) is buried: it crashed/g)].map(
          ([, name]) => name,
        ),
        ['500_bad'],
      )
      assert.deepEqual(daemon.journal().sort(), [...others, 'bad'])
    })
  })

describe('a Python handler that misbehaves', { skip: skipUnless('python3') }, () => {
  for (const [what, how] of [
    ['exit', /exited with code 3/],
    ['_exit', /exited with code 0/],
    ['kill', /was killed by SIGKILL/],
    ['segv', /was killed by SIGSEGV/],
    ['garbage', /was killed, because something other than the host wrote/],
    ['garbage4', /was killed, because something other than the host wrote/],
  ] as const)
    it(`crashes its own task alone, and each other task runs once: ${what}`, async () => {
      const spool = spoolDirectory()
      const good = fill(spool, what)
      const daemon = await startHost('python', { spool, handler: HANDLER, ini: { 'spooler-ordered': true } })
      await until('the bad task is buried, and the others have run', () => leftIn(spool).length === 0)
      await daemon.waitFor(how)
      await daemon.waitFor(/uwsgi_spoolfile_on_5_bad is buried: it crashed its process 3 times/)
      const runs = daemon.journal().map(line => line.split(' ')[0])
      assert.equal(runs.filter(name => name === 'uwsgi_spoolfile_on_5_bad').length, 3)
      for (const name of good) assert.equal(runs.filter(each => each === name).length, 1, name)
      await goesOn(daemon, spool)
    })

  it('makes a drain count the crash and exit with 3, although the task waits for another run', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_good')
    drop(spool, 'uwsgi_spoolfile_on_bad', packet({ do: '_exit' }))
    const ini = { drain: true, 'spooler-max-crashes': 0 }
    const daemon = await startHost('python', { spool, handler: HANDLER, ini, isUnready: true })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /^drained: 1 done, 1 crashed$/m)
    assert.deepEqual(leftIn(spool), ['uwsgi_spoolfile_on_bad'])
  })

  for (const [death, code, drained] of [
    ['os._exit(1)', 3, '3 done, 1 buried'],
    ['os.close(3)', 0, '4 done'], // when the task runs alone, its answer counts
  ] as const)
    it(`ends an interpreter with other coroutines in it, which is logged once and costs them nothing: ${death}`, async () => {
      const spool = spoolDirectory()
      for (const [i, dies] of [0, 1, 0, 0].entries())
        drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ task: 'co', args: JSON.stringify([dies]) }))
      const daemon = await startHost('python', {
        spool,
        handler: `
import asyncio, spoold
tasks = spoold.Tasks(max_retries=9)
@tasks.task(name='co')
async def co(dies):
    await asyncio.sleep(.1 if dies else .5)
    if dies: ${death}
`,
        ini: { drain: true, 'spooler-concurrency': 4, 'spooler-max-crashes': 1 },
        isUnready: true,
      })
      assert.equal(await daemon.code(), code)
      assert.match(
        daemon.output,
        /exited with code 1, replacing it\n.* several tasks ran in its interpreter\n/,
      )
      assert.equal(daemon.output.match(/the process cannot continue/g)?.length, 1)
      assert.doesNotMatch(daemon.output, /uncaught exception|Traceback/)
      assert.ok(daemon.output.includes(`\ndrained: ${drained}\n`))
    })

  it('overruns its own deadline among coroutines, even if another coroutine ends before that', async () => {
    const spool = spoolDirectory()
    for (const task of ['long', 'short'])
      drop(spool, `uwsgi_spoolfile_on_${task}`, packet({ task, args: '[]' }))
    const daemon = await startHost('python', {
      spool,
      handler: `
import asyncio, spoold
begun = asyncio.Event()
tasks = spoold.Tasks(max_retries=9)
@tasks.task(name='long')
async def long():
    uwsgi.set_user_harakiri(2)
    begun.set()
    await asyncio.sleep(3600)
@tasks.task(name='short')
async def short():
    await begun.wait()
`,
      ini: { drain: true, 'spooler-concurrency': 4, 'spooler-max-crashes': 1 },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /done with task uwsgi_spoolfile_on_short.*HARAKIRI/s)
    assert.match(daemon.output, /on_long is buried: .*it overran the deadline that it had set/)
  })

  it('overruns its own deadline behind tasks that ended in the same moment', async () => {
    const spool = spoolDirectory()
    for (let i = 100; i < 228; i++)
      drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ what: i === 227 ? 'hangs' : 'ends' }))
    const daemon = await startHost('python', {
      spool,
      handler: `
import time
def spooler(env):
    if env[b'what'] == b'hangs':
        uwsgi.set_user_harakiri(1)
        time.sleep(5)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
      ini: { drain: true, 'spooler-ordered': true, 'spooler-max-crashes': 1 },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /on_227 is buried: .*it overran the deadline that it had set/)
  })

  it('ends with its own deadline, which is not that of the next task: in a chain with other handlers, several tasks at a time', async () => {
    const spool = spoolDirectory()
    const other = join(dirname(spool), 'other.mjs')
    writeFileSync(other, 'export default () => -2')
    for (const [i, what] of ['sets', 'takes'].entries())
      drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ what }))
    const daemon = await startHost('python', {
      spool,
      handler: `
import time
def spooler(env):
    if env[b'what'] == b'sets': uwsgi.set_user_harakiri(1)
    else: time.sleep(2)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
      ini: { 'spooler-import': other, drain: true, 'spooler-concurrency': 2 },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /HARAKIRI/)
  })

  it('closes the descriptor of requests: the next task that needs it runs again in another interpreter', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_1', packet({ do: 'close4' }))
    for (const i of [2, 3]) drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ do: 'ask' }))
    const handler = `
def spooler(env):
    journal(env[b'do'].decode())
    if env[b'do'] == b'close4': os.close(4)
    else: uwsgi.set_user_harakiri(60)
    return -2
uwsgi.spooler = spooler
`
    const ini = { 'spooler-ordered': true, 'spooler-frequency': 1 }
    const daemon = await startHost('python', { spool, handler, ini })
    await until('all tasks are done', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['close4', 'ask', 'ask', 'ask'])
  })

  it('may remove uwsgi from sys.modules, and the same interpreter runs the next task', async () => {
    const spool = spoolDirectory()
    for (const i of [1, 2]) drop(spool, `uwsgi_spoolfile_on_${i}`)
    const handler = `
def spooler(env):
    journal(str(os.getpid()))
    sys.modules.pop('uwsgi', None)
    return -2
uwsgi.spooler = spooler
`
    const ini = { drain: true, 'spooler-processes': 1 }
    const daemon = await startHost('python', { spool, handler, ini, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual([daemon.journal().length, new Set(daemon.journal()).size], [2, 1])
    assert.doesNotMatch(daemon.output, /interpreter|Traceback/)
  })

  it('may fill the pipe of its output and make it non-blocking, and its answer counts', async () => {
    const spool = spoolDirectory()
    fill(spool, 'full')
    const daemon = await startHost('python', { spool, handler: HANDLER, ini: { 'spooler-max-crashes': 1 } })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    await daemon.waitFor(/done with task uwsgi_spoolfile_on_5_bad/)
    assert.equal(daemon.journal().length, 11)
  })

  it('may close all of its descriptors, and its answer counts', async () => {
    const spool = spoolDirectory()
    fill(spool, 'close')
    const daemon = await startHost('python', { spool, handler: HANDLER, ini: { 'spooler-ordered': true } })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    await daemon.waitFor(/the Python interpreter \(pid: \d+\) exited/)
    await daemon.waitFor(/done with task uwsgi_spoolfile_on_5_bad/)
    assert.equal(daemon.journal().filter(line => line.startsWith('uwsgi_spoolfile_on_5_bad')).length, 1)
    await goesOn(daemon, spool)
  })

  it('may fork a child that returns as well, and a child that outlives the daemon', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_1', packet({ do: 'fork' }))
    drop(spool, 'uwsgi_spoolfile_on_2', packet({ do: 'outlive' }))
    const daemon = await startHost('python', { spool, handler: HANDLER })
    await until('both tasks have run', () => leftIn(spool).length === 0)
    await goesOn(daemon, spool)
    const child = () => Number(/child (\d+)/.exec(daemon.journal().join(' '))?.[1])
    await until('the child has said its pid', () => child() > 0)
    const pid = child()
    const [host] = hostsOf(daemon)
    daemon.child.kill('SIGTERM')
    await until('the daemon has ended', () => !daemon.isRunning)
    await until('the interpreter has ended', () => !isAlive(host ?? 0))
    assert.ok(isAlive(pid))
    process.kill(pid, 'SIGKILL') // the child holds the output of the daemon open
    assert.equal(await daemon.code(), 0)
  })

  it('fails, and does not crash, if its exception or its answer cannot be shown', async () => {
    const spool = spoolDirectory()
    for (const name of ['exception', 'answer']) drop(spool, `uwsgi_spoolfile_on_${name}`)
    const handler = `
class Shy(Exception):
    @property
    def __notes__(self): raise ValueError
class Lazy:
    @property
    def __class__(self): raise ValueError
    def __repr__(self): sys.exit()
def spooler(env):
    if env['spooler_task_name'].endswith(b'exception'): raise Shy
    return Lazy()
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 3)
    assert.match(
      daemon.output,
      /on_exception failed, runs again in 30 s: Shy, and no more can be said of it \(ValueError\)\n/,
    )
    assert.match(
      daemon.output,
      /on_answer failed, .* the spooler function returned an object of type Lazy; expected/,
    )
    assert.match(daemon.output, /^drained: 0 done, 2 failed$/m)
  })

  for (const more of ['', 'import spoold\nasync def co(): pass\nspoold.Tasks().add(co, "co")\n'])
    it(`has its exception in sys.excepthook and once in the log${more && ', beside coroutines'}, even if the hook fails`, async () => {
      const spool = spoolDirectory()
      for (const name of ['1', '2']) drop(spool, `uwsgi_spoolfile_on_${name}`)
      const handler = `${more}
before = sys.excepthook
def hook(kind, error, trace):
    journal(str(error))
    before(kind, error, trace)
    if str(error).endswith('1'): raise RuntimeError('the hook fails')
sys.excepthook = hook
def spooler(env): raise ValueError(env['spooler_task_name'].decode())
uwsgi.spooler = spooler
`
      const ini = { drain: true, 'spooler-concurrency': 2 }
      const daemon = await startHost('python', { spool, handler, ini, isUnready: true })
      assert.equal(await daemon.code(), 3)
      assert.deepEqual(daemon.journal().sort(), ['uwsgi_spoolfile_on_1', 'uwsgi_spoolfile_on_2'])
      assert.equal(daemon.output.match(/ValueError: /g)?.length, 2, daemon.output)
      assert.equal(daemon.output.match(/RuntimeError: the hook fails$/gm)?.length, 1, daemon.output)
    })

  it('finds sys.excepthook equal to sys.__excepthook__, and fails as usual after it is deleted', async () => {
    const spool = spoolDirectory()
    for (const name of ['1', '2']) drop(spool, `uwsgi_spoolfile_on_${name}`)
    const handler = `
journal('as Python has it: %s' % (sys.excepthook is sys.__excepthook__))
del sys.excepthook
def spooler(env): raise ValueError(env['spooler_task_name'].decode())
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 3)
    assert.deepEqual(daemon.journal(), ['as Python has it: True'])
    assert.match(daemon.output, /^drained: 0 done, 2 failed$/m)
  })

  it('may fork a child that raises, whose exception is in the log and whose exit code is 1', async () => {
    const spool = spoolDirectory()
    drop(spool)
    const handler = `
def spooler(env):
    child = os.fork()
    if child == 0: raise ValueError('in a child')
    journal(str(os.waitpid(child, 0)[1] >> 8))
    return -2
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['1'])
    assert.match(daemon.output, /^Traceback .*\n(?: .*\n)+ValueError: in a child$/m)
  })

  it('may print to a buffered stream of its own, which is in the log before the task is done', async () => {
    const spool = spoolDirectory()
    for (const name of ['1', '2']) drop(spool, `uwsgi_spoolfile_on_${name}`)
    const handler = `
import io
sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')
def spooler(env):
    print('of', env['spooler_task_name'].decode())
    sys.stderr.close()
    uwsgi.log('logged')
    return -2
uwsgi.spooler = spooler
`
    const ini = { drain: true, 'spooler-ordered': true }
    const daemon = await startHost('python', { spool, handler, ini, isUnready: true })
    assert.equal(await daemon.code(), 0)
    for (const name of ['1', '2'])
      assert.match(
        daemon.output,
        new RegExp(`on_${name} \\.\\.\\.\nlogged\nof uwsgi_spoolfile_on_${name}\n.* done with`),
      )
  })

  it('may delete a standard stream or replace it by one that cannot be flushed, and its answer counts', async () => {
    const spool = spoolDirectory()
    for (const name of ['1', '2', '3']) drop(spool, `uwsgi_spoolfile_on_${name}`)
    const handler = `
class Unbound:
    write = len
    def __getattr__(self, name): raise RuntimeError('of no request')
    def __eq__(self, other): raise RuntimeError('of no request')
def spooler(env):
    kind = env['spooler_task_name'][-1:]
    if kind == b'1': sys.stdout = Unbound()
    if kind == b'2': del sys.stdout
    if kind == b'3': del sys.stderr
    journal(kind.decode())
    return -2
uwsgi.spooler = spooler
`
    const ini = { drain: true, 'spooler-ordered': true }
    const daemon = await startHost('python', { spool, handler, ini, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['1', '2', '3'])
    assert.match(daemon.output, /^drained: 3 done$/m)
  })

  it('may print 64 MiB or more, which all reaches the log while the master stays below 200 MiB', async () => {
    const spool = spoolDirectory()
    const log = join(dirname(spool), 'log')
    const mib = process.env.SPOOLD_TEST_LONG === '1' ? 1024 : 64
    drop(spool, undefined, packet({ do: 'print', mib: String(mib) }))
    const daemon = await startHost('python', {
      spool,
      handler: HANDLER,
      ini: { logto: log },
      isUnready: true,
    })
    await until('the task has run', () => leftIn(spool).length === 0, 120_000)
    await until('all output is in the log', () => statSync(log).size > mib * 1_000_000, 60_000)
    const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1])
    assert.ok(peak < 200 * 1024, `the master's peak is ${peak} KiB`)
  })

  it('is killed with its worker, even if it has closed the descriptors that would tell of the death', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_1', packet({ do: 'close and hang' }))
    const daemon = await startHost('python', { spool, handler: HANDLER })
    await until('the handler has closed its descriptors', () => daemon.journal().includes('closed'))
    const [host = 0] = hostsOf(daemon)
    process.kill(daemon.workers()[0] ?? 0, 'SIGKILL')
    await until('the interpreter is gone', () => !isAlive(host), 10_000)
  })

  it('is killed when its worker is killed from outside, and the lock of its task is free', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_1', packet({ do: 'hang' }))
    const daemon = await startHost('python', { spool, handler: HANDLER, ini: { 'spooler-max-crashes': 2 } })
    for (let run = 1; run <= 2; run++) {
      await until('the task runs', () => daemon.journal().length === run)
      const [host = 0] = hostsOf(daemon)
      process.kill(daemon.workers()[0] ?? 0, 'SIGKILL')
      await until('the interpreter is gone', () => !isAlive(host))
    }
    await daemon.waitFor('is buried')
    await goesOn(daemon, spool)
  })

  it('is killed, and its task buried, if it overruns spooler-harakiri or its own deadline', async () => {
    const spool = spoolDirectory()
    for (const [i, what] of ['hang', 'deadline'].entries())
      drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ do: what }))
    drop(spool, 'uwsgi_spoolfile_on_good')
    const daemon = await startHost('python', {
      spool,
      handler: HANDLER,
      ini: { 'spooler-harakiri': 2, 'spooler-max-crashes': 1, 'spooler-ordered': true },
    })
    await until('two tasks are buried, and the third has run', () => leftIn(spool).length === 0)
    await daemon.waitFor(/on_0 is buried.*overran spooler-harakiri/)
    await daemon.waitFor(/on_1 is buried.*overran the deadline that it had set/)
    assert.match(daemon.output, /task uwsgi_spoolfile_on_1 overran the deadline that it had set\n/)
    assert.equal(daemon.output.match(/HARAKIRI/g)?.length, 2)
  })

  it('does not hold up the tasks behind it while another worker is free', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: HANDLER,
      ini: { 'spooler-ordered': true, 'spooler-processes': 2, 'spooler-quiet': true },
    })
    for (let i = 0; i < 3000; i++)
      drop(spool, `uwsgi_spoolfile_on_${i}`, packet(i === 1500 ? { do: 'hang' } : {}))
    await until('all other tasks have run', () => leftIn(spool).length === 1, 40_000)
    assert.deepEqual(leftIn(spool), ['uwsgi_spoolfile_on_1500'])
    assert.equal(daemon.journal().length, 3000)
  })

  it('does not delay a stop by the tasks that it has not begun, which have no mark', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 500; i++) drop(spool, `uwsgi_spoolfile_on_${i}`)
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    journal('x')
    time.sleep(.02)
    return -2
uwsgi.spooler = spooler
`,
      ini: { 'spooler-ordered': true },
    })
    await until('some tasks have run', () => daemon.journal().length > 5)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.equal(leftIn(spool).length, 500 - daemon.journal().length)
    for (const name of leftIn(spool)) assert.equal(readFileSync(join(spool, name))[3] ?? 0, 0) // no mark
  })
})

/**
 * The first run of a task with `kill`, if others of its page are behind it, kills the interpreter, its worker, or the worker
 * and its master. After that no worker loads this code until the gate is gone.
 */
const KILLER = (spool: string, gate: string) => `
import signal
while os.path.exists(${JSON.stringify(gate)}): time.sleep(.02)
def marked(name):
    number = int(name.rpartition('_')[2])
    behind = ['${spool}/uwsgi_spoolfile_on_%d' % i for i in range(number + 1, number + 100)]
    return sum(open(each, 'rb').read(4)[3] != 0 for each in behind)
def spooler(env):
    what, name = env.get(b'kill', b'').decode(), env['spooler_task_name'].decode()
    if what and not os.path.exists(${JSON.stringify(gate)} + '-was') and marked(name) > 3:
        open(${JSON.stringify(gate)} + '-was', 'w').close()
        open(${JSON.stringify(gate)}, 'w').close()
        journal('kills ' + name)
        worker = os.getppid()
        if what in ('all', 'worker during a stop'):
            os.kill(worker, signal.SIGSTOP) # it would go on without its master, or hand back what it has
            master = int(open('/proc/%d/stat' % worker).read().rpartition(')')[2].split()[1])
            os.kill(master, signal.SIGKILL if what == 'all' else signal.SIGTERM)
            time.sleep(0 if what == 'all' else 0.5)
        os.kill(os.getpid() if what == 'interpreter' else worker, signal.SIGKILL)
        time.sleep(60)
    journal(env['spooler_task_name'].decode())
    return -2
uwsgi.spooler = spooler
`

describe('a page of Python tasks, of which one is running', { skip: skipUnless('python3') }, () => {
  /** Returns the state byte, or 0 if the file is removed meanwhile. */
  const stateOf = (spool: string, name: string) =>
    quietly(() => readFileSync(join(spool, name))[MODIFIER2_OFFSET], 0)
  for (const what of ['interpreter', 'worker', 'all', 'worker during a stop'] as const)
    it(`has a mark on the running task alone when its ${what} is killed`, async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const names = Array.from({ length: 3000 }, (_, i) => `uwsgi_spoolfile_on_${i}`)
      for (const name of names)
        drop(spool, name, packet(name > 'uwsgi_spoolfile_on_25' ? { kill: what } : {}))
      const setup = {
        spool,
        handler: KILLER(spool, gate),
        ini: { 'spooler-ordered': true, 'spooler-quiet': true },
      }
      const daemon = await startHost('python', setup)
      const isKilled = () => daemon.journal().find(line => line.startsWith('kills '))
      const guilty = (await until('the victim is killed', isKilled, 30_000)).split(' ')[1]
      const marked = () => leftIn(spool).filter(name => stateOf(spool, name) !== 0)
      if (what === 'all') await until('the daemon is dead', () => !daemon.isRunning)
      else if (what === 'worker during a stop') {
        assert.equal(await daemon.code(), 0)
        assert.deepEqual(marked(), [guilty])
      } else {
        const isGuilt = () => marked().every(name => name === guilty)
        await until('the other tasks have no mark', isGuilt)
        daemon.child.kill('SIGKILL') // the next daemon remembers nothing
        await daemon.code()
      }
      const [left, ran] = [leftIn(spool), daemon.journal().length]
      rmSync(gate)
      await startHost('python', setup)
      await until('all tasks have run', () => leftIn(spool).length === 0, 60_000)
      assert.deepEqual(daemon.journal().slice(ran).sort(), left)
      const records = join(spool, '.spoold', 'records')
      // the record of the guilty task is removed after its file, and that task runs last
      await until(
        'no task has a record of a crash',
        () => !existsSync(records) || readdirSync(records).length === 0,
      )
    })
})

/** Stores ten tasks that are done at once and, in order among them, one that does `what`. @returns the names of the ten */
function fill(spool: string, what: string): string[] {
  drop(spool, 'uwsgi_spoolfile_on_5_bad', packet({ do: what }))
  return Array.from({ length: 10 }, (_, i) => {
    const name = `uwsgi_spoolfile_on_${i}`
    drop(spool, name)
    return name
  })
}

async function goesOn(daemon: Daemon, spool: string): Promise<void> {
  drop(spool, 'uwsgi_spoolfile_on_afterwards')
  await until('the next task has run', () => leftIn(spool).length === 0)
  assert.ok(daemon.isRunning)
}

/** Each task needs memory that its interpreter shares with its worker. */
describe('a Python handler where /dev/shm is full', { skip: skipUnless('python3', 'root', 'mount') }, () => {
  const nowhere = { TMPDIR: '/nowhere' }
  for (const [how, env, expected] of [
    ['runs tasks, even without a directory for temporary files', nowhere, /^drained: 20 done$/m],
    [
      'runs tasks over a directory for temporary files if libc cannot be called',
      withoutKoffi(tmpdir()),
      /^drained: 20 done$/m,
    ],
    [
      'logs all that it has tried if there is neither',
      { ...withoutKoffi(tmpdir()), ...nowhere },
      /no memory can be shared with other processes: ENOSYS.*; ENOSPC.*; ENOENT.*'\/nowhere\//,
    ],
  ] as const)
    it(how, async () => {
      const spool = spoolDirectory(tmpdir())
      for (let n = 0; n < 20; n++) drop(spool, `uwsgi_spoolfile_on_${n}`)
      const full =
        'mount -t tmpfs -o size=64k tmpfs /dev/shm; head -c 64k /dev/zero >/dev/shm/full; exec "$@"'
      const daemon = await startHost('python', {
        spool,
        handler: 'uwsgi.spooler = lambda env: uwsgi.sharedarea_write(0, 8000, b"here") or -2',
        ini: { drain: true, sharedarea: 2 },
        under: ['unshare', '-m', 'sh', '-c', full, 'sh'],
        env: { ...process.env, ...env },
        isUnready: true,
      })
      await daemon.code()
      assert.match(daemon.output, expected)
    })
})

describe('Python tasks that run beside each other', { skip: skipUnless('python3') }, () => {
  it('lose no line that their interpreter prints just before it dies', async () => {
    const spool = spoolDirectory()
    const died = JSON.stringify(join(dirname(spool), 'died'))
    const handler = `
import asyncio
from spoold import Tasks
tasks = Tasks(max_retries=3)
@tasks.task(name='t')
async def t():
    journal('begun')
    await asyncio.sleep(0.2)
    if os.path.exists(${died}): return
    open(${died}, 'w').close()
    os.write(1, b'last words\\n')
    os._exit(3)
`
    for (const n of ['a', 'b']) drop(spool, `uwsgi_spoolfile_on_${n}`, packet({ task: 't', args: '[]' }))
    const ini = { 'spooler-concurrency': 2, 'spooler-frequency': 1 }
    const daemon = await startHost('python', { spool, handler, ini })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.match(daemon.output, /last words/)
  })
})

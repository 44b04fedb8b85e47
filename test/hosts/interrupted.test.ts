import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'

/** Makes calls under a time limit that ends some of them, each at another place, and journals each value of a wrong key. */
const HANDLERS = {
  python: `
import signal
class Limit(Exception): pass
def limit(*_): raise Limit
def spooler(env):
    signal.signal(signal.SIGALRM, limit)
    n = ended = 0
    while n < 100 or ended < 100 and n < 3000:
        n += 1
        try:
            signal.setitimer(signal.ITIMER_REAL, .0001 + n % 50 * .00002)
            uwsgi.cache_update('k%d' % n, 'v%d' % n)
            found = uwsgi.cache_get('k%d' % n)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if found != b'v%d' % n: journal('%r is not that of %d' % (found, n))
        except Limit:
            ended += 1
    journal('ended %s' % (ended > 0))
    return -2
uwsgi.spooler = spooler
`,
  perl: `
use Time::HiRes 'setitimer';
uwsgi::spooler(sub {
    $SIG{ALRM} = sub { die "limit\\n" };
    my ($n, $ended) = (0, 0);
    while ($n < 100 || $ended < 100 && $n < 3000) {
        $n++;
        eval {
            setitimer(Time::HiRes::ITIMER_REAL(), .0001 + $n % 50 * .00002);
            uwsgi::cache_set("k$n", "v$n");
            my $found = uwsgi::cache_get("k$n");
            setitimer(Time::HiRes::ITIMER_REAL(), 0);
            journal("$found is not that of $n") if $found ne "v$n";
            1;
        } or $ended++;
    }
    eval { uwsgi::cache_set('last', 'v'); 1 } or journal("no call succeeds any more: $@");
    journal('ended ' . ($ended > 0 ? 'True' : 'False'));
    return -2;
});
`,
  ruby: `
require 'timeout'
module UWSGI
  def self.spooler(env)
    n = ended = 0
    while n < 100 || ended < 100 && n < 3000
      n += 1
      begin
        found = Timeout.timeout(0.0001 + n % 50 * 0.00002) do
          UWSGI.cache_update("k#{n}", "v#{n}")
          UWSGI.cache_get("k#{n}")
        end
        journal("#{found} is not that of #{n}") if found != "v#{n}"
      rescue Timeout::Error
        ended += 1
      end
    end
    journal(ended > 0 ? 'ended True' : 'ended False')
    SPOOL_OK
  end
end
`,
  'ruby that traps a signal': `
module UWSGI
  class Limit < StandardError; end
  def self.spooler(env)
    n = ended = 0
    trap('USR1') { raise Limit }
    while n < 100 || ended < 100 && n < 3000
      n += 1
      begin
        limit = Thread.new { sleep 0.0001 + n % 50 * 0.00002; Process.kill('USR1', Process.pid) }
        UWSGI.cache_update("k#{n}", "v#{n}")
        found = UWSGI.cache_get("k#{n}")
        journal("#{found} is not that of #{n}") if found != "v#{n}"
        limit.join
      rescue Limit
        ended += 1
      end
    end
    trap('USR1', 'IGNORE')
    journal(ended > 0 ? 'ended True' : 'ended False')
    SPOOL_OK
  end
end
`,
} as const

for (const [which, handler] of Object.entries(HANDLERS)) {
  const language = which.startsWith('ruby') ? 'ruby' : which === 'perl' ? 'perl' : 'python'
  describe(`a call that a time limit ends, in ${which}`, {
    skip: skipUnless(language === 'python' ? 'python3' : language),
  }, () => {
    it('does not leave its reply to another call', async () => {
      const spool = spoolDirectory()
      drop(spool)
      const daemon = await startHost(language, { spool, handler })
      await until('the task has run', () => leftIn(spool).length === 0, 60_000)
      assert.deepEqual(daemon.journal(), ['ended True'])
    })
  })
}

describe('a signal handler that raises outside any task', () => {
  const RAISE = `
import asyncio, signal
class Limit(Exception): pass
def limit(*_):
    journal('raised')
    raise Limit('too late')
`
  const RUN = `
    journal('%s in %d' % (NAME, os.getpid()))
    signal.signal(signal.SIGALRM, limit)
    signal.setitimer(signal.ITIMER_REAL, .2)
`
  for (const [language, which, handler, tasks] of [
    [
      'perl',
      'one after another',
      `
use Time::HiRes;
uwsgi::spooler(sub {
    journal("$_[0]{spooler_task_name} in $$");
    $SIG{ALRM} = sub { journal('raised'); die "too late\\n" };
    Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), .2);
    return -2;
});`,
      [packet({}), packet({})],
    ],
    [
      'python',
      'one after another',
      `${RAISE}
def spooler(env):${RUN.replace('NAME', "env['spooler_task_name'].decode()")}
    return -2
uwsgi.spooler = spooler`,
      [packet({}), packet({})],
    ],
    [
      'python',
      'side by side',
      `${RAISE}
from spoold import Tasks
tasks = Tasks()
@tasks.task(name='it')
async def it(name):${RUN.replace('NAME', 'name')}`,
      ['first', 'second'].map(name => packet({ task: 'it', args: JSON.stringify([name]) })),
    ],
  ] as const)
    it(`costs no task anything if tasks run ${which} (${language})`, {
      skip: skipUnless(language === 'perl' ? 'perl' : 'python3'),
    }, async () => {
      const spool = spoolDirectory()
      const ini = which === 'side by side' ? { 'spooler-concurrency': 2 } : {}
      const daemon = await startHost(language, { spool, handler, ini })
      for (const [i, bytes] of tasks.entries()) {
        drop(spool, `${i}`, bytes)
        const raised = () => daemon.journal().filter(line => line === 'raised').length
        await until(
          'the task is over, and its time limit too',
          () => leftIn(spool).length === 0 && raised() === i + 1,
        )
      }
      await daemon.waitFor(/a signal handler (raised an exception|died) outside any task:(.*\n)*.*too late/)
      const pids = daemon.journal().flatMap(line => / in (\d+)$/.exec(line)?.[1] ?? [])
      assert.equal(pids.length, 2)
      assert.equal(new Set(pids).size, 1, 'one interpreter')
      assert.doesNotMatch(daemon.output, /interpreter.*(died|exited)/)
    })

  /** Has each task leave a time limit behind that ends a moment later: in this task, in the next one, or between them. */
  const SOON = `${RAISE.replace("    journal('raised')\n", '')}
def soon():
    global n
    n += 1
    signal.signal(signal.SIGALRM, limit)
    signal.setitimer(signal.ITIMER_REAL, .00001 + n % 40 * .00001)
n = 0
journal('pid %d' % os.getpid())`
  // coroutines do not run one at a time: asyncio itself may then miss what it waits for when a handler raises in its code
  for (const [which, language, handler] of [
    [
      'functions in Python',
      'python',
      `${SOON}\ndef spooler(env):\n    soon()\n    return -2\nuwsgi.spooler = spooler`,
    ],
    ...['def', 'async def'].map(
      kind =>
        [
          `named tasks in Python (${kind})`,
          'python',
          `${SOON}\nfrom spoold import Tasks\ntasks = Tasks(max_retries=1000)\n@tasks.task(name='it')\n${kind} it(name): soon()`,
        ] as const,
    ),
    [
      'functions in Perl',
      'perl',
      `
use Time::HiRes;
my $n = 0;
sub soon { $SIG{ALRM} = sub { die "too late\\n" }; Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), .00001 + $n++ % 40 * .00001) }
journal("pid $$");
uwsgi::spooler(sub { soon(); return -2 });`,
    ],
    [
      'named tasks in Perl',
      'perl',
      `
use Time::HiRes;
use Spoold::Tasks 'task';
my $n = 0;
sub soon { $SIG{ALRM} = sub { die "too late\\n" }; Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), .00001 + $n++ % 40 * .00001) }
journal("pid $$");
task it => max_retries => 1000, sub { soon() };`,
    ],
    [
      'functions in Ruby',
      'ruby',
      `
journal "pid #{Process.pid}"
module UWSGI
  def self.spooler(env)
    n = @n = (@n || 0) + 1
    trap('USR1') { raise 'too late' }
    Thread.new { sleep 0.00001 + n % 40 * 0.00001; Process.kill('USR1', Process.pid) }
    SPOOL_OK
  end
end`,
    ],
    [
      'named tasks in Ruby',
      'ruby',
      `
require 'spoold'
journal "pid #{Process.pid}"
$n = 0
Spoold.task('it', max_retries: 1000) do |_|
  n = $n += 1
  trap('USR1') { raise 'too late' }
  Thread.new { sleep 0.00001 + n % 40 * 0.00001; Process.kill('USR1', Process.pid) }
end`,
    ],
  ] as const)
    for (const concurrency of which.endsWith('(async def)') ? [2] : which.endsWith('(def)') ? [1, 2] : [1])
      it(`ends no interpreter and buries no task, whenever the signal comes: ${which}, ${concurrency} at a time`, {
        skip: skipUnless(language === 'python' ? 'python3' : language),
      }, async () => {
        const spool = spoolDirectory()
        for (let i = 0; i < 3000; i++) drop(spool, `${i}`, packet({ task: 'it', args: '["x"]' }))
        const daemon = await startHost(language, {
          spool,
          handler,
          ini: { 'spooler-concurrency': concurrency, 'spooler-retry-delay': 0 },
        })
        await until('all tasks have ended', () => leftIn(spool).length === 0, 60_000)
        assert.equal(daemon.journal().length, 1, 'interpreters')
        assert.doesNotMatch(daemon.output, /buried|set aside/)
        assert.doesNotMatch(daemon.output, /interpreter.*(died|exited)/)
      })
})

describe('a signal handler in Python that raises in code of an application', {
  skip: skipUnless('python3'),
}, () => {
  const LIMIT = `
import asyncio, multiprocessing, signal, threading
class Limit(Exception): pass
def limit(*_): raise Limit
def busy():
    signal.signal(signal.SIGALRM, limit)
    signal.setitimer(signal.ITIMER_REAL, .1)
    end = time.monotonic() + 2
    try:
        while time.monotonic() < end: pass
        journal('no limit')
    except Limit: journal('limited')
`
  for (const [where, handler] of [
    ['what ends its process', 'def spooler(env): return -2\nuwsgi.spooler, uwsgi.atexit = spooler, busy'],
    [
      'a process that a thread of it forks',
      `
def fork():
    child = multiprocessing.get_context('fork').Process(target=busy)
    child.start()
    child.join()
def spooler(env):
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    return -2
uwsgi.spooler = spooler`,
    ],
    [
      'a coroutine that it starts beside others',
      `
import spoold
async def co(): busy()
async def it(): await asyncio.gather(co())
spoold.Tasks().add(it, 'it')`,
    ],
  ] as const)
    it(`interrupts ${where}`, async () => {
      const spool = spoolDirectory()
      drop(spool, '1', packet({ task: 'it' }))
      const ini = { drain: true, 'spooler-concurrency': 2 }
      const daemon = await startHost('python', { spool, handler: LIMIT + handler, ini, isUnready: true })
      assert.equal(await daemon.code(), 0)
      assert.deepEqual(daemon.journal(), ['limited'])
      assert.doesNotMatch(daemon.output, /outside any task/)
    })

  it('is logged without the lines of the host', async () => {
    const spool = spoolDirectory()
    drop(spool)
    const handler = `
import signal
class Limit(Exception): pass
def limit(*_): raise Limit
def spooler(env):
    signal.signal(signal.SIGALRM, limit)
    signal.setitimer(signal.ITIMER_REAL, .1)
    time.sleep(5)
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 3)
    assert.match(daemon.output, /in limit\n(.*\n)+.*Limit$/m)
    assert.doesNotMatch(daemon.output, /spoold_host/)
  })

  it('keeps no other signal from its handler if it raises during a call', async () => {
    const spool = spoolDirectory()
    drop(spool)
    const handler = `
import signal
class Limit(Exception): pass
def limit(*_): raise Limit
def spooler(env):
    signal.signal(signal.SIGALRM, limit)
    signal.signal(signal.SIGUSR1, lambda *_: journal('the other'))
    host, worker = os.getpid(), os.getppid()
    child = os.fork()
    if child == 0:
        for number, pid in (signal.SIGALRM, host), (signal.SIGUSR1, host), (signal.SIGCONT, worker):
            time.sleep(.2)
            os.kill(pid, number)
        os._exit(0)
    try:
        os.kill(worker, signal.SIGSTOP)
        uwsgi.cache_update('key', 'value')
    except Limit: journal('limited')
    os.waitpid(child, 0)
    return -2
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal().sort(), ['limited', 'the other'])
  })

  it('ends no other task if a coroutine that a task starts raises KeyboardInterrupt', async () => {
    const spool = spoolDirectory()
    for (const name of ['1', '2']) drop(spool, name, packet({ task: 'it' }))
    const handler = `
import asyncio, spoold
async def co(): raise KeyboardInterrupt('of the first')
n = 0
async def it():
    global n
    n += 1
    if n == 2:
        try: await asyncio.gather(co())
        except KeyboardInterrupt: journal('raised')
    await asyncio.sleep(.1)
    journal('ended')
spoold.Tasks().add(it, 'it')
`
    const ini = { drain: true, 'spooler-concurrency': 2 }
    const daemon = await startHost('python', { spool, handler, ini, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['raised', 'ended', 'ended'])
    assert.match(
      daemon.output,
      /code that a task left to the event loop raised an exception outside any task:\n(.*\n)*.*KeyboardInterrupt: of the first/,
    )
  })
})

describe('signals that Perl code blocks', { skip: skipUnless('perl') }, () => {
  it('stay blocked in its tasks', async () => {
    const spool = spoolDirectory()
    for (const name of ['1', '2']) drop(spool, name)
    const handler = `
use POSIX;
sub blocked { open(my $status, '<', '/proc/self/status'); (grep { /^SigBlk/ } <$status>)[0] =~ s/\\s+/ /gr }
sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR2));
uwsgi::spooler(sub {
    journal(blocked());
    sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1));
    return -2;
});`
    const daemon = await startHost('perl', { spool, handler, ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['SigBlk: 0000000000000800 ', 'SigBlk: 0000000000000a00 '])
  })
})

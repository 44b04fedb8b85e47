import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { readJournal, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { DEBIAN, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { type Language, startHost, writeHandler } from './host-daemon.js'

/** The calls in Python, in this order, which uWSGI answers as well. */
const PYTHON_CALLS = `
write(0,0,b'hello')|write(0,0,'text')|read(0,0,5)|len(uwsgi.sharedarea_read(0,4090))|read(0,8190,5)|read(0,0,100000)
write(0,8190,b'hello')|read(7,0,1)|write(7,0,b'x')|write8(0,10,200)|read8(0,10)|write8(0,10,300)|write8(0,10,-3)
write32(0,20,-5)|read32(0,20)|write64(0,24,-7)|read64(0,24)|inc64(0,24)|inc32(0,20,100)|dec32(0,20,1)|read32(0,20)
dec64(0,24,2)|read(0,24,8)|readlong(0,24)|writelong(0,24,9)|inclong(0,24)|read64(0,24)|writebyte(0,3,7)|readbyte(0,3)
read64(0,8190)|write64(0,8190,1)|inc64(0,8190,1)|read8(3,0)|rlock(0)|unlock(0)|wlock(0)|unlock(0)|rlock(9)
len(uwsgi.sharedarea_memoryview(0))|uwsgi.sharedarea_memoryview(0).readonly|memoryview(9)|read(1,4096,1)|read(1,4095,1)
`
  .trim()
  .split(/[|\n]/)

const PYTHON_SOURCE = `
def answer(call):
    if not call.startswith(('len', 'uwsgi')): call = 'uwsgi.sharedarea_' + call
    try: return repr(eval(call))
    except Exception as error: return '%s: %s' % (type(error).__name__, error)
for call in ${JSON.stringify(PYTHON_CALLS)}:
    journal('%s -> %s' % (call, answer(call)))
uwsgi.spooler = lambda env: -2
`

const PERL_CALLS = [
  `write(0,0,'hello')`,
  'read(0,0,5)',
  'read(0,8190,5)',
  `write(0,8190,'hello')`,
  'read(4,0,1)',
]
const PERL_SOURCE = `
for my $call (${PERL_CALLS.map(call => JSON.stringify(call)).join(', ')}) {
    my $answer = eval "uwsgi::sharedarea_$call";
    my $error = $@ =~ s/ at .*//sr;
    journal("$call -> " . ($error ne '' ? "dies: $error" : $answer));
}
journal('length ' . length uwsgi::sharedarea_read(0, 4090));
uwsgi::spooler(sub { return -2 });
`

describe('sharedarea_* answers as under uWSGI', () => {
  const python = ['python', 'import', PYTHON_SOURCE, PYTHON_CALLS.length] as const
  const perl = ['perl', 'perl-exec', PERL_SOURCE, PERL_CALLS.length + 1] as const
  const CASES = [
    ...UWSGIS.map(uwsgi => [...python, uwsgi, skipUnless(uwsgi.needs, 'python3')] as const),
    [...perl, { ...DEBIAN, python: { plugin: 'psgi' } }, skipUnless('uwsgi-perl', 'perl')],
  ] as const
  for (const [language, option, source, count, uwsgi, skip] of CASES)
    it(`${language}: ${uwsgi.title}`, { skip }, async () => {
      const answers = await Promise.all(
        (['uwsgi', 'spoold'] as const).map(async by => {
          const spool = spoolDirectory()
          const home = dirname(spool)
          const ini = {
            ...uwsgi.python,
            master: true,
            sharedarea: ['2', 'pages=1'],
            [option]: writeHandler(spool, language, source),
          }
          let process: TestProcess
          if (by === 'spoold')
            process = await startDaemon({ spool, isForeign: true, ini: { ...ini, ...uwsgi.samePython } })
          else {
            const more = { spooler: spool, socket: 'app.sock', 'die-on-term': true, 'worker-reload-mercy': 2 }
            writeIni(join(home, 'app.ini'), { ...ini, ...more })
            process = new TestProcess(uwsgi.command, [join(home, 'app.ini')], { cwd: home })
          }
          await until(`${by} answered`, () => readJournal(home).length >= count).catch(error => {
            throw new Error(`${error}\n${readJournal(home).join('\n')}\n${process.output}`)
          })
          // a uWSGI whose locks are held may spin for ever when it is asked to stop
          for (const pid of [process.pid, ...process.children()]) globalThis.process.kill(pid, 'SIGKILL')
          await process.exited
          return readJournal(home)
        }),
      )
      assert.deepEqual(answers[1], answers[0])
    })
})

/** Writes until a time limit comes, twenty times, and journals whether another process can lock the area then. */
const LIMITED = {
  python: `
import fcntl, signal
class Limit(Exception): pass
def limit(*_): raise Limit
def lock():
    with open('/proc/self/fd/7', 'r+b') as area: fcntl.lockf(area, fcntl.LOCK_EX | fcntl.LOCK_NB)
def spooler(env):
    signal.signal(signal.SIGALRM, limit)
    for n in range(20):
        try:
            signal.setitimer(signal.ITIMER_REAL, .002 + n * .0001)
            while True: uwsgi.sharedarea_write(0, 0, b'x' * 4_000_000)
        except Limit: pass
        pid = os.fork()
        if pid == 0:
            try: lock()
            except OSError: os._exit(1)
            os._exit(0)
        journal('locked' if os.waitpid(pid, 0)[1] else 'free')
    return -2
uwsgi.spooler = spooler`,
  perl: `
use Fcntl qw(F_SETLK F_WRLCK SEEK_SET);
use POSIX ();
use Time::HiRes 'setitimer';
sub can_lock {
    open(my $area, '+<', '/proc/self/fd/7') or die;
    my $lock = pack('s! s! x4 q q i x4', F_WRLCK, SEEK_SET, 0, 0, 0);
    return fcntl($area, F_SETLK, $lock);
}
uwsgi::spooler(sub {
    local $SIG{ALRM} = sub { die "limit\\n" };
    for my $n (0 .. 19) {
        eval {
            setitimer(Time::HiRes::ITIMER_REAL(), .002 + $n * .0001);
            1 while uwsgi::sharedarea_write(0, 0, 'x' x 4_000_000);
        };
        my $pid = fork() // die;
        POSIX::_exit(can_lock() ? 0 : 1) if !$pid;
        waitpid($pid, 0);
        journal($? ? 'locked' : 'free');
    }
    return -2;
});`,
} as const

describe('a shared area', () => {
  const skip = skipUnless('python3', 'perl')
  it('is one for all workers, languages and reloads of a daemon, and no increment is lost', {
    skip,
  }, async () => {
    const spool = spoolDirectory()
    const perl = writeHandler(
      spool,
      'perl',
      `uwsgi::spooler(sub { journal('perl read ' . unpack('q<', uwsgi::sharedarea_read(0, 8, 8))); return -2 });`,
    )
    const python = writeHandler(
      spool,
      'python',
      `
def spooler(env):
    if b'ask' in env: return 0
    for i in range(100): uwsgi.sharedarea_inc64(0, 8)
    journal('%d %d' % (os.getpid(), uwsgi.sharedarea_read64(0, 8)))
    return -2
uwsgi.spooler = spooler
`,
    )
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { python: PYTHON, import: python, 'perl-exec': perl, sharedarea: 1, 'spooler-processes': 3 },
    })
    const rows = () => daemon.journal().map(line => line.split(' ').map(Number))
    let tasks = 0
    await until('two workers have run tasks', () => {
      drop(spool)
      tasks++
      return new Set(rows().map(([pid]) => pid)).size > 1
    })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.equal(Math.max(...rows().map(([, value = 0]) => value)), 100 * tasks)
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/reload/)
    drop(spool, undefined, packet({ ask: '1' }))
    await until('Perl has read the area', () => daemon.journal().includes(`perl read ${100 * tasks}`))
  })

  for (const [language, handler] of Object.entries(LIMITED))
    it(`is not left locked by a time limit that ends a write: ${language}`, { skip }, async () => {
      const spool = spoolDirectory()
      drop(spool)
      const ini = { sharedarea: 1000, drain: true }
      const daemon = await startHost(language as Language, { spool, handler, ini, isUnready: true })
      assert.equal(await daemon.code(), 0)
      assert.deepEqual(daemon.journal(), Array(20).fill('free'))
    })

  it('is refused if its size is not a number of pages', async () => {
    const directory = dirname(spoolDirectory())
    writeFileSync(join(directory, 'h.mjs'), 'export default () => -2')
    const args = [
      'check',
      '--spooler',
      'spool',
      '--spooler-import',
      'h.mjs',
      '--sharedarea',
      'file=/etc/passwd',
    ]
    const { code, stdout } = await spoold(args, { cwd: directory })
    assert.equal(code, 1)
    assert.match(stdout, /error: sharedarea: expected a number of pages/)
  })
})

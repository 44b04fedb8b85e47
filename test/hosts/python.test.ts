import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { FIXTURES, spoolDirectory, workspace } from '../helpers/workspace.js'
import { hostsOf, startHost, writeHandler } from './host-daemon.js'

/** Journals each key and value with its type, in the form of got.jsonl. */
const RECORDER = `
import json, base64
def b(v): return v if isinstance(v, bytes) else str(v).encode('utf-8', 'surrogateescape')
def spooler(env):
    journal(json.dumps({b(k).decode('latin1'): [type(v).__name__, base64.b64encode(b(v)).decode()] for k, v in env.items()}))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`

describe('the Python host', { skip: skipUnless('python3') }, () => {
  it("gives real spool files in uWSGI's order, with uWSGI's types and bytes", async () => {
    const directory = workspace()
    execFileSync('tar', ['-xf', join(FIXTURES, 'golden/spool.tar'), '-C', directory])
    const expected = readFileSync(join(FIXTURES, 'golden/got.jsonl'), 'utf8').trim().split('\n')
    const spool = join(directory, 'spool')
    const daemon = await startHost('python', {
      spool,
      handler: RECORDER,
      ini: { 'spooler-ordered': true, 'spooler-quiet': true },
    })
    await until(
      'all tasks have run',
      () => leftIn(spool).length === 0 && daemon.journal().length >= expected.length,
    )
    assert.deepEqual(daemon.journal(), expected)
  })

  it('runs a task in its directory, with the keys as bytes but for the two that uWSGI makes', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    journal(repr([[type(k).__name__ for k in env], os.getcwd(), env.get('body'), env[b'k']]))
    os.chdir('/')
    return -2
uwsgi.spooler = spooler
`,
      ini: { 'spooler-ordered': true },
    })
    mkdirSync(join(spool, '3'))
    drop(join(spool, '3'), 'uwsgi_spoolfile_on_a', packet({ k: 'v' }, 'B\0'))
    await until('the task has run', () => daemon.journal().length === 1)
    drop(spool, 'uwsgi_spoolfile_on_b', packet({ k: '' }))
    await until('both tasks have run', () => daemon.journal().length === 2)
    assert.deepEqual(daemon.journal(), [
      `[['str', 'bytes', 'str'], '${spool}/3', b'B\\x00', b'v']`,
      `[['str', 'bytes'], '${spool}', None, b'']`,
    ])
  })

  it('acts on every answer as uWSGI does, and logs what is no answer', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
class Odd:
    def __repr__(self): raise ValueError('no picture')
ANSWERS = {b'ok': -2, b'retry': -1, b'ignore': 0, b'false': False, b'true': True, b'none': None, b'text': '-2',
    b'float': -2.0, b'five': 5, b'big': 2**40, b'huge': 2**80, b'odd': Odd()}
def spooler(env):
    journal(env[b'a'].decode())
    if env[b'a'] == b'raise': raise KeyError('kapot')
    return ANSWERS[env[b'a']]
uwsgi.spooler = spooler
`,
    })
    const kept = [
      'retry',
      'ignore',
      'false',
      'true',
      'none',
      'text',
      'float',
      'five',
      'big',
      'huge',
      'odd',
      'raise',
    ]
    for (const a of ['ok', ...kept]) drop(spool, `uwsgi_spoolfile_on_${a}`, packet({ a }))
    await until(
      'each task has run',
      () => new Set(daemon.journal()).size === 13 && leftIn(spool).length === 12,
    )
    await daemon.waitFor(/task uwsgi_spoolfile_on_raise[\s\S]*KeyError: 'kapot'/)
    await daemon.waitFor(
      /task uwsgi_spoolfile_on_none.*the spooler function returned None; expected uwsgi.SPOOL_OK/,
    )
    await daemon.waitFor(/task uwsgi_spoolfile_on_big.*returned 1099511627776/)
    await daemon.waitFor(/task uwsgi_spoolfile_on_odd/)
    await until(
      'two tasks are ignored',
      () => daemon.output.match(/unable to find the spooler function/g)?.length === 2,
    )
    const { output } = daemon
    assert.match(output, /File ".*tasks.py", line \d+, in spooler/)
    assert.doesNotMatch(output, /spoold_host/)
    assert.doesNotMatch(output, /on_retry .*failed/)
    assert.deepEqual(leftIn(spool), kept.map(a => `uwsgi_spoolfile_on_${a}`).sort())
  })

  it('stores tasks of a handler in its own spool and others, with body, priority and time, or says why not', async () => {
    const spool = spoolDirectory()
    const other = join(dirname(spool), 'other')
    const daemon = await startHost('python', {
      spool,
      handler: `
def attempt(f, *args, **kwargs):
    try: journal('path %s' % type(f(*args, **kwargs)).__name__)
    except Exception as e: journal('%s: %s' % (type(e).__name__, e))
def spooler(env):
    if b'go' not in env:
        journal('ran ' + ' '.join('%s=%s' % (k, env[k]) for k in sorted(env, key=str) if k != 'spooler_task_name'))
        return -2
    task = {b'a': b'1', b'body': b'BODY', b'at': b'1700000000.5', b'priority': b'4'}
    attempt(uwsgi.spool, task)
    journal(repr(sorted(task)))
    attempt(uwsgi.send_to_spooler, {b'a': bytearray(b'x'), b'spooler': ${JSON.stringify(other)}.encode()})
    for wrong in [{b'k': 1}, {b'k': 'v'}, {b'k': None}, {'k': b'v'}, {b'body': 'text'}, 5, {b'k': b'v' * 70000},
                  {b'spooler': b'/nowhere', b'k': b'v'}, {b'priority': b'../x'}]:
        attempt(uwsgi.spool, wrong)
    attempt(uwsgi.spool)
    attempt(uwsgi.spool, k=b'v')
    return -2
uwsgi.spooler = spooler
`,
      ini: { 'spooler-ordered': true, 'spooler-external': other },
    })
    drop(spool, undefined, packet({ go: '1' }))
    await until(
      'all calls are tried',
      () => daemon.journal().some(line => line.startsWith('ran')) && daemon.journal().length === 15,
    )
    const journal = daemon.journal().filter(line => !line.startsWith('ran'))
    const bytes = 'ValueError: spooler callable dictionary must contains only bytes'
    assert.deepEqual(journal.slice(0, 3), ['path bytes', "[b'a', b'at', b'priority']", 'path bytes'])
    assert.deepEqual(journal.slice(3, 8), [bytes, bytes, bytes, bytes, bytes])
    assert.equal(journal[8], 'ValueError: The argument of spooler callable must be a dictionary')
    assert.match(journal[9] ?? '', /^ValueError: .*"k" takes 70000 bytes/)
    assert.match(journal[10] ?? '', /^ValueError: .*\/nowhere/)
    assert.match(journal[11] ?? '', /^ValueError: .*priority/)
    assert.equal(journal[12], 'ValueError: The argument of spooler callable must be a dictionary')
    assert.equal(leftIn(other).length, 1)
    assert.ok(daemon.journal().includes("ran b'a'=b'1' b'at'=b'1700000000.5' b'priority'=b'4' body=b'BODY'"))
    assert.match(daemon.output, /\[spooler\] written \d+ bytes to file .*\/4\/uwsgi_spoolfile_on_/)
  })

  it('offers what spooler code uses of the module uwsgi, and names what is missing', async () => {
    const spool = spoolDirectory()
    const link = `${spool}-link` // uWSGI names the spool by its real path
    symlinkSync(spool, link)
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    jobs = uwsgi.spooler_jobs()
    facts = dict(
        ids=(uwsgi.worker_id(), uwsgi.mule_id(), uwsgi.i_am_the_spooler()),
        master=uwsgi.masterpid() == ${'os.getppid()'} or uwsgi.masterpid() > 0,
        opt=(uwsgi.opt['spooler'], uwsgi.opt['mine'], uwsgi.opt['empty']),
        dirs=(uwsgi.spoolers, uwsgi.spooler_dir()),
        jobs=sorted(os.path.basename(j) for j in jobs),
        own=uwsgi.spooler_get_task(os.fsdecode(os.path.join(uwsgi.spooler_dir(), env['spooler_task_name']))),
        other=uwsgi.spooler_get_task(${JSON.stringify(spool)} + '/uwsgi_spoolfile_on_later'),
        none=uwsgi.spooler_get_task('/nowhere'),
        pids=len(uwsgi.spooler_pids()), pid=uwsgi.spooler_pid() in uwsgi.spooler_pids(),
        constants=(uwsgi.SPOOL_OK, uwsgi.SPOOL_RETRY, uwsgi.SPOOL_IGNORE),
        types=(type(uwsgi.version).__name__, len(uwsgi.version_info), type(uwsgi.hostname).__name__),
        log=uwsgi.log('a line of mine'), frequency=uwsgi.set_spooler_frequency(7),
        has=hasattr(uwsgi, 'websocket_recv'),
    )
    for key, value in facts.items(): journal('%s %r' % (key, value))
    for name in ('lock', 'websocket_recv'):
        try: getattr(uwsgi, name)()
        except Exception as e: journal('%s: %s' % (type(e).__name__, e))
    return -2
uwsgi.spooler = spooler
`,
      ini: { mine: ['1', '2'], empty: '', spooler: link },
    })
    drop(spool, 'uwsgi_spoolfile_on_later', packet({ a: 'x', at: '4000000000' }, 'BODY'), 4_000_000_000)
    drop(spool, 'uwsgi_spoolfile_on_now')
    await until('the task has run', () => daemon.journal().length === 17)
    assert.deepEqual(daemon.journal(), [
      'ids (0, 0, True)',
      'master True',
      `opt (b'${link}', b'2', b'')`,
      `dirs ((b'${spool}',), b'${spool}')`,
      "jobs [b'uwsgi_spoolfile_on_later', b'uwsgi_spoolfile_on_now']",
      'own None',
      `other {'spooler_task_name': b'${spool}/uwsgi_spoolfile_on_later', b'a': b'x', b'at': b'4000000000', 'body': b'BODY'}`,
      'none None',
      'pids 1',
      'pid True',
      'constants (-2, -1, 0)',
      "types ('bytes', 5, 'bytes')",
      'log True',
      'frequency True',
      'has True',
      'ValueError: The spooler cannot lock/unlock resources',
      'NotImplementedError: uwsgi.websocket_recv does nothing under spoold: docs/hosts.md lists what does',
    ])
    await daemon.waitFor('a line of mine')
  })

  it('refuses text in place of a number, and a fraction in place of an integer, with a TypeError, as uWSGI does', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    for call in (
        lambda: uwsgi.set_spooler_frequency('3'), lambda: uwsgi.set_spooler_frequency(3.5),
        lambda: uwsgi.set_user_harakiri('3'), lambda: uwsgi.set_user_harakiri(3.5),
        lambda: uwsgi.signal('3'), lambda: uwsgi.signal_registered('3'),
        lambda: uwsgi.add_cron(1, '3', -1, -1, -1, -1), lambda: uwsgi.add_rb_timer(1, 3, '1'),
    ):
        try: journal(repr(call()))
        except TypeError as error: journal(str(error))
    for call in (
        lambda: uwsgi.add_timer(1, '3'), lambda: uwsgi.add_rb_timer(1, '3'),
        lambda: uwsgi.register_signal(1, b'', print),
    ):
        try: journal(repr(call()))
        except TypeError: journal('TypeError')
    return -2
uwsgi.spooler = spooler`,
    })
    drop(spool, 'a')
    await daemon.waitFor('done with task a')
    const [text, fraction] = ['str', 'float'].map(
      type => `'${type}' object cannot be interpreted as an integer`,
    )
    assert.deepEqual(daemon.journal(), [
      ...[text, fraction, text, fraction, text, text, text, text],
      ...['TypeError', 'TypeError', 'TypeError'],
    ])
  })

  it('refuses a value for the cache that is too large for a message, and runs on', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    try: uwsgi.cache_update('k', bytes(3000000))
    except ValueError as error: journal(str(error))
    uwsgi.cache_update('k', bytes(2000000))
    for i in range(3): uwsgi.cache_update('%d' % i + 6000000 * 'k', b'')
    try: uwsgi.cache_keys()
    except ValueError as error: journal(str(error))
    journal('%d in %d' % (len(uwsgi.cache_get('k')), os.getppid()))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
    })
    drop(spool, 'a')
    await daemon.waitFor('done with task a')
    const said = daemon.journal().map(line => line.replace(/(?<=180000)\d\d/, '..'))
    assert.deepEqual(said, [
      'cache: expected at most 16777216 bytes as JSON, got 180000..; keep what is so large in a file, and pass its name',
      'the answer of cache: expected at most 16777216 bytes as JSON, got 180000..; keep what is so large in a file, and pass its name',
      `2000000 in ${daemon.workers()[0]}`,
    ])
  })

  it('shares a cache among the workers of a daemon', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    journal(str(os.getpid()))
    uwsgi.cache_inc('n')
    uwsgi.cache_update('last', env['spooler_task_name'])
    if not uwsgi.cache_set('first', b'x'): assert uwsgi.cache_get('first') == b'x'
    journal('n=%d %s %s' % (uwsgi.cache_num('n'), sorted(uwsgi.cache_keys()), uwsgi.cache_get('nothing')))
    time.sleep(.05)
    return -2
uwsgi.spooler = spooler
`,
      ini: { 'spooler-processes': 2 },
    })
    for (let i = 0; i < 20; i++) drop(spool)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    const pids = new Set(daemon.journal().filter(line => /^\d+$/.test(line)))
    assert.equal(pids.size, 2)
    assert.ok(daemon.journal().includes("n=20 [b'first', b'last', b'n'] None"))
  })

  it('loads modules from pythonpath, packages and files as uWSGI does, with post_fork_hook in between', async () => {
    const spool = spoolDirectory()
    const lib = join(dirname(spool), 'lib')
    mkdirSync(join(lib, 'package'), { recursive: true })
    writeFileSync(join(lib, 'package/__init__.py'), `import uwsgi\nuwsgi.seen = ['package']\n`)
    writeFileSync(
      join(lib, 'hooked.py'),
      `import uwsgi\nuwsgi.seen.append('hooked')\ndef hook(): uwsgi.seen.append('hook')\nuwsgi.post_fork_hook = hook\n`,
    )
    const file = writeHandler(
      spool,
      'python',
      `
uwsgi.seen.append(__name__)
def spooler(env): journal(' '.join(uwsgi.seen)); return -2
uwsgi.spooler = spooler
`,
      'my.tasks',
    )
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: {
        python: PYTHON,
        pythonpath: `${dirname(spool)}/li*`,
        'spooler-import': file,
        import: 'hooked',
        'shared-import': 'package',
      },
    })
    drop(spool)
    await until('the task has run', () => daemon.journal().length === 1)
    const name = file.replaceAll(/[./]/g, '_').replace(/_py$/, '')
    assert.deepEqual(daemon.journal(), [`package hooked hook ${name}`])
  })

  it('uses the interpreter of a virtualenv', async () => {
    const spool = spoolDirectory()
    const venv = join(dirname(spool), 'venv')
    execFileSync(PYTHON, ['-m', 'venv', '--without-pip', venv])
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env): journal(sys.prefix); return -2
uwsgi.spooler = spooler
`,
      ini: { python: [], virtualenv: venv },
    })
    drop(spool)
    await until('the task has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), [venv])
  })

  it('does not start with code that cannot be loaded, and says where it fails', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', { spool, handler: 'def f(): nonsense\nf()\n', isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /\[HANDLER_UNLOADABLE\] Traceback[\s\S]*tasks.py", line \d+, in f[\s\S]*NameError/,
    )
    assert.doesNotMatch(daemon.output, /loader.py/)
  })

  it('does not start without an interpreter, and names the package', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', { spool, ini: { python: 'python-of-nowhere' }, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /app\.ini:\d+: error: python = python-of-nowhere: it cannot be run; install the package python3/,
    )
    const bare = await startHost('python', {
      spool,
      ini: { python: [] },
      env: { PATH: dirname(spool) },
      isUnready: true,
    })
    assert.equal(await bare.code(), 1)
    assert.match(bare.output, /python3 is not on PATH .*install the package python3/)
  })

  it('is one process per worker, and ends with its daemon after its atexit functions', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
import atexit
atexit.register(lambda: journal('left'))
def spooler(env): journal(str(os.getpid())); return -2
uwsgi.spooler = spooler
`,
    })
    const [host] = hostsOf(daemon)
    for (let i = 0; i < 50; i++) drop(spool)
    await until('all tasks have run', () => daemon.journal().length === 50)
    assert.deepEqual(new Set(daemon.journal()), new Set([String(host)]))
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.equal(daemon.journal().at(-1), 'left')
    assert.ok(!existsSync(`/proc/${host}`))
  })

  it('is killed at its end if a thread holds it up, which is logged', async () => {
    const spool = spoolDirectory()
    drop(spool)
    const daemon = await startHost('python', {
      spool,
      handler: `
import threading
def spooler(env): threading.Thread(target=time.sleep, args=(3600,)).start(); return -2
uwsgi.spooler = spooler
`,
      ini: { drain: true },
      isUnready: true,
    })
    assert.equal(await daemon.code(), 0)
    assert.match(
      daemon.output,
      /the Python interpreter \(pid: \d+\) is killed: a thread that a task has left/,
    )
  })
})

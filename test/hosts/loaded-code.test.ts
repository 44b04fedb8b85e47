import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

type Files = Readonly<Record<string, string>>
type Ini = Readonly<Record<string, string | number | boolean | readonly string[]>>

const JOURNAL = `
import os, uwsgi
def journal(line):
    with open('JOURNAL', 'a') as file: file.write(line + '\\n')
`

function write(home: string, files: Files): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true })
    writeFileSync(join(home, name), text.replaceAll("'JOURNAL'", `'${join(home, 'journal')}'`))
  }
}

describe('code that is loaded', { skip: skipUnless('python3') }, () => {
  const HANDLER = `${JOURNAL}
def spooler(env):
    journal(env[b'n'].decode())
    return -2
`

  async function start(files: Files, ini: Ini, isUnready = false): Promise<Daemon> {
    const spool = spoolDirectory()
    write(dirname(spool), files)
    return startDaemon({
      spool,
      isForeign: true,
      ini: { python: PYTHON, ...ini },
      ...(isUnready && { isUnready }),
    })
  }
  const ran = (daemon: Daemon, count: number) =>
    until(`${count} tasks have run`, () => daemon.journal().length >= count).catch(error => {
      throw new Error(`${error}\n${daemon.output}`)
    })
  const spoolOf = (daemon: Daemon) => join(daemon.directory, 'spool')

  it('stores its task once per daemon, and once more at a reload', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler\nassert uwsgi.spool({b'n': b'boot'}).startswith(b'/')\n`
    const daemon = await start(
      { 'tasks.py': source },
      { import: 'tasks.py', 'spooler-max-tasks': 1, 'spooler-processes': 2 },
    )
    for (let i = 0; i < 3; i++) drop(spoolOf(daemon), `uwsgi_spoolfile_on_${i}`, packet({ n: String(i) }))
    await ran(daemon, 4)
    assert.deepEqual(daemon.journal().sort(), ['0', '1', '2', 'boot'])
    daemon.child.kill('SIGHUP')
    await ran(daemon, 5)
    assert.equal(daemon.journal().filter(line => line === 'boot').length, 2)
  })

  it('stores its task once per worker if spooler-python-import loads it', async () => {
    const daemon = await start(
      { 'tasks.py': `${HANDLER}uwsgi.spooler = spooler\nuwsgi.spool({b'n': b'mine'})\n` },
      { 'spooler-python-import': 'tasks.py', 'spooler-processes': 2 },
    )
    await ran(daemon, 2)
    assert.deepEqual(daemon.journal(), ['mine', 'mine'])
  })

  it('may leave threads running, which is logged once', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler
import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True, name='poller').start()
`
    const daemon = await start({ 'tasks.py': source }, { import: 'tasks.py', 'spooler-processes': 2 })
    assert.equal(daemon.output.match(/left threads running .*: poller\./g)?.length, 1, daemon.output)
  })

  it('may fail if it is an application and other code has a handler', async () => {
    const files = { 'tasks.py': `${HANDLER}uwsgi.spooler = spooler\n`, 'web.py': 'def f(): nonsense\nf()\n' }
    const daemon = await start(files, { module: 'web', 'spooler-python-import': 'tasks.py' })
    await daemon.waitFor(
      /the application of module = web could not be loaded:\s+Traceback[\s\S]*web.py", line 1, in f[\s\S]*NameError/,
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })

  it('may fail after it has registered its handler', async () => {
    const daemon = await start(
      { 'web.py': `${HANDLER}uwsgi.spooler = spooler\nnonsense\n` },
      { module: 'web' },
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })

  it('keeps the daemon from starting if it fails and no other code has a handler, or with need-app', async () => {
    const files = { 'tasks.py': `${HANDLER}uwsgi.spooler = spooler\n`, 'web.py': 'import no_such_thing\n' }
    const alone = await start(files, { module: 'web' }, true)
    assert.equal(await alone.code(), 1)
    assert.match(
      alone.output,
      /HANDLER_UNLOADABLE\] the application of module = web could not be loaded:[\s\S]*no_such_thing[\s\S]*python3 is the interpreter: install the package there[\s\S]*pythonpath = its directory, or with spooler-import = its file/,
    )
    const needed = await start(files, { module: 'web', 'spooler-import': 'tasks.py', 'need-app': true }, true)
    assert.equal(await needed.code(), 1)
  })

  it('is named by its own line if it cannot be compiled, without the frames of importlib', async () => {
    const daemon = await start({ 'tasks.py': 'def broken(:\n' }, { import: 'tasks.py' }, true)
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /File "\S+\/tasks\.py", line 1\n[\s\S]*SyntaxError: /)
    assert.doesNotMatch(daemon.output, /importlib/)
  })

  it('is left out with spooler-load-app = off, and with lazy-apps, as in uWSGI', async () => {
    const files = {
      'tasks.py': `${HANDLER}uwsgi.spooler = spooler\n`,
      'web.py': `${JOURNAL}journal('loaded')\n`,
    }
    for (const option of ['spooler-load-app = off', 'lazy-apps = true']) {
      const [key = '', value = ''] = option.split(' = ')
      const daemon = await start(files, { module: 'web', 'spooler-import': 'tasks.py', [key]: value })
      drop(spoolOf(daemon), undefined, packet({ n: option }))
      await ran(daemon, 1)
      assert.deepEqual(daemon.journal(), [option])
      const said =
        /app\.ini:\d+: warning: lazy-apps: what module names is not loaded for the spoolers, as in uWSGI; spooler-load-app = on loads it/
      assert.equal(said.test(daemon.output), key === 'lazy-apps')
    }
    const without = await start(files, { module: 'web', 'spooler-load-app': 'off' }, true)
    assert.equal(await without.code(), 1)
    assert.match(
      without.output,
      /there is no handler: spooler-load-app = off leaves out the application that module names/,
    )
  })

  it('is loaded in spite of lazy-apps if no other code has a handler, where uWSGI would run no task', async () => {
    const files = { 'web.py': `${HANDLER}uwsgi.spooler = spooler\n` }
    const daemon = await start(files, { module: 'web', 'lazy-apps': true })
    drop(spoolOf(daemon), undefined, packet({ n: 'lazy' }))
    await ran(daemon, 1)
    assert.match(daemon.output, /app\.ini:\d+: warning: lazy-apps: uWSGI's spoolers would have no handler/)
  })

  it('is loaded with lazy-apps when spooler-load-app = on asks for it', async () => {
    const files = {
      'tasks.py': `${HANDLER}uwsgi.spooler = spooler\n`,
      'web.py': `${JOURNAL}journal('loaded')\n`,
    }
    const ini = { module: 'web', 'spooler-import': 'tasks.py', 'lazy-apps': true, 'spooler-load-app': 'on' }
    const daemon = await start(files, ini)
    assert.deepEqual(daemon.journal(), ['loaded'])
    assert.doesNotMatch(daemon.output, /warning: lazy-apps/)
  })

  it('has the logging of its Paste file with ini-paste-logged and with paste-logger, not with ini-paste alone', async () => {
    const files = {
      'paste/__init__.py': '',
      'paste/deploy.py': `import logging, uwsgi
def loadapp(uri):
    logging.getLogger('blog').info('loading %s', uri.rpartition('/')[2])
    def spooler(env):
        logging.getLogger('blog').info('handled')
        return uwsgi.SPOOL_OK
    uwsgi.spooler = spooler
`,
      'paste.ini': `[app:main]
use = egg:blog
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys = short
[logger_root]
level = INFO
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
formatter = short
[formatter_short]
format = LOG %(name)s %(message)s
`,
    }
    for (const ini of [
      { 'ini-paste-logged': 'paste.ini' },
      { paste: 'config:%d/paste.ini', 'paste-logger': true },
      { 'ini-paste': 'paste.ini' },
    ]) {
      const daemon = await start(files, { pythonpath: '%d', ...ini })
      drop(spoolOf(daemon))
      await daemon.waitFor('done with task')
      const isLogged = !('ini-paste' in ini)
      for (const what of ['handled', 'loading paste.ini'])
        assert.equal(daemon.output.includes(`LOG blog ${what}`), isLogged, daemon.output)
    }
  })

  it('has its uwsgi.atexit called at the end of each process, before threads are joined and before Python’s own', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler
import atexit, threading
def wait():
    threading.main_thread().join()
    journal('thread')
threading.Thread(target=wait).start()
atexit.register(lambda: journal('python'))
def end():
    journal('uwsgi')
    raise ValueError('of the end')
uwsgi.atexit = end
`
    const ended = ['uwsgi', 'thread', 'python']
    const daemon = await start({ 'tasks.py': source }, { import: 'tasks.py', 'spooler-max-tasks': 1 })
    drop(spoolOf(daemon), undefined, packet({ n: '1' }))
    await until('the process has ended', () => daemon.journal().includes('python'))
    assert.deepEqual(daemon.journal(), ['1', ...ended])
    await daemon.waitFor(/ValueError: of the end/)
    const stopped = await start({ 'tasks.py': source }, { import: 'tasks.py' })
    stopped.child.kill('SIGTERM')
    await stopped.exited
    assert.deepEqual(stopped.journal(), ended)
  })

  it('finds names of uWSGI that mean nothing in spoold, for modules that refer to them', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler
for name in ('SymbolsImporter', 'SymbolsZipImporter', 'ZipImporter'):
    try: getattr(uwsgi, name)('x')
    except NotImplementedError: journal(name)
journal(repr(uwsgi.sockets))
`
    const daemon = await start({ 'tasks.py': source }, { import: 'tasks.py' })
    assert.deepEqual(daemon.journal(), ['SymbolsImporter', 'SymbolsZipImporter', 'ZipImporter', '[]'])
  })

  it('fails the start if it registers no handler, unless it is a web application', async () => {
    const files = { 'tasks.py': 'import uwsgi\n', 'web.py': 'application = None\n' }
    const refused = await start(files, { 'spooler-import': 'tasks.py' }, true)
    assert.equal(await refused.code(), 1)
    assert.match(refused.output, /Python code registered no handler/)
    const daemon = await start(files, { module: 'web' })
    assert.match(daemon.output, /Python code registered no handler/)
  })

  it('gets the pid of the spooler, and may call set_spooler_frequency', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler
journal(str(uwsgi.spooler_pid() == os.getppid() or uwsgi.spooler_pids()))
uwsgi.set_spooler_frequency(7)
`
    const daemon = await start({ 'tasks.py': source }, { import: 'tasks.py' })
    assert.deepEqual(daemon.journal(), ['True'])
  })

  it('may be a file without an ending, in another directory', async () => {
    const daemon = await start(
      { 'code/tasks': `${HANDLER}uwsgi.spooler = spooler\n` },
      { 'spooler-import': './code/tasks' },
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })

  it('finds uwsgidecorators of spoold if uWSGI is not installed, and prefers the real one in pythonpath', async () => {
    const source = `${JOURNAL}
import uwsgidecorators
@uwsgidecorators.spool
def task(arguments): journal('%s %s' % (arguments['n'], uwsgidecorators.__file__.split('/')[-2]))
@uwsgidecorators.timer(1, target='spooler')
def tick(number): pass
task(n='2')
`
    const tasks = { 'tasks.py': source }
    const bare = join(workspace(), 'python')
    writeFileSync(bare, `#!/bin/sh\nexec ${PYTHON} -S "$@"\n`, { mode: 0o755 }) // without the packages of the machine
    const ini = { python: bare, 'spooler-import': 'tasks.py' }
    const ours = await start(tasks, ini)
    await ran(ours, 1)
    const theirs = await start(
      { ...tasks, 'lib/uwsgidecorators.py': readOurs() },
      { ...ini, pythonpath: 'lib' },
    )
    await ran(theirs, 1)
    assert.deepEqual([...ours.journal(), ...theirs.journal()], ['2 last_resort', '2 lib'])
  })

  it('keeps the first directory of PYTHONPATH under PYTHONSAFEPATH', async () => {
    const daemon = await start(
      { 'lib/helper.py': 'X = 1\n', 'tasks.py': `${HANDLER}import helper\nuwsgi.spooler = spooler\n` },
      { env: ['PYTHONSAFEPATH=1', 'PYTHONPATH=lib'], 'spooler-import': 'tasks.py' },
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })
})

function readOurs(): string {
  return readFileSync(
    new URL('../../../src/hosts/python/library/spoold/last_resort/uwsgidecorators.py', import.meta.url),
    'utf8',
  )
}

describe('the module uwsgi', { skip: skipUnless('python3') }, () => {
  it('has the names and the answers of uWSGI, and fires a timer of 0 seconds', async () => {
    const spool = spoolDirectory()
    write(dirname(spool), {
      'tasks.py': `${JOURNAL}
from uwsgi import alarm, metric_inc, websocket_recv, rpc, mule_get_msg
def answer(function, *args):
    try: return repr(function(*args))
    except Exception as error: return type(error).__name__
def spooler(env):
    journal('alarm %s' % answer(alarm, 'a', 'b'))
    journal('rpc %s' % answer(rpc, 'x', 'y'))
    journal('register %s' % answer(uwsgi.register_signal, 256, '', print))
    journal('signal %s' % answer(uwsgi.signal, 300))
    journal('cron %s' % answer(uwsgi.add_cron, 7, 0, 0, 1, 1, -1))
    journal('foo %s' % uwsgi.opt['foo'])
    journal('twice %s' % uwsgi.opt['twice'])
    journal('mule %s' % ('mule' in uwsgi.opt))
    return -2
uwsgi.spooler = spooler
uwsgi.register_signal(7, 'mule', lambda number: journal('signal %d ran in %s' % (number, os.path.basename(os.getcwd()))))
uwsgi.add_rb_timer(7, 0, 1)
`,
    })
    const own = await startDaemon({
      spool,
      isForeign: true,
      ini: {
        python: PYTHON,
        import: 'tasks.py',
        'set-placeholder': 'foo=bar',
        twice: ['1', '2'],
        mule: true,
      },
    })
    drop(spool)
    await until('all lines are journaled', () => own.journal().length >= 9)
    assert.deepEqual(own.journal().sort(), [
      'alarm None',
      'cron True',
      "foo b'bar'",
      'mule False',
      'register ValueError',
      'rpc NotImplementedError',
      'signal 7 ran in spool',
      'signal None',
      "twice b'2'",
    ])
    assert.match(own.output, /signal 7 is for mule, and there are no mules/)
  })
})

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, readJournal, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'
import { PYTHON } from './host-daemon.js'

type Ini = Readonly<Record<string, string | number | boolean | readonly string[]>>

/** A web application with what uWSGI is told about it; JOURNAL in a file is the path of the journal. */
interface Shape {
  readonly plugin: string
  readonly files: Readonly<Record<string, string>>
  readonly ini: Ini
  readonly tasks: ReadonlyArray<Readonly<Record<string, string>>>
  /** What the handlers journal, sorted. */
  readonly lines: readonly string[]
}

const JOURNAL = `
import os, uwsgi
def journal(line):
    with open('JOURNAL', 'a') as file: file.write(line + '\\n')
`

/** The module makes an application, deep inside of which an object sets the handler; it needs a cache. */
const FACTORY: Shape = {
  plugin: 'python3',
  files: {
    'comments/__init__.py': '',
    'comments/run.py': 'from comments.app import make_app\napplication = make_app()\n',
    'comments/app.py': `${JOURNAL}
class Mailer:
    def __init__(self):
        uwsgi.spooler = self.deliver
    def deliver(self, env):
        journal('mail to %s of %d' % (env[b'to'].decode(), len(env[b'body' if b'body' in env else 'body'])))
        return uwsgi.SPOOL_OK
def make_app():
    assert uwsgi.cache_get('nothing', 'hash') is None
    mailer = Mailer()
    journal('made, spooler: %s' % bool(uwsgi.i_am_the_spooler()))
    return lambda environ, start: [b'']
`,
  },
  ini: {
    module: 'comments.run',
    cache2: 'name=hash,items=1024,blocksize=32',
    chmod: 666,
    'py-autoreload': 0,
  },
  tasks: [{ to: 'joe', body: 'hello' }],
  lines: ['made, spooler: False', 'mail to joe of 5'],
}

/** Decorated functions of a package, and timers for a mule where the configuration has one. */
const PACKAGE: Shape = {
  plugin: 'python3',
  files: {
    'project/__init__.py': 'from . import tasks\n',
    'project/tasks.py': `${JOURNAL}
from uwsgidecorators import spool, timer
@spool
def report(arguments):
    journal('report %s, target %s' % (arguments['n'], 'mule' if uwsgi.opt.get('mule') else 'spooler'))
`,
  },
  ini: { 'spooler-import': 'project' },
  tasks: [{ ud_spool_func: 'report', n: '1', ud_spool_ret: '-2' }],
  lines: ['report 1, target spooler'],
}

/** A file for WSGI with its settings in the environment; a backend that pickles. */
const WSGI_FILE: Shape = {
  plugin: 'python3',
  files: {
    'site/settings.py': `BACKEND = 'mails'\n`,
    'site/mails.py': `${JOURNAL}
import pickle
from uwsgidecorators import spool
@spool(pass_arguments=True)
def send(*messages, **options):
    journal('sent %s %s' % (messages, sorted(options)))
def enqueue():
    journal('stored %s' % type(send('m1', 'm2', fail_silently=True)).__name__)
`,
    'site/wsgi.py': `
import importlib, os, settings
importlib.import_module(settings.BACKEND).enqueue()
assert os.environ['SETTINGS_MODULE'] == 'settings'
def application(environ, start): return [b'']
`,
  },
  ini: {
    'wsgi-file': 'site/wsgi.py',
    pythonpath: 'site',
    env: 'SETTINGS_MODULE=settings',
    'enable-threads': true,
  },
  tasks: [],
  lines: ["sent ('m1', 'm2') ['fail_silently']", 'stored bytes'],
}

/** A factory that is named with its parentheses, and one under a mountpoint. */
const MOUNTED: Shape = {
  plugin: 'python3',
  files: {
    'first.py': `${JOURNAL}
def create():
    journal('created')
    def spooler(env):
        journal('first has %s' % env[b'n'].decode())
        return -2
    uwsgi.spooler = spooler
    return lambda environ, start: [b'']
`,
    'second.py': `${JOURNAL}\njournal('mounted')\ndef application(environ, start): return [b'']\n`,
  },
  ini: { module: 'first:create()', mount: '/second=second.py', 'single-interpreter': true },
  tasks: [{ n: '7' }],
  lines: ['created', 'first has 7', 'mounted'],
}

const PSGI: Shape = {
  plugin: 'psgi',
  files: {
    'app.psgi': `
sub journal { open(my $file, '>>', 'JOURNAL') or die; print $file "$_[0]\\n"; close $file }
uwsgi::spooler(sub { my ($env) = @_; journal("got $env->{to}"); return uwsgi::SPOOL_OK });
uwsgi::spool({ to => 'jane' });
my $app = sub { return [200, [], ['x']] };
`,
  },
  ini: { psgi: 'app.psgi' },
  tasks: [{ to: 'joe' }],
  lines: ['got jane', 'got joe'],
}

const RACK: Shape = {
  plugin: 'rack_ruby31',
  files: {
    // what the gem does with config.ru, as far as it matters here
    'lib/rack.rb': `
module Rack
  class Builder
    def run(app) = @app = app
    def self.parse_file(path)
      builder = new
      builder.instance_eval(File.read(path), path)
      [builder.instance_variable_get(:@app), {}]
    end
  end
end
`,
    'config.ru': `
def UWSGI.journal(line) = File.open('JOURNAL', 'a') { |file| file.write(line + "\\n") }
module ::UWSGI
  module_function
  def spooler(env)
    UWSGI.journal("got #{env['to']}")
    UWSGI::SPOOL_OK
  end
end
UWSGI.spool('to' => 'jane')
run ->(env) { [200, {}, ['x']] }
`,
  },
  ini: { rack: 'config.ru', env: 'RUBYLIB=lib' },
  tasks: [{ to: 'joe' }],
  lines: ['got jane', 'got joe'],
}

describe('an application that registers handlers runs its tasks as under uWSGI', () => {
  const python = skipUnless('uwsgi', 'python3')
  const shapes: ReadonlyArray<readonly [string, Shape, string | false]> = [
    ['module, an object deep in a package', FACTORY, python],
    ['spooler-import with the directory of a package', PACKAGE, python],
    ['wsgi-file, which stores a task while it is loaded', WSGI_FILE, python],
    ['module with a factory, and mount', MOUNTED, python],
    ['psgi', PSGI, skipUnless('uwsgi-perl', 'perl')],
    ['rack', RACK, skipUnless('uwsgi-ruby', 'ruby')],
  ]
  for (const [name, shape, skip] of shapes)
    it(name, { skip }, async () => {
      assert.deepEqual(await linesOf(shape, 'uwsgi'), shape.lines)
      assert.deepEqual(await linesOf(shape, 'spoold'), shape.lines)
    })

  it('also with a mule in the ini: its work goes to the spooler', {
    skip: skipUnless('python3'),
  }, async () => {
    assert.deepEqual(
      await linesOf({ ...PACKAGE, ini: { ...PACKAGE.ini, mule: true } }, 'spoold'),
      PACKAGE.lines,
    )
  })
})

/** Writes the files, runs what reads the ini until all tasks are gone. @returns the journal, sorted */
async function linesOf(shape: Shape, by: 'uwsgi' | 'spoold'): Promise<string[]> {
  const spool = spoolDirectory()
  const home = dirname(spool)
  write(home, shape.files)
  for (const [i, { body, ...vars }] of shape.tasks.entries())
    drop(spool, `uwsgi_spoolfile_on_t_${i}`, packet(vars, body))
  const ini = { plugin: shape.plugin, master: true, 'spooler-frequency': 1, ...shape.ini }
  let process: TestProcess
  if (by === 'spoold')
    process = await startDaemon({
      spool,
      isForeign: true,
      ini: { ...ini, python: PYTHON, 'spooler-processes': 2 },
    })
  else {
    writeIni(join(home, 'app.ini'), {
      ...ini,
      spooler: spool,
      socket: 'app.sock',
      'die-on-term': true,
      'worker-reload-mercy': 2,
    })
    process = new TestProcess('uwsgi', [join(home, 'app.ini')], { cwd: home })
  }
  await until(
    `${shape.lines.length} lines are journaled`,
    () => unique(readJournal(home)).length >= shape.lines.length && leftIn(spool).length === 0,
  ).catch(error => {
    throw new Error(`${error}\n${process.output}`)
  })
  process.child.kill('SIGINT')
  await process.exited
  return unique(readJournal(home))
}

function unique(lines: readonly string[]): string[] {
  return [...new Set(lines)].sort()
}

function write(home: string, files: Readonly<Record<string, string>>): void {
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

  async function start(files: Shape['files'], ini: Ini, isUnready = false): Promise<Daemon> {
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
    until(`${count} tasks ran`, () => daemon.journal().length >= count).catch(error => {
      throw new Error(`${error}\n${daemon.output}`)
    })
  const spoolOf = (daemon: Daemon) => join(daemon.directory, 'spool')

  it('stores a task once a daemon, and once more for each reload', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler\nassert uwsgi.spool({b'n': b'boot'}).startswith(b'/')\n`
    const daemon = await start(
      { 'tasks.py': source },
      { import: 'tasks.py', 'spooler-max-tasks': 1, 'spooler-processes': 2 },
    )
    for (let i = 0; i < 6; i++) drop(spoolOf(daemon), `uwsgi_spoolfile_on_${i}`, packet({ n: String(i) }))
    await ran(daemon, 7)
    assert.deepEqual(daemon.journal().sort(), ['0', '1', '2', '3', '4', '5', 'boot'])
    daemon.child.kill('SIGHUP')
    await ran(daemon, 8)
    assert.equal(daemon.journal().filter(line => line === 'boot').length, 2)
  })

  it('stores a task in each worker behind the fork', async () => {
    const daemon = await start(
      { 'tasks.py': `${HANDLER}uwsgi.spooler = spooler\nuwsgi.spool({b'n': b'mine'})\n` },
      { 'spooler-python-import': 'tasks.py', 'spooler-processes': 2 },
    )
    await ran(daemon, 2)
    assert.deepEqual(daemon.journal(), ['mine', 'mine'])
  })

  it('may leave threads running, which is said once', async () => {
    const source = `${HANDLER}uwsgi.spooler = spooler
import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True, name='poller').start()
`
    const daemon = await start({ 'tasks.py': source }, { import: 'tasks.py', 'spooler-processes': 2 })
    assert.equal(daemon.output.match(/left threads running .*: poller\./g)?.length, 1, daemon.output)
  })

  it('may fail when it is an application, as long as somebody else runs tasks', async () => {
    const files = { 'tasks.py': `${HANDLER}uwsgi.spooler = spooler\n`, 'web.py': 'def f(): nonsense\nf()\n' }
    const daemon = await start(files, { module: 'web', 'spooler-python-import': 'tasks.py' })
    await daemon.waitFor(
      /the application of module = web could not be loaded:\s+Traceback[\s\S]*web.py", line 1, in f[\s\S]*NameError/,
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })

  it('may fail when it has registered its handler before', async () => {
    const daemon = await start(
      { 'web.py': `${HANDLER}uwsgi.spooler = spooler\nnonsense\n` },
      { module: 'web' },
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })

  it('keeps the daemon from starting when nobody is left, or with need-app', async () => {
    const files = { 'tasks.py': `${HANDLER}uwsgi.spooler = spooler\n`, 'web.py': 'import no_such_thing\n' }
    const alone = await start(files, { module: 'web' }, true)
    assert.equal(await alone.code(), 1)
    assert.match(
      alone.output,
      /HANDLER_UNLOADABLE\] the application of module = web could not be loaded:[\s\S]*no_such_thing[\s\S]*python3 is the interpreter: install the package there/,
    )
    const needed = await start(files, { module: 'web', 'spooler-import': 'tasks.py', 'need-app': true }, true)
    assert.equal(await needed.code(), 1)
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
    }
    const without = await start(files, { module: 'web', lazy: true }, true)
    assert.equal(await without.code(), 1)
    assert.match(
      without.output,
      /there is no handler: lazy-apps leaves out the application that module names/,
    )
  })

  it('that registers no handler is told of at the start', async () => {
    const daemon = await start({ 'tasks.py': 'import uwsgi\n' }, { 'spooler-import': 'tasks.py' })
    assert.match(daemon.output, /Python code registered no handler/)
  })

  it('may be a file without an ending, in another directory', async () => {
    const daemon = await start(
      { 'code/tasks': `${HANDLER}uwsgi.spooler = spooler\n` },
      { 'spooler-import': './code/tasks' },
    )
    drop(spoolOf(daemon), undefined, packet({ n: 'x' }))
    await ran(daemon, 1)
  })

  it('finds uwsgidecorators where uWSGI is not installed, and the real one before it', async () => {
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
    new URL('../../../src/worker/hosts/python/last_resort/uwsgidecorators.py', import.meta.url),
    'utf8',
  )
}

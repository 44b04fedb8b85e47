import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { kill } from 'node:process'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { snapshotOf } from '../helpers/control.js'
import { readJournal, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { type Requirement, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { DEBIAN, PYPI, UWSGIS, type Uwsgi } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

type Ini = Readonly<Record<string, string | number | boolean | readonly string[]>>

/** A web application and the ini that uWSGI has for it; JOURNAL in a file is the path of the journal. */
interface Shape {
  /** The plugin of a language that is not Python. */
  readonly plugin?: string
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

/** A module that makes an application, deep inside which an object sets the handler; the application needs a cache. */
const FACTORY: Shape = {
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
  const shapes: ReadonlyArray<readonly [string, Shape, readonly Uwsgi[], ...Requirement[]]> = [
    ['module, an object deep in a package', FACTORY, UWSGIS, 'python3'],
    ['spooler-import with the directory of a package', PACKAGE, UWSGIS, 'python3'],
    ['wsgi-file, which stores a task while it is loaded', WSGI_FILE, UWSGIS, 'python3'],
    ['module with a factory, and mount', MOUNTED, UWSGIS, 'python3'],
    ['psgi', PSGI, [DEBIAN], 'uwsgi-perl', 'perl'],
    ['rack', RACK, [DEBIAN], 'uwsgi-ruby', 'ruby'],
  ]
  for (const [name, shape, uwsgis, ...needs] of shapes)
    for (const uwsgi of uwsgis)
      it(`${name}: ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs, ...needs) }, async () => {
        assert.deepEqual(await linesOf(shape, uwsgi, 'uwsgi'), shape.lines)
        assert.deepEqual(await linesOf(shape, uwsgi, 'spoold'), shape.lines)
      })

  it('also with a mule in the ini, which uwsgi.opt does not show to the code', {
    skip: skipUnless('python3'),
  }, async () => {
    assert.deepEqual(
      await linesOf({ ...PACKAGE, ini: { ...PACKAGE.ini, mule: true } }, DEBIAN, 'spoold'),
      PACKAGE.lines,
    )
  })
})

/** What the test adds to a project that `startproject` has made. */
const DJANGO: Shape = {
  files: {
    'jobs.py': `${JOURNAL}
import time, mysite.wsgi # before uWSGI loads it: the hours are of its zone
from concurrent.futures import ProcessPoolExecutor
from uwsgidecorators import cron, spool
for hour in { time.localtime(time.time() + s).tm_hour for s in (0, 60) }: # uWSGI fires at once what matches the minute in which it starts
    cron(-1, hour, -1, -1, -1, target='spooler')(lambda number: journal(time.strftime('cron, by the clock of %z')))
def square(n): return n * n
def lookup(): raise KeyError('no such order')
@spool
def pooled(arguments):
    with ProcessPoolExecutor(2) as pool: journal('pool: %s' % list(pool.map(square, range(4))))
@spool
def chained(arguments):
    try: lookup()
    except KeyError as error: raise RuntimeError('cannot be booked') from error
`,
  },
  ini: { module: 'mysite.wsgi', import: 'jobs', pythonpath: sitePackages() },
  tasks: ['pooled', 'chained'].map(name => ({ ud_spool_func: name, ud_spool_ret: '-2' })),
  lines: ['cron, by the clock of +0530', 'pool: [0, 1, 4, 9]'],
}

function sitePackages(): string {
  const lib = join(virtualenv('contrib'), 'lib')
  return join(lib, existsSync(lib) ? (readdirSync(lib)[0] ?? '') : '', 'site-packages')
}

const KOLKATA = new Intl.DateTimeFormat('en', { timeZone: 'Asia/Kolkata', hour: 'numeric' })
const hourInKolkata = (ms: number) => KOLKATA.format(ms)

/** The lines of an exception chain in the log: the errors, and the lines of the project. */
const CHAIN = /(?:KeyError|RuntimeError): .*|The above exception .*|jobs\.py", line \d+, in .*/g

describe('a project of Django’s startproject with TIME_ZONE = Asia/Kolkata, on a machine in UTC', {
  skip: skipUnless('venv:contrib', 'venv:uwsgi'),
}, () => {
  async function ran(by: 'uwsgi' | 'spoold') {
    const spool = spoolDirectory()
    const home = dirname(spool)
    const env = { ...process.env, TZ: 'UTC' }
    execFileSync(join(virtualenv('contrib'), 'bin/python'), ['-m', 'django', 'startproject', 'mysite', home])
    const settings = join(home, 'mysite/settings.py')
    writeFileSync(settings, readFileSync(settings, 'utf8').replace("'UTC'", "'Asia/Kolkata'"))
    const began = hourInKolkata(Date.now())
    const running = await start(spool, DJANGO, PYPI, by, env)
    if (by === 'spoold')
      for (const { id, zone, nextAtMs } of (await snapshotOf(spool)).schedules) {
        assert.equal(zone, 'Asia/Kolkata')
        assert.ok([began, hourInKolkata(Date.now() + 60_000)].includes(hourInKolkata(nextAtMs ?? 0)))
        const { code, stderr } = await inProcess(['schedules', spool, '--run', id])
        assert.equal(code, 0, stderr)
      }
    await running.waitFor(/RuntimeError: cannot be booked/)
    await until('all lines are journaled', () => unique(readJournal(home)).length === DJANGO.lines.length)
    await stop(running)
    const [chain] = running.output.split(/(?<=RuntimeError: cannot be booked)/)
    return { lines: unique(readJournal(home)), chain: chain?.match(CHAIN) }
  }

  it('has the same times, results and log lines under spoold as under PyPI’s uWSGI', async () => {
    const [theirs, ours] = [await ran('uwsgi'), await ran('spoold')]
    assert.deepEqual(theirs.lines, DJANGO.lines)
    assert.deepEqual(ours, theirs)
    assert.equal(ours.chain?.length, 6, String(ours.chain))
  })
})

/** Runs the application until all tasks are gone. @returns the journal, sorted */
async function linesOf(shape: Shape, uwsgi: Uwsgi, by: 'uwsgi' | 'spoold'): Promise<string[]> {
  const spool = spoolDirectory()
  const home = dirname(spool)
  const running = await start(spool, shape, uwsgi, by)
  await until(
    `${shape.lines.length} lines are journaled`,
    () => unique(readJournal(home)).length >= shape.lines.length && leftIn(spool).length === 0,
  ).catch(error => {
    throw new Error(`${error}\n${running.output}`)
  })
  await stop(running)
  return unique(readJournal(home))
}

/** Writes the files and the tasks, and starts what reads the ini: a uWSGI, or spoold. */
async function start(
  spool: string,
  shape: Shape,
  uwsgi: Uwsgi,
  by: 'uwsgi' | 'spoold',
  env = process.env,
): Promise<TestProcess> {
  const home = dirname(spool)
  write(home, shape.files)
  for (const [i, { body, ...vars }] of shape.tasks.entries())
    drop(spool, `uwsgi_spoolfile_on_t_${i}`, packet(vars, body))
  const ini = { master: true, 'spooler-frequency': 1, ...shape.ini }
  if (by === 'spoold')
    return startDaemon({
      spool,
      isForeign: true,
      ini: { ...ini, ...uwsgi.samePython, 'spooler-processes': 2 },
      env,
    })
  writeIni(join(home, 'app.ini'), {
    ...(shape.plugin === undefined ? uwsgi.python : { plugin: shape.plugin }),
    ...ini,
    spooler: spool,
    socket: 'app.sock',
    'die-on-term': true,
    'worker-reload-mercy': 2,
  })
  return new TestProcess(uwsgi.command, [join(home, 'app.ini')], { cwd: home, env })
}

async function stop(running: TestProcess): Promise<void> {
  running.child.kill('SIGINT')
  // uWSGI may miss the signal
  await running.code().catch(() => {
    for (const pid of [...running.children(), running.pid]) kill(pid, 'SIGKILL')
  })
  await running.exited
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

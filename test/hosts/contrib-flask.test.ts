import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { type Requirement, skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { ROOT, workspace } from '../helpers/workspace.js'
import { programs, pythonEnv } from './named-host.js'
import { Snippets } from './python-snippets.js'

const PRELUDE = `
import asyncio, flask
from flask import Flask, Blueprint, current_app, g
from spoold import Tasks, UnknownTask, DestinationUnknown, current_job
from spoold.contrib.flask import Spoold, register_tasks
from spoold.testing import fake, inline
flask_tasks = lambda app: app.extensions['spoold']
def made(name, **config):
    app = Flask(name)
    app.config.update({'SPOOLD_' + key: value for key, value in config.items()})
    return app
`

const SNIPPETS: Readonly<Record<string, string>> = {
  'runs tasks that a view schedules by name or function in the context of the application': `
app = made('shop')
spoold = Spoold(app)
ran = []
@spoold.task(name='say-hello')
def say_hello(to): ran.append((current_app.name, to, current_job().namespace))
@app.route('/')
def home():
    spoold.schedule('say-hello', 'joe'); spoold.schedule(say_hello, to='jane')
    return 'ok'
with fake(flask_tasks(app)) as kit:
    assert app.test_client().get('/').data == b'ok'
    assert not flask.has_app_context()
    kit.drain()
assert ran == [('shop', 'joe', 'shop'), ('shop', 'jane', 'shop')], ran`,
  'schedules the tasks of all registries of a factory with blueprints, even if they are added later': `
spoold, ran = Spoold(), []
tasks = Tasks()
blueprint = Blueprint('auth', 'auth')
@blueprint.route('/')
def create_user(): return str(spoold.schedule('welcome').namespace)
def create_app(name):
    app = made(name)
    spoold.init_app(app)
    app.register_blueprint(blueprint)
    spoold.register_tasks(app, tasks)
    return app
app = create_app('site')
@tasks.task(name='welcome')
def welcome(): ran.append('welcome in %s' % current_app.name)
@spoold.task(name='own')
def own(): ran.append('own')
with fake(flask_tasks(app)) as kit:
    assert app.test_client().get('/').data == b'site'
    with app.app_context(): spoold.schedule(own); spoold.schedule(welcome)
    kit.drain()
assert ran == ['welcome in site', 'own', 'welcome in site'], ran`,
  'names what is missing: init_app, an application context, the task or its spool': `
app = made('bare')
raises(RuntimeError, 'Did you forget to call init_app?', lambda: register_tasks(app, Tasks()))
raises(RuntimeError, 'with app.app_context():', lambda: Spoold().schedule('x'))
spoold = Spoold(app)
spoold.add(print, 'p')
raises(UnknownTask, 'it has: p', lambda: spoold.schedule('q'))
raises(DestinationUnknown, 'SPOOLD_ENQUEUE_TO', lambda: spoold.schedule('p'))`,
  'keeps two applications of one interpreter apart, even if they share a task': `
spoold, ran = Spoold(), []
one, two = made('one', ENQUEUE_TO=spool()), made('two', ENQUEUE_TO=spool(), NAMESPACE='zwei')
for app in (one, two): spoold.init_app(app)
@spoold.task(name='who')
def who(): ran.append((current_app.name, current_job().namespace))
for app in (one, two):
    with app.app_context(): job = spoold.schedule(who)
    assert [each['task'] for each in stored(app.config['SPOOLD_ENQUEUE_TO'])] == [job.namespace + ':who']
import spoold.run as run
for name in (b'one:who', b'zwei:who'): run.begin({b'task': name}, 1).perform()
assert ran == [('one', 'one'), ('two', 'zwei')], ran`,
  'gives each run a context of its own, whose teardown gets what the task raised': `
app = made('torn')
spoold, seen = Spoold(app), []
@app.teardown_appcontext
def down(error): seen.append(error)
@spoold.task(name='fails')
def fails():
    assert not hasattr(g, 'left'); g.left = 1
    raise ValueError('no')
@spoold.task(name='works')
def works():
    assert not hasattr(g, 'left'); g.left = 1
with fake(flask_tasks(app)) as kit:
    for task in (fails, works, works): spoold.schedule(task)
    runs = kit.drain()
assert [type(each) for each in seen] == [ValueError, type(None), type(None)], seen
assert [type(each.error) for each in runs] == [ValueError, type(None), type(None)]`,
  'pushes one context even after two calls of init_app, and none inside a context of the application': `
pushed = []
class Counts(Flask):
    def app_context(self): pushed.append(1); return super().app_context()
app = Counts('twice')
spoold = Spoold(app)
spoold.init_app(app)
@spoold.task(name='look')
def look(): g.seen = current_app.name
with fake(flask_tasks(app)) as kit:
    spoold.schedule(look); kit.drain()
assert len(pushed) == 1, pushed
with app.app_context(), inline(flask_tasks(app)):
    spoold.schedule(look)
    assert g.seen == 'twice'
assert len(pushed) == 2, pushed`,
  'takes SPOOLD_ENQUEUE_TO as text, dictionary, broker or relative path, or else from the environment': `
from unittest import mock
from pathlib import Path
a, b = spool(), spool()
for told in ('%s,mail=%s' % (a, b), {'default': a, 'mail': Path(b)}):
    spoold = Spoold(made('places', ENQUEUE_TO=told))
    spoold.add(lambda: 0, 'x'); spoold.add(lambda: 0, 'y', queue='mail'); spoold.add(lambda: 0, 'z', queue='none')
    assert [spoold.tasks.place_of(each) for each in 'xy'] == [a, b]
    raises(DestinationUnknown, 'no spool is known for the queue none', lambda: spoold.schedule('z'))
from spoold import Engine, MemoryBroker
broker, ran = MemoryBroker(), []
spoold = Spoold(made('memory', ENQUEUE_TO=broker)); spoold.add(lambda: ran.append(current_app.name), 'x')
spoold.schedule('x')
workers = Engine(broker); workers.attach_tasks(spoold.tasks)
workers.start_workers(stop_when_queue_empty=True)
assert ran == ['memory'], ran
app = made('below', ENQUEUE_TO='spool')
app.root_path = spool()
os.mkdir(os.path.join(app.root_path, 'spool'))
spoold = Spoold(app); spoold.add(lambda: 0, 'x')
assert spoold.tasks.place_of('x') == os.path.join(app.root_path, 'spool')
with mock.patch.dict(os.environ, {'SPOOLD_ENQUEUE_TO': b}):
    spoold = Spoold(made('env')); spoold.add(lambda: 0, 'x')
    assert spoold.tasks.place_of('x') == b`,
  'has its command run the queues of this machine or the named ones, and refuse the queue of a daemon': `
from spoold.contrib.command import arguments
a, b = spool(), spool()
places = {'default': a, 'mail': 'host:1', 'slow': b}
def spools(*queues, told=places):
    words = arguments(told, 'worker', queues)
    return [words[i + 1] for i, word in enumerate(words) if word == '--spooler']
assert spools() == [a, b] and spools('slow') == [b]
words = arguments(places, 'worker', others=['--x'])
assert [words[i + 1] for i, word in enumerate(words) if word == '--spooler-queue'] == ['mail=host:1', 'slow=' + b] and words[-1] == '--x'
raises(DestinationUnknown, 'goes to a daemon, host:1, which runs its tasks itself', lambda: spools('mail'))
raises(DestinationUnknown, 'goes to a daemon', lambda: spools(told='@abstract'))`,
  'calls job_started and job_finished of a subclass in the context of the run': `
heard = []
class Loud(Spoold):
    def job_started(self, job): heard.append(('start', job.task_name, current_app.name))
    def job_finished(self, job): heard.append(('end', job.task_name, current_app.name))
app = made('loud')
spoold = Loud(app)
@spoold.task(name='t')
def t(): heard.append('run'); raise ValueError
with fake(flask_tasks(app)) as kit:
    spoold.schedule(t); kit.drain()
assert heard == [('start', 't', 'loud'), 'run', ('end', 't', 'loud')], heard`,
  'calls receivers of signals in a context of the application, and job_failed of a subclass once': `
from spoold import signals
heard = []
class Loud(Spoold):
    def job_failed(self, job, err): heard.append(('failed', job.task_name, repr(err), current_app.name))
spoold = Loud()
def create_app():
    app = made('told')
    spoold.init_app(app)
    return app
create_app()
app = create_app()
@spoold.task(name='bad', max_retries=1)
def bad(): raise ValueError(g.get('left'))
for name in ('job_started', 'job_schedule_retry', 'job_failed', 'job_finished'):
    def hear(namespace, job, name=name, **_):
        heard.append((name, current_app.name, job.status.name))
        g.left = 'left'
    getattr(signals, name).connect(hear, 'told')
@app.teardown_appcontext
def down(error):
    if 'left' in g: raise OSError('harms no task')
with fake(flask_tasks(app)) as kit:
    with app.app_context(): spoold.schedule(bad)
    runs = kit.drain(future=True)
assert [repr(each.error) for each in runs] == ['ValueError(None)'] * 2, runs
assert heard == [('job_started', 'told', 'RUNNING'), ('job_schedule_retry', 'told', 'WAITING'), ('job_finished', 'told', 'WAITING'),
    ('job_started', 'told', 'RUNNING'), ('failed', 'bad', 'ValueError(None)', 'told'), ('job_failed', 'told', 'FAILED'), ('job_finished', 'told', 'FAILED')], heard
assert not flask.has_app_context()`,
  'gives coroutines that run side by side contexts of their own': `
import spoold.run as run
spoold, seen, apps = Spoold(), {}, [made('left'), made('right')]
for app in apps: spoold.init_app(app)
@spoold.task(name='co')
async def co():
    g.mine = current_app.name
    await asyncio.sleep(0.01)
    seen.setdefault(current_app.name, []).append(g.mine)
async def main():
    runs = [run.begin({b'task': name}, 1) for name in (b'left:co', b'right:co') * 20]
    await asyncio.gather(*(each.perform_async() for each in runs))
asyncio.run(main())
assert seen == {'left': ['left'] * 20, 'right': ['right'] * 20}, seen`,
}

const VERSIONS: ReadonlyArray<readonly [name: string, need: Requirement, venv: string]> = [
  ['Flask 3.1', 'venv:contrib', 'contrib'],
  ['Flask 2.2', 'venv:contrib-oldest', 'contrib-oldest'],
]
for (const [name, need, venv] of VERSIONS)
  describe(`${name}, in the process`, { skip: skipUnless(need) }, () => {
    const python = new Snippets(PRELUDE, join(virtualenv(venv), 'bin/python'))
    for (const [title, code] of Object.entries(SNIPPETS)) python.it(title, code)
  })

const FACTORY = `
import os
from flask import Flask, current_app
from spoold import AbortException
from spoold.contrib.flask import Spoold
from words import WORD
spoold = Spoold()
def journal(line):
    with open(os.environ['JOURNAL'], 'a') as file: file.write(line + '\\n')
@spoold.task(name='note')
def note(what):
    if what == 'fail': raise AbortException('no use')
    journal('%s %s in %s' % (WORD, what, current_app.name))
    if what == 'again': spoold.schedule(note, 'scheduled by a task')
def create_app(name='factory'):
    app = Flask(name)
    app.config['SPOOLD_ENQUEUE_TO'] = os.environ['SPOOL']
    spoold.init_app(app)
    @app.route('/<what>')
    def home(what): return str(spoold.schedule(note, what).id)
    return app
`

describe('flask spoold', { skip: skipUnless('venv:contrib') }, () => {
  const directory = workspace()
  const bin = programs()
  const spool = join(directory, 'spool')
  const journal = join(directory, 'journal')
  before(() => {
    mkdirSync(spool)
    writeFileSync(join(directory, 'factory.py'), FACTORY)
    writeFileSync(join(directory, 'words.py'), "WORD = 'first'\n")
    writeFileSync(journal, '')
  })
  const lines = () => readFileSync(journal, 'utf8').split('\n').filter(Boolean)
  const env = (more: NodeJS.ProcessEnv = {}) => ({
    ...pythonEnv(),
    PATH: `${bin}:${process.env.PATH}`,
    SPOOL: spool,
    JOURNAL: journal,
    // the daemon takes none of these for an option
    SPOOLD_ENQUEUE_TO: join(directory, 'elsewhere'),
    SPOOLD_NAMESPACE: 'elsewhere',
    SPOOLD_ACTUAL_EMAIL_BACKEND: 'elsewhere',
    SPOOLD_CLEAR_SESSIONS_PERIODICITY: '7',
    ...more,
  })
  const flask = (...args: string[]) =>
    new TestProcess(join(virtualenv('contrib'), 'bin/flask'), args, { cwd: directory, env: env() })
  function visit(...paths: string[]) {
    const code = `import sys, factory
client = factory.create_app().test_client()
for path in sys.argv[1:]: assert client.get('/' + path).status_code == 200`
    const python = join(virtualenv('contrib'), 'bin/python')
    execFileSync(python, ['-c', code, ...paths], { cwd: directory, env: { ...process.env, ...env() } })
  }

  it('runs the tasks of the application that Flask finds, reloads changed code, and ends at SIGTERM without a warning', async () => {
    visit('one', 'again')
    const daemon = flask('--app', 'factory:create_app("factory")', '--debug', 'spoold', '--processes', '2')
    await until('the three tasks have run', () => lines().length === 3)
    assert.deepEqual(lines().sort(), [
      'first again in factory',
      'first one in factory',
      'first scheduled by a task in factory',
    ])
    writeFileSync(join(directory, 'words.py'), 'WORD = (\n') // half written
    await daemon.waitFor(/SyntaxError/)
    writeFileSync(join(directory, 'words.py'), "WORD = 'second word'\n")
    await daemon.waitFor(/reloaded/)
    visit('two')
    await until('the new code has run', () => lines().includes('second word two in factory'))
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.doesNotMatch(daemon.output, /warning|elsewhere/)
    assert.deepEqual(leftIn(spool), [])
  })

  it('exits with the code of the daemon, and a service runs the same application by one line of its ini', async () => {
    visit('fail')
    const drained = flask('--app', 'factory', 'spoold', '--drain')
    assert.equal(await drained.code(), 3, drained.output)
    assert.match(drained.output, /no use/)
    visit('three')
    const ini = join(directory, 'app.ini')
    writeFileSync(
      ini,
      `[uwsgi]\nspooler = ${spool}\nenv = FLASK_APP=factory\nimport = spoold.contrib.flask.worker\n`,
    )
    const python = ['--python', join(virtualenv('contrib'), 'bin/python'), '--pythonpath', directory]
    const service = await spoold(['--drain', ini, ...python], { env: env() })
    assert.equal(service.code, 0, service.stderr)
    assert.match(lines().at(-1) ?? '', / three in factory$/)
  })

  it('runs as a command of a FlaskGroup program, or says that the workers find no name for its factory', async () => {
    const group = (create: string) => `import factory
from flask.cli import FlaskGroup
def create_app(): return factory.create_app('own')
if __name__ == '__main__': FlaskGroup(create_app=${create})()
`
    mkdirSync(join(directory, 'tools'))
    writeFileSync(join(directory, 'tools/manage.py'), group('create_app'))
    writeFileSync(join(directory, 'nameless.py'), group('lambda: create_app()'))
    const python = join(virtualenv('contrib'), 'bin/python')
    const run = (...words: string[]) =>
      new TestProcess(python, [...words, 'spoold', '--drain'], {
        cwd: directory,
        env: env({ PYTHONPATH: [pythonEnv().PYTHONPATH, directory].join(':') }),
      })
    for (const words of [['tools/manage.py'], ['-m', 'tools.manage']]) {
      execFileSync(
        python,
        [
          '-c',
          "import factory\nwith factory.create_app('own').app_context(): factory.spoold.schedule('note', 'four')",
        ],
        { cwd: directory, env: { ...process.env, ...env() } },
      )
      const program = run(...words)
      assert.equal(await program.code(), 0, program.output)
      assert.match(lines().at(-1) ?? '', / four in own$/)
    }
    const nameless = run('nameless.py')
    assert.equal(await nameless.code(), 1, nameless.output)
    assert.match(
      nameless.output,
      /^Error: the workers make the application themselves, and find no name for <function <lambda> at /m,
    )
  })

  it('refuses an unknown queue, and a missing program spoold, before it starts', async () => {
    const wrong = flask('--app', 'factory', 'spoold', '--queue', 'mail')
    assert.equal(await wrong.code(), 1)
    assert.match(wrong.output, /^Error: no spool is known for the queue mail \(known: default\)/m)
    const missing = new TestProcess(
      join(virtualenv('contrib'), 'bin/flask'),
      ['--app', 'factory', 'spoold'],
      {
        cwd: directory,
        env: env({ PATH: '/nowhere' }),
      },
    )
    assert.equal(await missing.code(), 1)
    assert.match(missing.output, /^Error: the program spoold is neither in the PATH/m)
  })
})

const FULL = `
import os, subprocess, sys, flask
from spoold import Batch, DestinationUnknown
from spoold.contrib.flask import Spoold
disk = sys.argv[1]
spool, away = disk + '/spool', disk + '/away'
os.mkdir(spool)
app = flask.Flask('app')
app.testing = True # what the view raises comes here
app.config['SPOOLD_ENQUEUE_TO'] = spool
spoold = Spoold(app)
spoold.add(lambda *args: 0, 't')
@app.route('/one')
def one(): return str(spoold.schedule('t', 'x' * 5000).id)
@app.route('/three')
def three():
    batch = Batch()
    for _ in range(3): batch.schedule('t', 'x' * 5000)
    return str(len(spoold.schedule_batch(batch)))
def refused(kind, text):
    for path in ('/one', '/three'):
        try: app.test_client().get(path)
        except Exception as error: assert type(error) is kind and text in str(error) and spool in str(error), repr(error)
        else: raise AssertionError('stored, though ' + text)
os.rename(spool, away)
refused(DestinationUnknown, 'there is no spool directory')
assert not os.path.exists(spool)
os.rename(away, spool)
subprocess.run(['mount', '-o', 'remount,ro', disk], check=True)
refused(OSError, 'Read-only file system')
subprocess.run(['mount', '-o', 'remount,rw', disk], check=True)
assert os.listdir(spool) == [], os.listdir(spool)
filler = os.open(disk + '/filler', os.O_CREAT | os.O_WRONLY)
try:
    while True: os.write(filler, bytes(4096))
except OSError: pass
refused(OSError, 'No space left on device; make room')
assert os.listdir(spool) == [], os.listdir(spool)
os.ftruncate(filler, os.fstat(filler).st_size - 5 * 4096) # two tasks fit
try: app.test_client().get('/three')
except OSError as error: assert 'No space left on device' in str(error), error
assert os.listdir(spool) == [], os.listdir(spool)
assert app.test_client().get('/one').status_code == 200
assert len(os.listdir(spool)) == 1, os.listdir(spool)
`

describe('a view that schedules', { skip: skipUnless('venv:contrib', 'root', 'mount') }, () => {
  it('raises an error if the spool is gone, read-only or full, and nothing is half stored', () => {
    const python = join(virtualenv('contrib'), 'bin/python')
    execFileSync(python, ['-c', FULL, smallDisk('size=256k')], { env: { ...process.env, ...pythonEnv() } })
  })
})

describe('the Flask example', { skip: skipUnless('venv:contrib') }, () => {
  it('schedules a task for an order, and the daemon runs it', async () => {
    const directory = join(workspace(), 'flask')
    cpSync(join(ROOT, 'spool-examples/flask'), directory, { recursive: true })
    const manual = readFileSync(join(ROOT, 'docs/flask-and-django.md'), 'utf8')
    assert.ok(manual.includes(readFileSync(join(directory, 'shop.py'), 'utf8')), 'the manual has the same')
    mkdirSync(join(directory, 'spool'), { recursive: true })
    const python = join(virtualenv('contrib'), 'bin/python')
    const code = `import shop
answer = shop.app.test_client().post('/orders', data={'to': 'jane@example.com'})
assert answer.status_code == 202, answer`
    execFileSync(python, ['-c', code], { cwd: directory, env: { ...process.env, ...pythonEnv() } })
    const ran = await spoold(['--drain', join(directory, 'app.ini'), '--python', python], {
      env: pythonEnv(),
    })
    assert.equal(ran.code, 0, ran.stderr)
    assert.match(ran.stdout + ran.stderr, /The Corner Shop: a receipt over 42 for jane@example\.com/)
    assert.deepEqual(leftIn(join(directory, 'spool')), [])
  })
})

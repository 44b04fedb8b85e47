import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { ARGS_KEY, TASK_KEY } from '#src/formats/protocol/named.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { type Requirement, skipUnless } from '../helpers/requires.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'
import { programs, pythonEnv } from './named-host.js'
import { Snippets } from './python-snippets.js'

const EXAMPLE = join(ROOT, 'spool-examples/django')

/** One project for all snippets of an interpreter: that of the example, with a second application. */
const PRELUDE = `
import shutil, unittest, io
from django.conf import settings
HOME = os.environ['WORKSPACE']
if not settings.configured:
    shutil.copytree(${JSON.stringify(EXAMPLE)}, os.path.join(HOME, 'site'))
    os.mkdir(os.path.join(HOME, 'site', 'shop'))
    for name, text in (('__init__', ''), ('tasks', 'from spoold import Tasks\\ntasks = Tasks(queue="mail")\\n@tasks.task(name="shop:sell")\\ndef sell(*args): pass')):
        with open(os.path.join(HOME, 'site', 'shop', name + '.py'), 'w') as file: file.write(text)
    sys.path.insert(0, os.path.join(HOME, 'site'))
    import mysite.settings as module
    module.INSTALLED_APPS.append('shop')
    module.SPOOLD_ENQUEUE_TO = {'default': spool(), 'mail': spool()}
    os.environ['DJANGO_SETTINGS_MODULE'] = 'mysite.settings'
    import django
    django.setup()
    from django.core.management import call_command
    call_command('migrate', verbosity=0)
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import TestCase, override_settings
from polls.models import Question
from polls.tasks import close
from spoold import Batch, DestinationUnknown, InvalidJobSignatureError, JobStatus, Tasks
from spoold.contrib.django import on_commit, schedule_on_commit, spoold
from spoold.testing import fake, inline
import spoold.run as run
Question.objects.all().delete()
place = settings.SPOOLD_ENQUEUE_TO['default']
for name in tasks_in(place): os.unlink(os.path.join(place, name))
def perform(function):
    """As in a worker: a task of this function runs, which has a name of its own."""
    title = 't%d' % len(spoold.names); spoold.add(function, title)
    return run.begin({b'task': title.encode()}, 1).perform()
def checked():
    from spoold.contrib.django.checks import check_spools
    return [(each.id, each.msg) for each in check_spools()]
`

const SNIPPETS: Readonly<Record<string, string>> = {
  'schedules the tasks of all applications by name or function': `
from shop.tasks import sell, tasks as shop
job = spoold.schedule('polls:close', 1); spoold.schedule(close, 2); spoold.schedule(sell); shop.schedule('shop:sell')
assert [each['args'] for each in stored(place)] == ['[1]', '[2]'] and job.namespace == 'spoold'
assert len(stored(settings.SPOOLD_ENQUEUE_TO['mail'])) == 2
assert set(spoold.names) >= {'polls:close', 'shop:sell', 'spoold:clear-sessions'}`,
  'refuses a model instance as an argument, and the message says what to pass': `
question = Question.objects.create(text='why')
raises(InvalidJobSignatureError, 'argument 1 is a Question, pass its pk', lambda: spoold.schedule(close, question))
raises(InvalidJobSignatureError, 'pk is a Question, pass its pk', lambda: spoold.schedule(close, pk=question))
assert stored(place) == []`,
  'stores a task that is scheduled on commit when the transaction commits, and never if it is rolled back': `
with transaction.atomic():
    job = schedule_on_commit(close, 1)
    with on_commit():
        batch = Batch(); batch.schedule(close, 2); batch.schedule(close, 3); spoold.schedule_batch(batch)
    spoold.schedule(close, 'at once')
    raises(InvalidJobSignatureError, 'do not fit', lambda: schedule_on_commit(close))
    assert job.status is JobStatus.NOT_SET and [each['args'] for each in stored(place)] == ['["at once"]']
assert [each['args'] for each in stored(place)] == ['["at once"]', '[1]', '[2]', '[3]']
try:
    with transaction.atomic(): schedule_on_commit(close, 4); raise KeyError
except KeyError: pass
assert len(stored(place)) == 4
assert schedule_on_commit(close, 5).status is JobStatus.QUEUED and len(stored(place)) == 5`,
  'raises in the view if the spool is gone at the commit, though the transaction is committed': `
gone = spool()
def view():
    with transaction.atomic():
        schedule_on_commit(close, Question.objects.create(text='kept').pk)
        os.rmdir(gone)
with override_settings(SPOOLD_ENQUEUE_TO=gone): raises(FileNotFoundError, gone, view)
assert Question.objects.count() == 1 and not os.path.exists(gone) and stored(place) == []`,
  'reads its settings at each use, so that a test may override them': `
other = spool()
with override_settings(SPOOLD_ENQUEUE_TO=other, SPOOLD_NAMESPACE='site2'):
    assert spoold.place_of('polls:close') == other and spoold.schedule('polls:close', 1).namespace == 'site2'
    assert [each['task'] for each in stored(other)] == ['site2:polls:close']
    raises(DestinationUnknown, 'queue mail', lambda: spoold.schedule('shop:sell'))
with override_settings(SPOOLD_ENQUEUE_TO='%s,mail=@abstract' % other):
    assert spoold.place_of('shop:sell') == '@abstract'
with override_settings(SPOOLD_ENQUEUE_TO=None):
    raises(DestinationUnknown, 'nothing says where tasks go', lambda: spoold.schedule('polls:close', 1))
assert spoold.place_of('polls:close') == place and spoold.schedule('polls:close', 1).namespace == 'spoold'`,
  'TestCase: the view schedules on commit, and the task runs in the transaction of the test': `
from django.test import Client
class Test(TestCase):
    def test(self):
        with fake(spoold) as kit:
            with self.captureOnCommitCallbacks(execute=True): assert self.client.get('/ask/why').status_code == 202
            kit.assert_scheduled(close, Question.objects.get().pk)
            runs = kit.drain()
            assert runs[0].error is None, runs
            assert connection.in_atomic_block and Question.objects.count() == 0
result = unittest.TestResult()
with override_settings(ALLOWED_HOSTS=['testserver']): unittest.defaultTestLoader.loadTestsFromTestCase(Test).run(result)
assert result.testsRun == 1 and not result.errors + result.failures, result.errors + result.failures`,
  'closes an expired connection in the thread of sync_to_async before and after a coroutine': `
from asgiref.sync import sync_to_async
there = lambda function: run.event_loop().run_until_complete(sync_to_async(function)())
async def count(): return await sync_to_async(Question.objects.count)(), await sync_to_async(lambda: connection.connection)()
connections['default'].settings_dict['CONN_MAX_AGE'] = 60
try:
    old = there(lambda: Question.objects.count() or connection.connection)
    assert perform(count) == (0, old), old
    there(lambda: setattr(connection, 'close_at', 1))
    assert perform(count)[1] is not old
    there(lambda: setattr(connection, 'close_at', 1))
    async def fails(): there_is_none
    raises(NameError, '', lambda: perform(fails))
    assert there(lambda: connection.connection) is None
finally: connections['default'].settings_dict['CONN_MAX_AGE'] = 0`,
  'rolls back a transaction that a task leaves open, before the next task runs': `
def by_hand(): transaction.set_autocommit(False); Question.objects.create(text='half'); raise ValueError
def entered(): transaction.atomic().__enter__(); Question.objects.create(text='half')
def count(): return Question.objects.count(), connection.in_atomic_block, connection.get_autocommit()
raises(ValueError, '', lambda: perform(by_hand))
assert perform(count) == (0, False, True), perform(count)
perform(entered)
assert perform(count) == (0, False, True)`,
  'opens a connection anew if it broke between two tasks, and forgets the logged queries of earlier tasks': `
def kill(): Question.objects.count(); connection.connection.close()
perform(kill)
assert perform(lambda: Question.objects.count()) == 0 and connection.connection is None
def queries(): Question.objects.count(); return len(connection.queries)
with override_settings(DEBUG=True):
    counts = []
    for _ in range(3): perform(lambda: counts.append(queries()))
assert len(set(counts)) == 1 and counts[0] > 0, counts`,
  'clears expired sessions, and logs a session engine that cannot clear instead of failing': `
from django.contrib.sessions.models import Session
from django.contrib.sessions.backends.db import SessionStore
from spoold.contrib.django.tasks import clear_expired_sessions
task = spoold.get('spoold:clear-sessions')
assert task.periodic['periodicity'] == 7 * 24 * 3600, task.periodic
Session.objects.all().delete()
for age in (-1, 1000):
    session = SessionStore(); session['x'] = 1; session.set_expiry(age); session.save()
with inline(spoold): spoold.schedule(clear_expired_sessions)
assert Session.objects.count() == 1
class Engine: 
    class SessionStore:
        @classmethod
        def clear_expired(cls): raise NotImplementedError
sys.modules['no_engine'] = Engine
records = []
class Keep(logging.Handler): emit = lambda self, record: records.append(record.getMessage())
keep = Keep(); logging.getLogger('spoold').addHandler(keep)
with override_settings(SESSION_ENGINE='no_engine'), inline(spoold): spoold.schedule(clear_expired_sessions)
logging.getLogger('spoold').removeHandler(keep)
assert 'no_engine does not clear' in records[0], records`,
  'manage.py check names what is wrong with the spools': `
from unittest import mock
assert checked() == [], checked()
raises_nothing = io.StringIO(); call_command('check', stdout=raises_nothing)
with override_settings(SPOOLD_ENQUEUE_TO=None): assert [each for each, _ in checked()] == ['spoold.W001']
with override_settings(SPOOLD_ENQUEUE_TO='%s/none' % place): assert checked() == [
    ('spoold.W002', 'The spool %s/none does not exist.' % place), ('spoold.E005', 'No spool is known for the queue mail of the task shop:sell.')], checked()
with override_settings(SPOOLD_ENQUEUE_TO={'default': '%s/none' % place, 'mail': '%s/none' % place}): call_command('migrate', verbosity=0)
raises(DestinationUnknown, 'SPOOLD_ENQUEUE_TO: two places for the queue default, a and b', lambda: override_settings(SPOOLD_ENQUEUE_TO='a,b').enable())
with override_settings(SPOOLD_ENQUEUE_TO=None), mock.patch.dict(os.environ, {'SPOOLD_ENQUEUE_TO': 'a,b'}):
    assert [each for each, _ in checked()] == ['spoold.E001']
with override_settings(SPOOLD_ENQUEUE_TO={'default': 'spool', 'mail': '@x'}): assert [each for each, _ in checked()] == ['spoold.E006']
with override_settings(SPOOLD_ENQUEUE_TO={'default': '/proc/version', 'mail': 'host:1'}):
    assert [each for each, _ in checked()] == ['spoold.E002']
own = os.stat(place).st_uid
with mock.patch('os.geteuid', return_value=own + 4711), mock.patch('os.stat', return_value=os.stat_result((0o40777, 0, 0, 0, own + 1, 0, 0, 0, 0, 0))):
    assert [each for each, _ in checked()] == ['spoold.W004'] * 2, checked()
    with mock.patch('os.access', return_value=False): assert [each for each, _ in checked()] == ['spoold.W003'] * 2, checked()`,
}

const VERSIONS: ReadonlyArray<readonly [name: string, need: Requirement, venv: string]> = [
  ['Django 5.2', 'venv:contrib', 'contrib'],
  ['Django 3.2', 'venv:contrib-oldest', 'contrib-oldest'],
  ['Django 6.1', 'venv:contrib-newest', 'contrib-newest'],
]
for (const [name, need, venv] of VERSIONS)
  describe(`${name}, in the process`, { skip: skipUnless(need) }, () => {
    const python = new Snippets(PRELUDE, join(virtualenv(venv), 'bin/python'))
    for (const [title, code] of Object.entries(SNIPPETS)) python.it(title, code)
  })

/** The settings that the test adds to the project of the example. */
const LOGGED = `
import os
ALLOWED_HOSTS = ['testserver']
SPOOLD_ENQUEUE_TO = {'default': BASE_DIR / 'spool', 'mail': BASE_DIR / 'mail'}
LOGGING = {
    'version': 1,
    'disable_existing_loggers': False,
    'formatters': {'line': {'format': '%(name)s %(levelname)s %(message)s'}},
    'handlers': {
        'file': {'class': 'logging.FileHandler', 'filename': BASE_DIR / 'django.log', 'formatter': 'line'},
        'console': {'class': 'logging.StreamHandler', 'formatter': 'line'},
    },
    'root': {'handlers': ['file', 'console'], 'level': 'WARNING'},
}
`

/** A task that fails, and one that is killed in its transaction, at its first run. */
const TROUBLE = `

@tasks.task(name='polls:fails', max_retries=3)
def fails(pk):
    Question.objects.get(pk=pk)

@tasks.task(name='polls:dies', max_retries=3)
def dies(mark):
    import os, signal
    from django.db import transaction
    with transaction.atomic():
        Question.objects.create(text='by dies')
        if not os.path.exists(mark):
            open(mark, 'x').close()
            os.kill(os.getpid(), signal.SIGKILL)
    print('rows of dies:', Question.objects.filter(text='by dies').count())
`

describe('manage.py spoold', { skip: skipUnless('venv:contrib') }, () => {
  const directory = join(workspace(), 'django')
  const bin = programs()
  const python = join(virtualenv('contrib'), 'bin/python')
  const env = {
    ...pythonEnv(),
    PATH: `${bin}:${process.env.PATH}`,
    DJANGO_SETTINGS_MODULE: 'mysite.settings',
  }
  const manage = (...args: string[]) =>
    new TestProcess(python, [join(directory, 'manage.py'), ...args], { cwd: '/', env })
  function visit(code: string) {
    const before = `import django; django.setup()
from django.test import Client
from polls.models import Question
`
    execFileSync(python, ['-c', before + code], { cwd: directory, env: { ...process.env, ...env } })
  }
  before(async () => {
    cpSync(EXAMPLE, directory, { recursive: true })
    const settings = join(directory, 'mysite/settings.py')
    writeFileSync(settings, readFileSync(settings, 'utf8') + LOGGED)
    const tasks = join(directory, 'polls/tasks.py')
    writeFileSync(tasks, readFileSync(tasks, 'utf8') + TROUBLE)
    for (const name of ['spool', 'mail']) mkdirSync(join(directory, name), { recursive: true })
    const migrate = manage('migrate', '--verbosity', '0')
    assert.equal(await migrate.code(), 0, migrate.output)
  })

  it('runs the tasks of the project, and logs a failure by the project’s logging and once in the daemon’s log', async () => {
    visit(`
from spoold.contrib.django import spoold
assert Client().get('/ask/why').status_code == 202
spoold.with_options().schedule('polls:fails', 4711)`)
    const daemon = manage('spoold', '--processes', '1')
    await daemon.waitFor(/closed question \d/)
    await daemon.waitFor(/DoesNotExist/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
    const log = readFileSync(join(directory, 'django.log'), 'utf8')
    assert.match(
      log,
      /^spoold\.job WARNING Error during execution 1\/4 of Job <polls:fails [\s\S]*\nTraceback [\s\S]*DoesNotExist/,
    )
    assert.equal(daemon.output.match(/^.*Traceback/gm)?.length, 1, daemon.output)
    assert.doesNotMatch(daemon.output, /warning|spoold\.job/)
    const left = leftIn(join(directory, 'spool'))
    assert.equal(left.length, 1, 'it runs again later')
    for (const name of left) rmSync(join(directory, 'spool', name))
  })

  it('runs a task again that was killed in a transaction, after the database has rolled it back', async () => {
    visit(`
from spoold.contrib.django import spoold
assert not Question.objects.filter(text='why').exists()
spoold.schedule('polls:dies', ${JSON.stringify(join(directory, 'mark'))})`)
    const daemon = manage('spoold')
    await daemon.waitFor(/rows of dies: \d/)
    assert.match(daemon.output, /rows of dies: 1$/m)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.deepEqual(leftIn(join(directory, 'spool')), [])
  })

  it('takes --queue, --drain and options of the daemon, and fails if no spool is known for the queue', async () => {
    const drained = manage('spoold', '--queue', 'mail', '--drain', '--', '--spooler-max-tasks', '5')
    assert.equal(await drained.code(), 0, drained.output)
    assert.match(drained.output, /drained: 0 done/)
    assert.doesNotMatch(drained.output, /spooler [^ ]*\/spool\b/)
    const wrong = manage('spoold', '--queue', 'none')
    assert.equal(await wrong.code(), 1)
    assert.match(
      wrong.output,
      /^CommandError: no spool is known for the queue none \(known: default, mail\)/m,
    )
  })

  it('has its project run as a service by one line of an ini, and the manual has the files of the project', async () => {
    visit("for path in ('/ask/who', '/thank'): assert Client().get(path).status_code == 202")
    const ran = await spoold(['--drain', join(directory, 'app.ini'), '--python', python], {
      env: pythonEnv(),
    })
    assert.equal(ran.code, 0, ran.stderr)
    assert.match(ran.stdout + ran.stderr, /closed question \d/)
    assert.match(ran.stdout + ran.stderr, /^Subject: Thank you$/m)
    const pages = ['flask-and-django.md', 'mail-errors-logs.md']
    const manual = pages.map(page => readFileSync(join(ROOT, 'docs', page), 'utf8')).join('')
    for (const file of ['polls/tasks.py', 'polls/views.py', 'polls/mail.py'])
      assert.ok(manual.includes(readFileSync(join(EXAMPLE, file), 'utf8')), file)
  })
})

it('a Django service loads the settings class that DJANGO_CONFIGURATION names', {
  skip: skipUnless('venv:configurations'),
}, async () => {
  const directory = join(workspace(), 'classes')
  cpSync(EXAMPLE, directory, { recursive: true })
  const settings = join(directory, 'mysite/settings.py')
  const [imports = '', ...rest] = readFileSync(settings, 'utf8').split(/(?=^BASE_DIR)/m)
  const body = rest.join('').replace(/^(?=.)/gm, '    ')
  writeFileSync(
    settings,
    `${imports}from configurations import Configuration\nclass Live(Configuration):\n${body}`,
  )
  const spool = spoolDirectory()
  drop(spool, undefined, packet({ [TASK_KEY]: 'polls:close', [ARGS_KEY]: '[1]' }))
  const daemon = await startDaemon({
    spool,
    isForeign: true,
    ini: {
      pythonpath: directory,
      virtualenv: virtualenv('configurations'),
      env: ['DJANGO_SETTINGS_MODULE=mysite.settings', 'DJANGO_CONFIGURATION=Live'],
      import: 'spoold.contrib.django.worker',
    },
  })
  await daemon.waitFor(/OperationalError: no such table: polls_question/)
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0, daemon.output)
})
